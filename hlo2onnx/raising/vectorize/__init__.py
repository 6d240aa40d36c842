"""Vectorization of loop bodies over trips."""

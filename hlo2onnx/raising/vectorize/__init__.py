"""Vectorization of loop bodies: over trips and over rows."""

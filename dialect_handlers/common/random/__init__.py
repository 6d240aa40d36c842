"""Generators of random bits."""

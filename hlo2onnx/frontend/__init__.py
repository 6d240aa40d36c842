"""Loads whatever comes in: JAX functions, exported programs, StableHLO text and files."""

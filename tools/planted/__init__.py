"""Faults planted in translated models, and whether a bisection names them."""

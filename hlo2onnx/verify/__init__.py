"""Compares a model with its program, finds where they part, and reports it."""

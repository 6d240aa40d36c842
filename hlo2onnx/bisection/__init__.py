"""Finds the op of a program from which on the model computes other numbers."""

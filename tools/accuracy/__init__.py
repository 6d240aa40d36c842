"""Errors of special functions: the functions, their grids and their exact values."""

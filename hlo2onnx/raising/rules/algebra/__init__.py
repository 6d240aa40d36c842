"""Rules for arithmetic, casts, indices and constants."""

"""How far special functions are from the truth: what to measure, where, and against what."""

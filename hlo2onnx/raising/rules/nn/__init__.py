"""Rules for the operators of neural networks."""

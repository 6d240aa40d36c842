"""What rewrite rules match: operands, loops, sums, recurrent cells, activations."""

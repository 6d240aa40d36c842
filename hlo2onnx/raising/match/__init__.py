"""What rewrite rules look for: loops, sums, recurrent cells, activations."""

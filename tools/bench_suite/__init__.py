"""The programs that tools/bench.py times beside the examples."""

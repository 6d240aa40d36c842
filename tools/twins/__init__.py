"""The benchmark's models written in PyTorch."""

"""Times of programs, in ONNX Runtime and in XLA."""

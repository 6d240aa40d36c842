"""How the time of a call grows with the number of elements, in ONNX Runtime and in XLA."""

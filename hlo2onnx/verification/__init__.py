"""Running a program in XLA and in ONNX Runtime, and comparing the two."""

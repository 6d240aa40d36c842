"""Building ONNX graphs: nodes with exact types at birth, shared constants, unique names."""

"""StableHLO to ONNX, one handler per op."""

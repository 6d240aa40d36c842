"""Measures how small `hlo2onnx.reduce` makes programs with planted failures."""

"""Handlers of the CHLO dialect: the client ops that ONNX has natively. The others are expanded."""

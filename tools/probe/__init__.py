"""Probes of ONNX Runtime: which kernels it has, which are right, which fusions are."""

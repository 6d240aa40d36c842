"""Quantized element types of MLIR, `!quant.uniform`."""

"""Programs of quantized types, and StableHLO's definition of them in NumPy."""

from __future__ import annotations

import numpy as np

from hlo2onnx.frontend.mlir.quantization import Quantization
from hlo2onnx.frontend.mlir.types import numpy_type

EXACT = {"nan": "xla"}
"""Options for exactly StableHLO's quantization, NaN included."""


def quantized(known: Quantization, x: np.ndarray) -> np.ndarray:
    """StableHLO's definition, in numpy."""
    scale, zero = parameters(known, x.dtype, x.ndim)
    with np.errstate(all="ignore"):
        rounded = np.rint(
            np.clip(x / scale + zero, x.dtype.type(known.low), x.dtype.type(known.high))
        )
    stored = numpy_type(known.storage)
    limits = np.iinfo(stored)
    wide = np.clip(np.nan_to_num(rounded.astype(np.float64), nan=0), limits.min, limits.max)
    return wide.astype(stored)


def dequantized(known: Quantization, q: np.ndarray, dtype: np.dtype) -> np.ndarray:
    scale, zero = parameters(known, dtype, q.ndim)
    return (q.astype(np.int64) - zero.astype(np.int64)).astype(dtype) * scale


def parameters(known: Quantization, dtype: np.dtype, rank: int) -> tuple[np.ndarray, np.ndarray]:
    shape = [1] * rank
    if known.axis is not None:
        shape[known.axis] = len(known.scales)
    return tuple(
        np.array(n).astype(dtype).reshape(shape) for n in (known.scales, known.zero_points)
    )


def element(storage: str = "i8", expressed: str = "f32", axis: str = "", rest: str = "0.5") -> str:
    return f"!quant.uniform<{storage}:{expressed}{axis}, {rest}>"


def conversion(op: str, source: str, result: str) -> str:
    return f"""
    module {{ func.func public @main(%arg0: tensor<2x3x{source}>) -> tensor<2x3x{result}> {{
      %0 = stablehlo.{op} %arg0 : (tensor<2x3x{source}>) -> tensor<2x3x{result}>
      return %0 : tensor<2x3x{result}>
    }} }}
    """


A = element(rest="0.5:3")
WIDER = element("u8", rest="0.3:100")
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "atan2"]
UNARY = ["abs", "negate", "tanh", "exponential", "logistic", "sqrt", "sine", "floor", "sign"]


def elementwise(op: str, count: int) -> str:
    arguments = ", ".join(f"%arg{i}: tensor<4x5x{A}>" for i in range(count))
    operands = ", ".join(f"%arg{i}" for i in range(count))
    types = ", ".join([f"tensor<4x5x{A}>"] * count)
    return f"""
    module {{ func.func public @main({arguments}) -> tensor<4x5x{A}> {{
      %0 = "stablehlo.{op}"({operands}) : ({types}) -> tensor<4x5x{A}>
      return %0 : tensor<4x5x{A}>
    }} }}
    """

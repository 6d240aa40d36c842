"""Programs of stablehlo.reduce, and their arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from edge_values import edge_values
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]
INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
NEUTRAL = {"add": 0, "multiply": 1, "or": 0, "xor": 0}


def literal(number: float | np.generic, element: str) -> str:
    """A number as MLIR writes it; floats as bits, which covers infinities."""
    if element == "i1":
        return "true" if number else "false"
    array = np.asarray(number).astype(numpy_type(element))
    if "i" in element:
        return str(int(array))
    return f"0x{array.tobytes()[::-1].hex().upper()}"


def neutral(op: str, element: str) -> float:
    if op in NEUTRAL:
        return NEUTRAL[op]
    dtype = numpy_type(element)
    if dtype.kind == "b":
        return op in ("minimum", "and")
    if op == "and":
        return -1 if dtype.kind == "i" else np.iinfo(dtype).max
    if "i" not in element:
        return np.inf if op == "minimum" else -np.inf
    return np.iinfo(dtype).max if op == "minimum" else np.iinfo(dtype).min


def values(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Edge values of the type, shuffled into a shape."""
    edges = edge_values(element)
    picks = np.random.default_rng(seed).integers(0, edges.size, shape)
    return edges[picks].reshape(shape)


def tame(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Numbers with finite sums and products."""
    rng = np.random.default_rng(seed)
    if element in INTEGERS or element == "i1":
        return values(element, shape, seed)
    return rng.standard_normal(shape).astype(numpy_type(element))


def reduces(op: str, element: str, cases: Sequence[tuple[Sequence[int], Sequence[int]]]) -> str:
    """A module with one reduce of the named op per (shape, dimensions)."""
    lines, results = [], []
    for index, (shape, dimensions) in enumerate(cases):
        kept = tensor([d for axis, d in enumerate(shape) if axis not in dimensions], element)
        lines.append(
            f"%{index} = stablehlo.reduce(%arg{index} init: %init) applies stablehlo.{op}"
            f" across dimensions = {list(dimensions)}"
            f" : ({tensor(shape, element)}, tensor<{element}>) -> {kept}"
        )
        results.append(kept)
    arguments = ", ".join(f"%arg{i}: {tensor(s, element)}" for i, (s, _) in enumerate(cases))
    start = literal(neutral(op, element), element)
    return f"""
module {{ func.func public @main({arguments}) -> ({", ".join(results)}) {{
  %init = stablehlo.constant dense<{start}> : tensor<{element}>
  {chr(10).join(lines)}
  return {", ".join(f"%{i}" for i in range(len(cases)))} : {", ".join(results)}
}} }}"""


# -- the graph ---------------------------------------------------------------------------------

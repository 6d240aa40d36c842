"""Comparisons by the opposite ones, and bounds by Max and Min, for targets whose kernels of some of
them order NaN wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.integer_ops import clip, relu

_OPPOSITES: Final[Mapping[str, str]] = {
    "Greater": "Less",
    "GreaterOrEqual": "LessOrEqual",
    "Less": "Greater",
    "LessOrEqual": "GreaterOrEqual",
}


def swap_operands(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Greater(x, y) -> Less(y, x), where the target has only the latter."""
    x, y = node.inputs
    assert x is not None and y is not None
    opposite, dtype = _OPPOSITES[node.op_type], dtype_of(x)
    if b.supports(node.op_type, dtype) or not b.supports(opposite, dtype):
        return None
    return b.op(opposite, y, x)


def _bounded(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Clip or Relu by Max and Min, where the target has these."""
    x = node.inputs[0]
    assert x is not None
    if not all(b.supports(op_type, dtype_of(x)) for op_type in ("Max", "Min")):
        return None
    return (relu if node.op_type == "Relu" else clip)(b, node)


COMPARISONS = {(op_type, dtype): swap_operands for op_type in _OPPOSITES for dtype in FLOATS}
"""By operator and element type."""
BOUNDS = {(op_type, dtype): _bounded for op_type in ("Clip", "Relu") for dtype in FLOATS}
"""The same."""

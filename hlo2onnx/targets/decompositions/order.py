"""Comparisons, bounds and TopK, for targets whose kernels order some operands wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of, present, rank_of, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.integer_ops import bounded
from hlo2onnx.targets.decompositions.rounded_integers import RIGHT_HERE, right_here

# -- comparisons -----------------------------------------------------------------------------------

# Comparisons by the opposite ones, and bounds by Max and Min, for targets whose kernels of some of
# them order NaN wrongly.


_OPPOSITES: Final[Mapping[str, str]] = {
    "Greater": "Less",
    "GreaterOrEqual": "LessOrEqual",
    "Less": "Greater",
    "LessOrEqual": "GreaterOrEqual",
}


def swap_operands(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """Greater(x, y) -> Less(y, x), where the target has only the latter."""
    x, y = present(node.inputs)
    opposite, dtype = _OPPOSITES[node.op_type], dtype_of(x)
    if b.supports(node.op_type, dtype) or not b.supports(opposite, dtype):
        return None
    return b.op(opposite, y, x)


COMPARISONS = {(op_type, dtype): swap_operands for op_type in _OPPOSITES for dtype in FLOATS}
"""By operator and element type."""
BOUNDS = {(op_type, dtype): bounded for op_type in ("Clip", "Relu") for dtype in FLOATS}
"""The same."""

# -- stable top k ----------------------------------------------------------------------------------

# TopK for targets that give equal elements in any order.
#
# The positions of the elements become part of the keys, so that all keys differ.


T = oir.DataType

LONGEST: Final = 46_340
"""The square root of the largest i32."""


def is_stable_here(node: oir.Node) -> bool:
    """Whether the order of equal elements does not matter: they are integers whose indices nobody
    reads, or the code that made the TopK says so."""
    x, places = present(node.inputs)[0], node.outputs[1]
    is_read = bool(places.uses()) or places.is_graph_output()
    return node.meta.get(RIGHT_HERE, False) or (not is_read and dtype_of(x).is_integer())


def stable_top_k(b: TargetBuilder, node: oir.Node) -> list[oir.Value] | None:
    """TopK(rank * n + place), where the rank is the number of different elements before it."""
    x, count = present(node.inputs)
    dtype = dtype_of(x)
    is_near = b.target.is_limited("TopK", dtype, b.opset)
    if not b.target.flags.unstable_top_k or not is_near:
        return None
    axis = node.attributes.get_int("axis", -1) % rank_of(x)
    extent = shape_of(x)[axis]
    if not isinstance(extent, int) or extent > LONGEST:
        return None
    dims = [extent if place == axis else 1 for place in range(rank_of(x))]
    places = b.const(np.arange(extent, dtype=np.int32).reshape(dims))
    largest = node.attributes.get_int("largest", 1)
    ranks = _ranks(b, x, axis, extent, largest)
    keys = b.Add(b.Mul(ranks, b.scalar(extent, T.INT32)), places)
    types = [(T.INT32, shape_of(node.outputs[0])), (T.INT64, shape_of(node.outputs[1]))]
    given = {"axis": axis, "largest": 0, "sorted": 1}
    first, chosen = b.node("TopK", [keys, count], given, types)
    right_here(first)
    return [b.GatherElements(x, chosen, axis=axis), chosen]


def _ranks(b: TargetBuilder, x: oir.Value, axis: int, extent: int, largest: int) -> oir.Value:
    """How many different elements come before each one, as INT32."""
    if extent < 2:
        return b.expand(b.scalar(0, T.INT32), shape_of(x))
    ordered, places = b.outputs("TopK", x, b.i64([extent]), axis=axis, largest=largest, n_outputs=2)
    right_here(ordered)
    before = b.slice(ordered, [0], [extent - 1], axes=[axis])
    after = b.slice(ordered, [1], [extent], axes=[axis])
    steps = b.cast(b.Not(b.Equal(before, after)), T.INT32)
    zero = b.scalar(0, T.INT32)
    dims = [1 if place == axis else dim for place, dim in enumerate(shape_of(x))]
    numbers = b.CumSum(b.concat([b.expand(zero, dims), steps], axis=axis), b.i64(axis))
    return b.ScatterElements(b.cast(places, T.INT32), places, numbers, axis=axis)


TOP_K = {("TopK", dtype): stable_top_k for dtype in (T.FLOAT, T.INT32)}
"""By operator and element type."""

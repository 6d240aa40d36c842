"""Interval arithmetic over float nodes, for the few operators that bound their result."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.ranges import Range
from hlo2onnx.ir.values import FLOATS, dtype_of


class FloatRange(NamedTuple):
    """Inclusive bounds of the elements that are not NaN."""

    low: float
    high: float


ANYTHING = FloatRange(-math.inf, math.inf)

IntRangeOf = Callable[[oir.Value], Range | None]
FloatRangeOf = Callable[[oir.Value], FloatRange]

_BOUNDED = {
    "Sigmoid": FloatRange(0.0, 1.0),
    "Softmax": FloatRange(0.0, 1.0),
    "Tanh": FloatRange(-1.0, 1.0),
    "Erf": FloatRange(-1.0, 1.0),
    "Sin": FloatRange(-1.0, 1.0),
    "Cos": FloatRange(-1.0, 1.0),
    "Exp": FloatRange(0.0, math.inf),
    "Sqrt": FloatRange(0.0, math.inf),
}
_ARITHMETIC: dict[str, Callable[[np.generic, np.generic], np.generic]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Sub": operator.sub,
}
_MONOTONIC: dict[str, Callable[[float], float]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.round,
    "Relu": lambda x: max(x, 0.0),
}


def float_range_of_node(
    node: oir.Node, dtype: oir.DataType, int_range: IntRangeOf, float_range: FloatRangeOf
) -> FloatRange:
    """Bounds of a float node's output; `ANYTHING` where nothing better is proven."""
    inputs = [x for x in node.inputs if x is not None]
    if node.op_type in _BOUNDED:
        return _BOUNDED[node.op_type]
    if node.op_type == "Cast":
        return _cast_range(inputs[0], dtype, int_range, float_range)
    if node.op_type in _MONOTONIC:
        return _each(float_range(inputs[0]), _MONOTONIC[node.op_type])
    if node.op_type == "Abs":
        low, high = float_range(inputs[0])
        return FloatRange(max(low, -high, 0.0), max(-low, high))
    if node.op_type in ("Where", "Concat"):
        return _union([float_range(x) for x in inputs[node.op_type == "Where" :]])
    if node.op_type in ("Max", "Min", "Clip"):
        return _extreme(node, float_range)
    if node.op_type in _ARITHMETIC and dtype.bitwidth >= 16:
        return _corners(_ARITHMETIC[node.op_type], dtype, [float_range(x) for x in inputs])
    return ANYTHING


def _corners(
    function: Callable[[np.generic, np.generic], np.generic],
    dtype: oir.DataType,
    ranges: Sequence[FloatRange],
) -> FloatRange:
    """Bounds of a function that is monotonic in either operand, as its rounding is; runtimes may
    flush what is below the normal numbers."""
    of_type = dtype.numpy().type
    with np.errstate(all="ignore"):
        corners = [float(function(of_type(a), of_type(b))) for a in ranges[0] for b in ranges[1]]
    if any(map(math.isnan, corners)):
        return ANYTHING
    low, high = min(corners), max(corners)
    least = float(ml_dtypes.finfo(dtype.numpy()).smallest_normal)
    return FloatRange(0.0 if 0 < low < least else low, 0.0 if -least < high < 0 else high)


def _each(bounds: FloatRange, function: Callable[[float], float]) -> FloatRange:
    return FloatRange(float(function(bounds.low)), float(function(bounds.high)))


def _union(ranges: Sequence[FloatRange]) -> FloatRange:
    return FloatRange(min(r.low for r in ranges), max(r.high for r in ranges))


def _extreme(node: oir.Node, float_range: FloatRangeOf) -> FloatRange:
    if node.op_type == "Clip" and (len(node.inputs) < 3 or None in node.inputs):
        return ANYTHING
    ranges = [float_range(x) for x in node.inputs if x is not None]
    if node.op_type == "Max":
        return FloatRange(max(r.low for r in ranges), max(r.high for r in ranges))
    if node.op_type == "Min":
        return FloatRange(min(r.low for r in ranges), min(r.high for r in ranges))
    x, least, most = ranges
    return FloatRange(min(max(x.low, least.low), most.low), min(max(x.high, least.high), most.high))


def _cast_range(
    x: oir.Value, dtype: oir.DataType, int_range: IntRangeOf, float_range: FloatRangeOf
) -> FloatRange:
    """Bounds after a rounding, which keeps the order."""
    if dtype_of(x) == oir.DataType.BOOL:
        return FloatRange(0.0, 1.0)
    if dtype.bitwidth < 16:  # saturates or overflows in its own way
        return ANYTHING
    if dtype_of(x) in FLOATS:
        bounds = float_range(x)
    else:
        known = int_range(x)
        if known is None:
            return ANYTHING
        bounds = FloatRange(float(known.low), float(known.high))
    with np.errstate(over="ignore"):
        return _each(bounds, lambda item: float(np.float64(item).astype(dtype.numpy())))

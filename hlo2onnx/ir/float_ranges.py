"""Bounds of floats: interval arithmetic for the few operators that bound their result, and
integers times a power of two.

Sums of the latter, and products with powers of two, are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import MONOTONIC, RangeOf, corners, magnitudes, union
from hlo2onnx.ir.values import FLOATS, INTEGERS, dtype_of, present


class FloatRange(NamedTuple):
    """Inclusive bounds of the elements that are not NaN."""

    low: float
    high: float


ANYTHING = FloatRange(-math.inf, math.inf)

FloatRangeOf = Callable[[oir.Value], FloatRange]

_BOUNDED = {
    "Sigmoid": FloatRange(0.0, 1.0),
    "Softmax": FloatRange(0.0, 1.0),
    "Tanh": FloatRange(-1.0, 1.0),
    "Erf": FloatRange(-1.0, 1.0),
    "Sin": FloatRange(-1.0, 1.0),
    "Cos": FloatRange(-1.0, 1.0),
    "Exp": FloatRange(0.0, math.inf),
    "ReduceL2": FloatRange(0.0, math.inf),
    "ReduceSumSquare": FloatRange(0.0, math.inf),
    "Sqrt": FloatRange(0.0, math.inf),
}


def range_of_numbers(array: np.ndarray) -> FloatRange:
    """Bounds of the elements that are not NaN."""
    if array.size == 1:  # as mostly; numpy takes several times as long
        number = float(array.item())
        return ANYTHING if math.isnan(number) else FloatRange(number, number)
    numbers = array.astype(np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return ANYTHING
    return FloatRange(float(numbers.min()), float(numbers.max()))


def float_range_of_node(
    node: oir.Node, dtype: oir.DataType, int_range: RangeOf, float_range: FloatRangeOf
) -> FloatRange:
    """Bounds of a float node's output, `ANYTHING` where nothing better is proven."""
    inputs = present(node.inputs)
    if node.op_type in _BOUNDED:
        return _BOUNDED[node.op_type]
    if node.op_type == "Cast":
        return _cast_range(inputs[0], dtype, int_range, float_range)
    if node.op_type == "Abs":
        return FloatRange(*map(float, magnitudes(*float_range(inputs[0]))))
    if node.op_type in ("Concat", "Where"):
        chosen = inputs[1:] if node.op_type == "Where" else inputs
        return FloatRange(*union([float_range(x) for x in chosen]))
    if node.op_type == "MaxPool":
        low, high = float_range(inputs[0])
        # Runtimes give the lowest number for a window of NaN only.
        lowest = float(ml_dtypes.finfo(dtype.numpy()).min)
        return FloatRange(lowest if low > -math.inf else low, high)
    if node.op_type in _SUMS:
        low, high = float_range(inputs[0])
        return FloatRange(0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)
    if node.op_type == "Mul" and inputs[0] is inputs[1] and dtype.bitwidth >= 16:
        magnitude = FloatRange(*map(float, magnitudes(*float_range(inputs[0]))))
        known = _monotonic("Mul", dtype, [magnitude, magnitude])
        return FloatRange(max(known.low, 0.0), known.high)
    if node.op_type not in MONOTONIC or (node.op_type in _ROUNDING and dtype.bitwidth < 16):
        return ANYTHING
    ranges = [float_range(x) for x in inputs]
    if node.op_type in _ROUNDING and ANYTHING in ranges:
        return ANYTHING
    return _monotonic(node.op_type, dtype, ranges)


_ROUNDING = frozenset({"Add", "Mul", "Sub"})
_SUMS = frozenset({"ReduceMean", "ReduceSum"})


def _monotonic(op_type: str, dtype: oir.DataType, ranges: Sequence[FloatRange]) -> FloatRange:
    """Bounds of an operator of `MONOTONIC`. Rounding is monotonic, too. Runtimes may flush results
    below the normal numbers."""
    of_type = dtype.numpy().type if op_type in _ROUNDING else float
    with np.errstate(all="ignore"):
        found = corners(op_type, [[of_type(bound) for bound in bounds] for bounds in ranges])
    bounds = [float(item) for item in found or [math.nan]]
    if any(map(math.isnan, bounds)):
        return ANYTHING
    low, high = min(bounds), max(bounds)
    least = float(ml_dtypes.finfo(dtype.numpy()).smallest_normal)
    return FloatRange(0.0 if 0 < low < least else low, 0.0 if -least < high < 0 else high)


def _cast_range(
    x: oir.Value, dtype: oir.DataType, int_range: RangeOf, float_range: FloatRangeOf
) -> FloatRange:
    """Bounds after a Cast, which keeps the order."""
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
        return FloatRange(*(float(np.float64(item).astype(dtype.numpy())) for item in bounds))


_IEEE = frozenset(
    {oir.DataType.DOUBLE, oir.DataType.FLOAT, oir.DataType.FLOAT16, oir.DataType.BFLOAT16}
)


class Steps(NamedTuple):
    """Every element is k · unit, exactly, for an integer k in [low, high]; 0 is +0."""

    low: int
    high: int
    unit: float


Constant = Callable[[oir.Value], np.ndarray | None]
StepsOf = Callable[[oir.Value], Steps | None]


def steps_of(
    value: oir.Value, constant: Constant, int_range: RangeOf, steps: StepsOf
) -> Steps | None:
    """The steps of the elements of a float value; None if they are unknown.

    It follows the ops with which programs make floats of random bits: conversion of integers,
    products with powers of two, and sums with a constant.
    """
    node, dtype = value.producer(), dtype_of(value)
    if node is None or dtype not in _IEEE:
        return None
    found: Steps | None = None
    if node.op_type == "Cast":
        found = _of_integers(node.inputs[0], int_range)
    elif node.op_type in ("Add", "Mul", "Sub"):
        operands = with_number(node, constant)
        inner = None if operands is None else steps(operands[0])
        if operands is not None and inner is not None:
            found = (
                _scaled(inner, operands[1]) if node.op_type == "Mul" else moved(inner, operands[1])
            )
    return found if found is not None and _is_exact(found, dtype) else None


def with_number(node: oir.Node, constant: Constant) -> tuple[oir.Value, float] | None:
    """x and c of a node x + c or x * c, where c is one finite number; x - c counts as x + -c."""
    first, second = node.inputs
    assert first is not None and second is not None
    pairs = [(first, second)] if node.op_type == "Sub" else [(first, second), (second, first)]
    for x, other in pairs:
        known = constant(other)
        if known is not None and known.size == 1 and np.isfinite(known).all():
            number = float(known.reshape(()))
            return x, -number if node.op_type == "Sub" else number
    return None


def _of_integers(x: oir.Value | None, int_range: RangeOf) -> Steps | None:
    if x is None or dtype_of(x) not in INTEGERS:
        return None
    known = int_range(x)
    return None if known is None else Steps(*known, 1.0)


def _scaled(steps: Steps, factor: float) -> Steps | None:
    is_power = factor > 0 and math.frexp(factor)[0] == 0.5
    return steps._replace(unit=steps.unit * factor) if is_power else None


def moved(steps: Steps, offset: float) -> Steps | None:
    """The steps after an exact addition; None if the offset is not a multiple of the unit."""
    count = offset / steps.unit
    if not math.isfinite(count) or not count.is_integer():
        return None
    return Steps(steps.low + int(count), steps.high + int(count), steps.unit)


def _is_exact(steps: Steps, dtype: oir.DataType) -> bool:
    """Whether the type holds all of them as normal numbers."""
    info = ml_dtypes.finfo(dtype.numpy())
    most = max(abs(steps.low), abs(steps.high))
    return (
        most <= 1 << info.nmant + 1
        and steps.unit >= float(info.smallest_normal)
        and most * steps.unit <= float(info.max)
    )

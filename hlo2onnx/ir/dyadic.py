"""Floats that are integers times a power of two. Their sums and products with powers of two are
exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import RangeOf
from hlo2onnx.ir.values import INTEGERS, dtype_of

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

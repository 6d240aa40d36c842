"""Trials of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    LIMITED,
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    every,
    is_float,
    node,
    small,
    specials,
    spread,
)

Values = Callable[[ir.DataType], Array]


def _unary(op_type: str, values: Values, dtype: ir.DataType) -> list[Trial]:
    known = values(dtype)
    long = np.concatenate([known, spread(known, max(VECTOR - len(known), 1))])
    inputs = (long, long[:3], long[1], spread(known, 5, 7))
    return [node(op_type, x) for x in inputs]


def _binary(
    op_type: str,
    dtype: ir.DataType,
    *,
    lefts: Values = edges,
    rights: Values | None = None,
    valid: Callable[[Array, Array], Array] | None = None,
    **attributes: Any,
) -> list[Trial]:
    """All pairs; a column with a row; a scalar with a vector and the other way round."""
    left, right = lefts(dtype), (rights or lefts)(dtype)
    x, y = (side.reshape(-1) for side in np.meshgrid(left, right, indexing="ij"))
    if valid is not None:
        keep = valid(x, y)
        x, y = x[keep], y[keep]
        right = np.array([r for r in right if valid(left, np.full_like(left, r)).all()])
    few, rows = spread(left, 5), right[::3] if len(right) > 8 else right
    long, scalars = spread(left, VECTOR), spread(right, 4, seed=1)
    operands = [
        (x, y),
        (x[:3], y[:3]),
        (few[:, None], rows[None, :]),
        *((long, s) for s in scalars),
        *((s, spread(right, VECTOR)) for s in spread(left, 4, seed=2)),
    ]
    return [node(op_type, a, b, **attributes) for a, b in operands]


def _can_divide(x: Array, y: Array) -> Array:
    """Neither by zero nor the least integer by -1."""
    if is_float(x.dtype):
        return np.asarray(y != 0)
    least = np.iinfo(x.dtype).min
    overflows = (x == least) & (y == -1) if least else np.zeros(x.shape, bool)
    return np.asarray((y != 0) & ~overflows)


def _division(dtype: ir.DataType) -> list[Trial]:
    """Within limits, INT32 numbers with as many digits as f32 holds by powers of two."""
    found = _binary("Div", dtype, valid=_can_divide)
    if LIMITED.get() and dtype == ir.DataType.INT32:
        for amount in range(31):
            zeros = max(amount, 8)
            x = spread(every(dtype), VECTOR, seed=amount) >> zeros << zeros
            found.append(node("Div", x, np.int32(1 << amount), right=(x >> amount,)))
    return found


def _comparison(op_type: str, dtype: ir.DataType) -> list[Trial]:
    """Within limits, one of the operands may be any INT32 number."""
    found = _binary(op_type, dtype, lefts=specials)
    if LIMITED.get() and dtype == ir.DataType.INT32:
        x, y = np.meshgrid(every(dtype), specials(dtype))
        found += [node(op_type, *pair) for pair in ((x, y), (y, x), (x, y[0, 0]))]
    return found


def _whole(dtype: ir.DataType) -> Array:
    """Numbers with an exact remainder: all integers, small floats."""
    return small(dtype, 40) if is_float(dtype.numpy()) else edges(dtype)


def _extremes(op_type: str, dtype: ir.DataType) -> list[Trial]:
    """One, two and three operands."""
    x, y, z = (spread(specials(dtype), 6, VECTOR, seed=n) for n in range(3))
    several = ((x,), (x, y, z), (x, y[0], z[0, 0]), (x[0, 0], y[0], z))
    return [
        *_binary(op_type, dtype, lefts=specials),
        *(node(op_type, *operands) for operands in several),
    ]


def _clip(dtype: ir.DataType) -> list[Trial]:
    """Both bounds, in either order; of one alone only finite numbers, which ONNX bounds by the
    largest of the type."""
    known, bounds = specials(dtype), spread(edges(dtype), 12)
    x = np.concatenate([known, spread(known, VECTOR)])
    finite = spread(edges(dtype), VECTOR)
    found = []
    for low, high in bounds.reshape(6, 2):
        found += [node("Clip", x, low, high, right=(np.minimum(np.maximum(x, low), high),))]
        found += [node("Clip", finite, low), node("Clip", finite, None, high)]
    return found


def _pow(base: ir.DataType, exponent: ir.DataType | None = None) -> list[Trial]:
    """Integers to the power of integers wrap; of floats only what is exact."""
    exponent = exponent or base
    has_floats = is_float(base.numpy()) or is_float(exponent.numpy())
    powers = np.arange(6 if has_floats else 71).astype(exponent.numpy())
    bases = small(base, 20) if has_floats else edges(base)
    x, y = (side.reshape(-1) for side in np.meshgrid(bases, powers, indexing="ij"))
    pairs = [(x, y), (x[:3], y[:3]), *((bases, p) for p in powers[:6])]
    pairs += [(b, powers) for b in bases[:3]]
    return [node("Pow", a, b, right=(_power(a, b),)) for a, b in pairs]


def _power(x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    if is_float(x.dtype):
        return np.asarray((x.astype(np.float64) ** y).astype(x.dtype))
    mask = (1 << 8 * x.itemsize) - 1
    numbers = [int(a) ** int(b) & mask for a, b in zip(x.flat, y.flat, strict=True)]
    return np.array(numbers, np.uint64).astype(x.dtype).reshape(x.shape)


def _amounts(dtype: ir.DataType) -> Array:
    return np.arange(dtype.bitwidth).astype(dtype.numpy())


def _root(dtype: ir.DataType) -> Array:
    return np.abs(edges(dtype))


_ON_SPECIALS = ("Abs", "BitwiseNot", "Identity", "IsInf", "IsNaN", "Neg", "Not", "Relu")
_BINARY = ("Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mul", "Or", "Sub", "Xor")
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_remainder = partial(_binary, "Mod", lefts=_whole, valid=_can_divide)

TRIALS: Mapping[str, Trials] = {
    **{op: partial(_unary, op, edges) for op in ("Ceil", "Floor", "Round", "Sign")},
    **{op: partial(_unary, op, specials) for op in _ON_SPECIALS},
    **{op: partial(_binary, op) for op in _BINARY},
    **{op: partial(_comparison, op) for op in _COMPARISONS},
    "BitShift": partial(_binary, "BitShift", rights=_amounts, direction="LEFT"),
    "BitShift[RIGHT]": partial(_binary, "BitShift", rights=_amounts, direction="RIGHT"),
    "Clip": _clip,
    "Div": _division,
    "Max": partial(_extremes, "Max"),
    "Min": partial(_extremes, "Min"),
    "Mod": _remainder,
    "Mod[fmod=1]": partial(_remainder, fmod=1),
    "Pow": _pow,
    "Sqrt": partial(_unary, "Sqrt", _root),
}

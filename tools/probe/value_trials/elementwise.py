"""Trials of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
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
    small,
    specials,
    spread,
)

Function = Callable[..., Array]
Valid = Callable[[Array, Array], Array]


def _unary(
    op_type: str, function: Function, values: Callable[[ir.DataType], Array], **attributes: Any
) -> Trials:
    def trials(dtype: ir.DataType) -> list[Trial]:
        every = values(dtype)
        long = np.concatenate([every, spread(every, max(VECTOR - len(every), 1))])
        inputs = [long, long[:3], long[1], spread(every, 5, 7)]
        return [
            Trial(op_type, (x,), (function(x),), attributes, zero_signs=op_type in _SIGNED_ZEROS)
            for x in inputs
        ]

    return trials


_SIGNED_ZEROS = {"Identity", "Neg", "Abs"}


def _binary(
    op_type: str,
    function: Function,
    *,
    lefts: Callable[[ir.DataType], Array] = edges,
    rights: Callable[[ir.DataType], Array] | None = None,
    valid: Valid | None = None,
    **attributes: Any,
) -> Trials:
    """All pairs; a column with a row; a scalar with a vector and the other way round."""

    def trials(dtype: ir.DataType) -> list[Trial]:
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
        return [
            Trial(op_type, (np.asarray(a), np.asarray(b)), (function(a, b),), attributes)
            for a, b in operands
        ]

    return trials


def _in_type(function: Function) -> Function:
    """A function whose result has the type of its first operand, overflows being meant."""

    def typed(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands)).astype(operands[0].dtype)

    return typed


def _exact_ints(function: Callable[[int, int], int]) -> Function:
    """A function of Python's integers on arrays, wrapping."""

    def wrapped(x: Array, y: Array) -> Array:
        x, y = np.broadcast_arrays(x, y)
        mask = (1 << 8 * x.itemsize) - 1
        numbers = [function(int(a), int(b)) & mask for a, b in zip(x.flat, y.flat, strict=True)]
        return np.array(numbers, np.uint64).astype(x.dtype).reshape(x.shape)

    return wrapped


# -- within limits ---------------------------------------------------------------------------------


def _division(dtype: ir.DataType) -> list[Trial]:
    """Within limits, INT32 numbers with as many digits as f32 holds by powers of two."""
    found = _binary("Div", _quotient, valid=_can_divide)(dtype)
    if LIMITED.get() and dtype == ir.DataType.INT32:
        for amount in range(31):
            zeros, divisor = max(amount, 8), np.asarray(1 << amount, np.int32)
            x = spread(every(dtype), VECTOR, seed=amount) >> zeros << zeros
            found.append(Trial("Div", (x, divisor), (x >> amount,)))
    return found


def _comparison(op_type: str, function: Function) -> Trials:
    """Within limits, one of the operands may be any INT32 number."""
    compare = _binary(op_type, function, lefts=specials)

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = compare(dtype)
        if LIMITED.get() and dtype == ir.DataType.INT32:
            x, y = np.meshgrid(every(dtype), specials(dtype))
            found += [
                Trial(op_type, pair, (function(*pair),)) for pair in ((x, y), (y, x), (x, y[0, 0]))
            ]
        return found

    return trials


# -- division --------------------------------------------------------------------------------------


def _can_divide(x: Array, y: Array) -> Array:
    """Neither by zero nor the least integer by -1."""
    if is_float(x.dtype):
        return np.asarray(y != 0)
    least = np.iinfo(x.dtype).min
    overflows = (x == least) & (y == -1) if least else np.zeros(x.shape, bool)
    return np.asarray((y != 0) & ~overflows)


def _quotient(x: Array, y: Array) -> Array:
    if is_float(x.dtype):
        return _in_type(np.divide)(x, y)
    return _exact_ints(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))(x, y)


def _floor_mod(x: Array, y: Array) -> Array:
    if is_float(x.dtype):
        return _in_type(np.mod)(x, y)
    return _exact_ints(lambda a, b: a % b)(x, y)


def _whole(dtype: ir.DataType) -> Array:
    """Numbers with an exact remainder: all integers, small floats."""
    return small(dtype, 40) if is_float(dtype.numpy()) else edges(dtype)


# -- extremes and order ----------------------------------------------------------------------------


def _extremes(op_type: str, function: Function) -> Trials:
    """One, two and three operands."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = _binary(op_type, function, lefts=specials)(dtype)
        values = specials(dtype)
        x, y, z = (spread(values, 6, VECTOR, seed=n) for n in range(3))
        for operands in ((x,), (x, y, z), (x, y[0], z[0, 0]), (x[0, 0], y[0], z)):
            found.append(Trial(op_type, operands, (np.asarray(reduce(function, operands)),)))
        return found

    return trials


def _clip(values: Callable[[ir.DataType], Array] = specials) -> Trials:
    """Both bounds, in either order; of one alone only finite numbers, which ONNX bounds by the
    largest of the type."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        every, bounds = values(dtype), spread(edges(dtype), 12)
        x = np.concatenate([every, spread(every, VECTOR)])
        finite = spread(edges(dtype), VECTOR)
        found = []
        for low, high in bounds.reshape(6, 2):
            both = np.minimum(np.maximum(x, low), high)
            found.append(Trial("Clip", (x, np.asarray(low), np.asarray(high)), (both,)))
            least, most = np.maximum(finite, low), np.minimum(finite, high)
            found.append(Trial("Clip", (finite, np.asarray(low)), (least,)))
            found.append(Trial("Clip", (finite, None, np.asarray(high)), (most,)))
        return found

    return trials


def _where(dtype: ir.DataType) -> list[Trial]:
    values = specials(dtype)
    x, y = spread(values, 6, VECTOR, seed=1), spread(values, 6, VECTOR, seed=2)
    flags = spread(np.array([False, True]), 6, VECTOR)
    operands = [
        (flags, x, y),
        (flags[0], x, y),
        (flags[:, :1], x, y[0]),
        (flags, x[0, 0], y),
        (flags, x, y[0, 0]),
        (flags[0, :3], x[0, :3], y[0, :3]),
        (flags[0, 0], x, y),
        *((flags, np.asarray(v), y) for v in values[:3]),
    ]
    return [Trial("Where", given, (np.where(*given),), zero_signs=True) for given in operands]


# -- powers ----------------------------------------------------------------------------------------


def _pow(base: ir.DataType, exponent: ir.DataType | None = None) -> list[Trial]:
    """Integers to the power of integers wrap; of floats only what is exact."""
    exponent = exponent or base
    kinds = is_float(base.numpy()), is_float(exponent.numpy())
    powers = np.arange(6 if any(kinds) else 71).astype(exponent.numpy())
    bases = small(base, 20) if any(kinds) else edges(base)
    x, y = (side.reshape(-1) for side in np.meshgrid(bases, powers, indexing="ij"))
    if kinds[0]:
        function: Function = lambda a, b: (a.astype(np.float64) ** b).astype(a.dtype)  # noqa: E731
    else:
        function = _exact_ints(lambda a, b: a**b)
    pairs = [(x, y), (x[:3], y[:3]), *((bases, np.asarray(p)) for p in powers[:6])]
    pairs += [(np.asarray(b), powers) for b in bases[:3]]
    return [Trial("Pow", (a, b), (function(a, b),)) for a, b in pairs]


# -- tables ----------------------------------------------------------------------------------------


def _neg(x: Array) -> Array:
    return -x if is_float(x.dtype) else (np.zeros(1, x.dtype) - x).reshape(x.shape)


def _amounts(dtype: ir.DataType) -> Array:
    return np.arange(dtype.bitwidth).astype(dtype.numpy())


_ON_EDGES: Mapping[str, Function] = {
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "Sign": np.sign,
}
_ON_SPECIALS: Mapping[str, Function] = {
    "Abs": np.abs,
    "BitwiseNot": np.bitwise_not,
    "Identity": lambda x: x,
    "IsInf": np.isinf,
    "IsNaN": np.isnan,
    "Neg": _neg,
    "Not": np.logical_not,
}
_BINARY: Mapping[str, Function] = {
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_COMPARISONS: Mapping[str, Function] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}


def _sum_of_many(dtype: ir.DataType) -> list[Trial]:
    x, y, z = (small(dtype, 4, VECTOR, seed=n) for n in range(3))
    operands = [(x,), (x, y), (x, y, z), (x, y[0], z[0, 0])]
    return [Trial("Sum", given, (reduce(np.add, given),)) for given in operands]


def _rectified(x: Array) -> Array:
    return np.maximum(x, np.zeros((), x.dtype))


def _root(dtype: ir.DataType) -> Array:
    return np.abs(edges(dtype))


TRIALS: Mapping[str, Trials] = {
    **{op: _unary(op, _in_type(f), edges) for op, f in _ON_EDGES.items()},
    **{op: _unary(op, f, specials) for op, f in _ON_SPECIALS.items()},
    **{op: _binary(op, _in_type(f), lefts=edges) for op, f in _BINARY.items()},
    **{op: _comparison(op, f) for op, f in _COMPARISONS.items()},
    "BitShift": _binary("BitShift", _in_type(np.left_shift), rights=_amounts, direction="LEFT"),
    "BitShift[RIGHT]": _binary(
        "BitShift", _in_type(np.right_shift), rights=_amounts, direction="RIGHT"
    ),
    "Clip": _clip(),
    "Div": _division,
    "Max": _extremes("Max", np.maximum),
    "Min": _extremes("Min", np.minimum),
    "Mod": _binary("Mod", _floor_mod, lefts=_whole, valid=_can_divide),
    "Mod[fmod=1]": _binary("Mod", _in_type(np.fmod), lefts=_whole, valid=_can_divide, fmod=1),
    "Pow": _pow,
    "Relu": _unary("Relu", _in_type(_rectified), specials),
    "Sqrt": _unary("Sqrt", _in_type(np.sqrt), _root),
    "Sum": _sum_of_many,
    "Where": _where,
}

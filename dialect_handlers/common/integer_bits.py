"""Integers as bits: signedness, shifts and digit tricks on elements of any width.

Casts between integer types wrap, in ONNX as in StableHLO, so that a cast between the signed and
the unsigned type of a width reinterprets the bits. BitShift exists for unsigned types only and
leaves amounts of the width or more undefined before opset 28.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, UNSIGNED, dtype_of
from hlo2onnx.lowering.emitter import Emitter

_UNSIGNED = {dtype.bitwidth: dtype for dtype in UNSIGNED}
_SIGNED = {dtype.bitwidth: dtype for dtype in INTEGERS - UNSIGNED}


def unsigned_type(width: int) -> oir.DataType:
    """The unsigned integer type of so many bits."""
    return _UNSIGNED[width]


def signed_type(width: int) -> oir.DataType:
    """The signed integer type of so many bits."""
    return _SIGNED[width]


def is_unsigned(x: oir.Value) -> bool:
    """Whether the elements of x are unsigned integers."""
    return dtype_of(x) in UNSIGNED


def as_unsigned(em: Emitter, x: oir.Value) -> oir.Value:
    """The bits of x as an unsigned integer."""
    return em.cast(x, unsigned_type(dtype_of(x).bitwidth))


def uniform(em: Emitter, x: oir.Value) -> int | None:
    """The value of an integer constant with equal elements; None for other values."""
    array = em.facts.constant(x)
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    return int(array.flat[0])


def in_range(em: Emitter, x: oir.Value, low: int, high: int) -> bool:
    """Whether every element of an integer value provably lies in [low, high]."""
    known = em.facts.int_range(x)
    return known is not None and known.within(low, high)


def wrapped(number: int, dtype: oir.DataType) -> int:
    """The value of `dtype` with the low bits of `number`."""
    low, high = range_of_type(dtype)
    return (number - low) % (high - low + 1) + low


def bits(em: Emitter, number: int, like: oir.Value) -> oir.Value:
    """A scalar of the type of `like` with the low bits of `number`."""
    return em.scalar(wrapped(number, dtype_of(like)), dtype_of(like))


def mask(em: Emitter, x: oir.Value, number: int) -> oir.Value:
    """x & number"""
    return em.BitwiseAnd(x, bits(em, number, x))


# -- shifts by an amount known at translation time, 0 <= amount < width -----------------------


def shift_left(em: Emitter, x: oir.Value, amount: int) -> oir.Value:
    """x << amount; on signed types x · 2^amount, which wraps to the same bits in one node."""
    if not amount:
        return x
    if is_unsigned(x):
        return _bit_shift(em, x, bits(em, amount, x), "LEFT")
    return em.Mul(x, bits(em, 1 << amount, x))


def shift_right_logical(em: Emitter, x: oir.Value, amount: int) -> oir.Value:
    """x >> amount, zeros moving in."""
    if not amount:
        return x
    if not is_unsigned(x) and in_range(em, x, 0, range_of_type(dtype_of(x)).high):
        return shift_right_arithmetic(em, x, amount)
    unsigned = as_unsigned(em, x)
    shifted = _bit_shift(em, unsigned, bits(em, amount, unsigned), "RIGHT")
    return em.cast(shifted, dtype_of(x))


def shift_right_arithmetic(em: Emitter, x: oir.Value, amount: int) -> oir.Value:
    """x >> amount, the sign moving in: the low bits cleared, then an exact division."""
    if not amount:
        return x
    if is_unsigned(x):
        shifted = shift_right_arithmetic(em, em.cast(x, signed_type(dtype_of(x).bitwidth)), amount)
        return em.cast(shifted, dtype_of(x))
    if amount == dtype_of(x).bitwidth - 1:
        return sign(em, x)
    if not in_range(em, x, 0, range_of_type(dtype_of(x)).high):
        x = mask(em, x, -(1 << amount))
    return em.Div(x, bits(em, 1 << amount, x))


def sign(em: Emitter, x: oir.Value) -> oir.Value:
    """-1 where a signed x is negative, else 0."""
    zero = em.scalar_like(0, x)
    return em.Where(em.Less(x, zero), em.scalar_like(-1, x), zero)


# -- shifts by an amount of the program ---------------------------------------------------------


def known_amount(em: Emitter, x: oir.Value, amount: oir.Value) -> int | None:
    """The one amount that x is shifted by, when it is known and less than the width."""
    known = uniform(em, amount)
    return known if known is not None and 0 <= known < dtype_of(x).bitwidth else None


def shift_logical(em: Emitter, x: oir.Value, amount: oir.Value, direction: str) -> oir.Value:
    """x << amount ("LEFT") or x >> amount with zeros moving in ("RIGHT"); 0 for an amount that is
    negative or not less than the width."""
    unsigned, by = as_unsigned(em, x), as_unsigned(em, amount)
    shifted = _bit_shift(em, unsigned, by, direction)
    width = dtype_of(x).bitwidth
    if not in_range(em, amount, 0, width - 1):
        inside = em.Less(by, em.scalar_like(width, by))
        shifted = em.Where(inside, shifted, em.scalar_like(0, shifted))
    return em.cast(shifted, dtype_of(x))


def shift_arithmetic(em: Emitter, x: oir.Value, amount: oir.Value) -> oir.Value:
    """x >> amount with the sign moving in, all of it for an amount that is negative or not less
    than the width: the shifted sign bit s turns the logical shift y into (y ^ s) - s."""
    unsigned, by = as_unsigned(em, x), as_unsigned(em, amount)
    width = dtype_of(x).bitwidth
    if not in_range(em, amount, 0, width - 1):
        by = em.Min(by, em.scalar_like(width - 1, by))
    shifted = _bit_shift(em, unsigned, by, "RIGHT")
    sign_bit = _bit_shift(em, bits(em, 1 << width - 1, unsigned), by, "RIGHT")
    extended = em.Sub(em.BitwiseXor(shifted, sign_bit), sign_bit)
    return em.cast(extended, dtype_of(x))


def _bit_shift(em: Emitter, x: oir.Value, amount: oir.Value, direction: str) -> oir.Value:
    return em.BitShift(x, amount, direction=direction)

"""Ops on bits: logic, shifts, bitcast_convert and reduce_precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.bits import (
    as_unsigned,
    from_bits,
    in_range,
    known_amount,
    least_exponent,
    mantissa_digits,
    mask,
    shift_arithmetic,
    shift_left,
    shift_logical,
    shift_right_arithmetic,
    shift_right_logical,
    to_bits,
    uniform,
    unsigned_type,
)
from dialect_handlers.common.casts import convert
from dialect_handlers.common.elementwise import by_element_type
from hlo2onnx.ir.notes import keep_rounding
from hlo2onnx.ir.values import FLOATS, dtype_of, rank_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- and, or, xor, not, popcnt, count_leading_zeros -------------------------------------------


by_element_type(
    {
        "stablehlo.and": ("BitwiseAnd", "And"),
        "stablehlo.or": ("BitwiseOr", "Or"),
        "stablehlo.xor": ("BitwiseXor", "Xor"),
        "stablehlo.not": ("BitwiseNot", "Not"),
    }
)


@handles("stablehlo.popcnt")
def popcnt(em: Emitter, op: Op) -> oir.Value:
    """popcnt(x) = the number of bits of x that are 1."""
    x = em.operand(op)
    return em.cast(_count_ones(em, as_unsigned(em, x)), dtype_of(x))


@handles("stablehlo.count_leading_zeros")
def count_leading_zeros(em: Emitter, op: Op) -> oir.Value:
    """count_leading_zeros(x) = width - popcnt(s).

    All bits of s are set from the highest 1 of x downwards.
    """
    x = em.operand(op)
    smeared, width = as_unsigned(em, x), dtype_of(x).bitwidth
    step = 1
    while step < width:
        smeared = em.BitwiseOr(smeared, shift_right_logical(em, smeared, step))
        step *= 2
    zeros = em.Sub(em.scalar_like(width, smeared), _count_ones(em, smeared))
    return em.cast(zeros, dtype_of(x))


def _count_ones(em: Emitter, x: oir.Value) -> oir.Value:
    """Bits of an unsigned x, counted in fields of 2, 4 and 8 bits; then one product adds up the
    bytes in the highest one."""
    width = dtype_of(x).bitwidth
    ones = (1 << width) - 1
    x = em.Sub(x, mask(em, shift_right_logical(em, x, 1), ones // 3))
    if width > 2:
        pairs, shifted = mask(em, x, ones // 5), shift_right_logical(em, x, 2)
        x = em.Add(pairs, mask(em, shifted, ones // 5))
    if width > 4:
        x = mask(em, em.Add(x, shift_right_logical(em, x, 4)), ones // 17)
    if width > 8:
        x = shift_right_logical(em, em.Mul(x, em.scalar_like(ones // 255, x)), width - 8)
    return x


# -- shift_left, shift_right_arithmetic, shift_right_logical ----------------------------------


@handles("stablehlo.shift_left")
def shift_left_(em: Emitter, op: Op) -> oir.Value:
    """shift_left(x, amount) = x << amount; 0 if amount >= the width."""
    return _shifted(em, op, shift_left, partial(shift_logical, direction="LEFT"))


@handles("stablehlo.shift_right_logical")
def shift_right_logical_(em: Emitter, op: Op) -> oir.Value:
    """shift_right_logical(x, amount) = x >> amount with zeros shifted in."""
    return _shifted(em, op, shift_right_logical, partial(shift_logical, direction="RIGHT"))


@handles("stablehlo.shift_right_arithmetic")
def shift_right_arithmetic_(em: Emitter, op: Op) -> oir.Value:
    """shift_right_arithmetic(x, amount) = x >> amount with copies of the highest bit, of unsigned
    types too."""
    return _shifted(em, op, shift_right_arithmetic, shift_arithmetic)


def _shifted(
    em: Emitter,
    op: Op,
    by_number: Callable[[Emitter, oir.Value, int], oir.Value],
    by_tensor: Callable[[Emitter, oir.Value, oir.Value], oir.Value],
) -> oir.Value:
    x, amount = em.operands(op)
    known = known_amount(em, x, amount)
    return by_tensor(em, x, amount) if known is None else by_number(em, x, known)


# -- bitcast_convert --------------------------------------------------------------------------


T = oir.DataType


@handles("stablehlo.bitcast_convert")
def bitcast_convert(em: Emitter, op: Op) -> oir.Value:
    """bitcast_convert(x) -> the same bits as another type, the lowest first: a wide element becomes
    a trailing axis of narrow ones, or the other way round. A boolean is one bit, as StableHLO has
    it; XLA on the CPU keeps it in a byte, and refuses or returns another shape."""
    x, dtype = em.operand(op), em.result_type(op).dtype
    if dtype_of(x) == dtype:
        return x
    if dtype == T.BOOL:
        return em.cast(_split(em, _integer(em, x), 1), T.BOOL)
    if dtype_of(x) == T.BOOL:
        return _same_width(em, _join(em, x, 1, dtype.bitwidth), dtype)
    wide, narrow = dtype_of(x).bitwidth, dtype.bitwidth
    if wide == narrow:
        return _same_width(em, x, dtype)
    x = _integer(em, x)
    part = _split(em, x, narrow) if wide > narrow else _join(em, x, wide, narrow)
    return _same_width(em, part, dtype)


@handles("stablehlo.bitcast_convert", form="complex")
def bitcast_complex(em: Emitter, op: Op) -> list[Parts]:
    """bitcast_convert(x) of complex x -> x; XLA knows no other type for its bits."""
    if op.operands[0].type != op.results[0].type:
        raise unsupported("bits of complex numbers")
    return [em.parts(op.operands[0])]


def _same_width(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    if dtype_of(x) == dtype:
        return x
    if dtype not in FLOATS:
        return to_bits(em, x, dtype) if dtype_of(x) in FLOATS else em.cast(x, dtype)
    if dtype_of(x) in FLOATS:
        return from_bits(em, _integer(em, x), dtype)
    known = _in_one_octave(em, x, dtype)
    return from_bits(em, x, dtype) if known is None else known


def _in_one_octave(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value | None:
    """The float with the bits mantissa | code of 2^e, computed as 2^e + mantissa · 2^(e - digits),
    which is exact; None if x is not provably that. JAX makes its uniform numbers so."""
    node = x.producer()
    if node is None or node.op_type != "BitwiseOr" or dtype not in _IEEE:
        return None
    digits = mantissa_digits(dtype)
    for mantissa, other in (node.inputs, node.inputs[::-1]):
        assert mantissa is not None and other is not None
        code = uniform(em, other)
        if code is None or not in_range(em, mantissa, 0, (1 << digits) - 1):
            continue
        exponent, rest = divmod(code, 1 << digits)
        infinite = (1 << dtype.bitwidth - 1 - digits) - 1
        if rest or not digits < exponent < infinite:  # 2^(e - digits) must be normal
            continue
        power = exponent - 1 + least_exponent(dtype.numpy())
        steps = em.Mul(em.cast(mantissa, dtype), em.scalar(2.0 ** (power - digits), dtype))
        return em.Add(steps, em.scalar(2.0**power, dtype))
    return None


_IEEE = frozenset({T.DOUBLE, T.FLOAT, T.FLOAT16, T.BFLOAT16})


def _integer(em: Emitter, x: oir.Value) -> oir.Value:
    """The bits of x as an unsigned integer."""
    return _same_width(em, x, unsigned_type(dtype_of(x).bitwidth))


def _split(em: Emitter, x: oir.Value, width: int) -> oir.Value:
    """Each element as a trailing axis of unsigned integers of this width, in that type where there
    is one."""
    count = dtype_of(x).bitwidth // width
    amounts = em.const(np.arange(count) * width, dtype_of(x))
    shifted = em.BitShift(em.unsqueeze(x, [rank_of(x)]), amounts, direction="RIGHT")
    return mask(em, shifted, 1) if width == 1 else em.cast(shifted, unsigned_type(width))


def _join(em: Emitter, x: oir.Value, part: int, width: int) -> oir.Value:
    """The trailing axis of elements of `part` bits as one unsigned integer of `width` bits.

    A product with powers of two adds up the parts: runtimes multiply integer matrices in wrapping
    arithmetic, whereas ReduceSum may go through doubles.
    """
    carrier = unsigned_type(max(width, 32))
    weights = [[1 << at] for at in range(0, width, part)]
    x, dropped = em.cast(x, carrier), [rank_of(x) - 1]
    if dropped == [0]:
        x, dropped = em.unsqueeze(x, [0]), [0, 1]
    joined = em.MatMul(x, em.const(np.array(weights, np.uint64), carrier))
    return em.cast(em.squeeze(joined, dropped), unsigned_type(width))


# -- reduce_precision -------------------------------------------------------------------------


@handles("stablehlo.reduce_precision")
def reduce_precision(em: Emitter, op: Op, *, exponent_bits: int, mantissa_bits: int) -> oir.Value:
    """reduce_precision(x) -> x with the mantissa rounded to nearest even; NaN stays.

    Numbers that are too large become infinite. Numbers below the smallest normal number become
    zero and keep their sign. If casts to a float type and back round the same way, it is two Casts.
    """
    x = em.operand(op)
    dtype = dtype_of(x)
    if dtype.bitwidth == 8:
        wide = em.cast(x, T.FLOAT16)  # as XLA does
        return convert(em, _reduced(em, wide, exponent_bits, mantissa_bits), dtype)
    return _reduced(em, x, exponent_bits, mantissa_bits)


_BY_CAST = {
    (T.FLOAT, 8, 7): T.BFLOAT16,
    (T.FLOAT, 5, 10): T.FLOAT16,
    (T.DOUBLE, 8, 23): T.FLOAT,
}
"""(Type, exponent bits, mantissa bits): a cast to the type rounds to them once."""


def _reduced(em: Emitter, x: oir.Value, exponent_bits: int, mantissa_bits: int) -> oir.Value:
    digits = mantissa_digits(dtype_of(x))
    fewer_exponents = exponent_bits < dtype_of(x).bitwidth - 1 - digits
    fewer_digits = mantissa_bits < digits
    least = 2 - (1 << exponent_bits - 1)
    narrow = _BY_CAST.get((dtype_of(x), exponent_bits, mantissa_bits))
    if narrow is not None:
        # Numbers that do not round up to the smallest normal number with this mantissa.
        limit = math.ldexp(1 - 2.0 ** (-mantissa_bits - 2), least)
        rounded = em.cast(keep_rounding(em.cast(x, narrow)), dtype_of(x))
        return _flushed(em, x, rounded, limit, by=x) if fewer_exponents else rounded
    rounded = _rounded(em, x, digits - mantissa_bits) if fewer_digits else x
    if fewer_exponents:
        rounded = _flushed(em, x, rounded, math.ldexp(1.0, least), by=rounded)
        above = em.GreaterOrEqual(em.Abs(rounded), em.scalar_like(math.ldexp(1.0, 2 - least), x))
        rounded = em.Where(above, em.Mul(rounded, em.scalar_like(math.inf, x)), rounded)
    if fewer_digits and not em.facts.nan_free(x):
        rounded = em.Where(em.IsNaN(x), x, rounded)
    return rounded


def _flushed(
    em: Emitter, x: oir.Value, rounded: oir.Value, limit: float, *, by: oir.Value
) -> oir.Value:
    """`rounded` with zero of the sign of x where |by| is below the limit; NaN stays."""
    # ORT's Where makes +0 of a -0 in its second operand, not in its third.
    kept = em.GreaterOrEqual(em.Abs(by), em.scalar_like(limit, x))
    return em.Where(kept, rounded, em.Mul(x, em.scalar_like(0, x)))


def _rounded(em: Emitter, x: oir.Value, dropped: int) -> oir.Value:
    """x without that many mantissa bits. Half of their range, less one unless the last kept bit is
    1, is added before they are cut off."""
    width = dtype_of(x).bitwidth
    code = to_bits(em, x, unsigned_type(width))
    odd = mask(em, shift_right_logical(em, code, dropped), 1)
    half = em.Add(odd, em.scalar_like((1 << dropped - 1) - 1, code))
    return from_bits(em, mask(em, em.Add(code, half), -1 << dropped), dtype_of(x))

"""The bits of integers and of floats."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, UNSIGNED, dtype_of
from hlo2onnx.lowering.emitter import Emitter

# -- integers as bits: signedness, shifts and digit tricks on elements of any width -----------
#
# Casts between integer types wrap, in ONNX as in StableHLO, so that a cast between the signed and
# the unsigned type of a width reinterprets the bits. BitShift exists for unsigned types only and
# leaves amounts of the width or more undefined before opset 28.


_UNSIGNED = {dtype.bitwidth: dtype for dtype in UNSIGNED}
_SIGNED = {dtype.bitwidth: dtype for dtype in INTEGERS - UNSIGNED}


def unsigned_type(width: int) -> oir.DataType:
    """The unsigned integer type of this many bits."""
    return _UNSIGNED[width]


def signed_type(width: int) -> oir.DataType:
    """The signed integer type of this many bits."""
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
        return em.BitShift(x, bits(em, amount, x), direction="LEFT")
    return em.Mul(x, bits(em, 1 << amount, x))


def shift_right_logical(em: Emitter, x: oir.Value, amount: int) -> oir.Value:
    """x >> amount, zeros moving in."""
    if not amount:
        return x
    if not is_unsigned(x) and in_range(em, x, 0, range_of_type(dtype_of(x)).high):
        return shift_right_arithmetic(em, x, amount)
    unsigned = as_unsigned(em, x)
    shifted = em.BitShift(unsigned, bits(em, amount, unsigned), direction="RIGHT")
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
    shifted = em.BitShift(unsigned, by, direction=direction)
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
    shifted = em.BitShift(unsigned, by, direction="RIGHT")
    sign_bit = em.BitShift(bits(em, 1 << width - 1, unsigned), by, direction="RIGHT")
    extended = em.Sub(em.BitwiseXor(shifted, sign_bit), sign_bit)
    return em.cast(extended, dtype_of(x))


# -- the bits of floats as integers, and back -------------------------------------------------
#
# `to_bits` and `from_bits` are BitCast if the opset has it. In an explicit opset below 26, and for
# floats of 8 bits or fewer, which runtimes cannot BitCast, both are exact arithmetic. Only the
# sign and payload of a NaN are lost: it becomes the quiet NaN.


T = oir.DataType


def mantissa_digits(dtype: oir.DataType) -> int:
    """Bits of the stored mantissa of a float type."""
    return int(ml_dtypes.finfo(dtype.numpy()).nmant)


def least_exponent(number: np.dtype) -> int:
    """Exponent of the smallest normal number of a float type."""
    # Code 0 of f8E8M0 is 2^-127; other formats have their subnormals there.
    return -126 if number == ml_dtypes.float8_e8m0fnu else int(ml_dtypes.finfo(number).minexp)


def to_bits(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The bits of a float as an integer of type `dtype`, which has its width."""
    if _bit_casts(em, dtype_of(x)):
        return em.BitCast(x, to=dtype)
    number = dtype_of(x).numpy()
    return em.cast(_encode(em, em.cast(x, _carrier(dtype_of(x))[0]), number), dtype)


def from_bits(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The float of type `dtype` with the bits of an integer of its width."""
    if _bit_casts(em, dtype):
        return em.BitCast(x, to=dtype)
    return _look_up(em, x, dtype) if dtype.bitwidth <= 8 else _decode(em, x, dtype)


def total_order_key(em: Emitter, x: oir.Value) -> oir.Value:
    """Signed integers ordered as the floats of x are in total order:
    -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    if dtype_of(x) == T.FLOAT8E8M0:
        return em.cast(to_bits(em, x, T.UINT8), T.INT16)
    dtype = signed_type(dtype_of(x).bitwidth)
    coded = to_bits(em, x, dtype)
    # Negative codes grow with the magnitude: all bits but the sign are inverted.
    mirrored = em.BitwiseXor(coded, em.scalar_like(range_of_type(dtype).high, coded))
    return em.Where(em.Less(coded, em.scalar_like(0, coded)), mirrored, coded)


def _bit_casts(em: Emitter, dtype: oir.DataType) -> bool:
    if dtype.bitwidth > 8 and em.has_bitcast:
        return True
    em.report.note("bits of floats are computed without BitCast: NaN becomes the quiet NaN")
    return False


def _carrier(dtype: oir.DataType) -> tuple[oir.DataType, oir.DataType]:
    """A float type and a signed integer type to compute in that hold all of `dtype`."""
    return (T.DOUBLE, T.INT64) if dtype == T.DOUBLE else (T.FLOAT, T.INT32)


def _encode(em: Emitter, x: oir.Value, number: np.dtype) -> oir.Value:
    """The code of each f32 or f64, rounded to the nearest number of a float type, ties to even:
    (m + E - least) · 2^digits for |x| = m · 2^E, m in [1, 2), or with E = least and m < 1.

    Numbers that round beyond the largest number become the same as infinity: infinity, NaN, or the
    largest number. If the mantissa rounds up to the next power of two, it carries into the
    exponent, which gives the next code.
    """
    real, integer = dtype_of(x), T.INT64 if dtype_of(x) == T.DOUBLE else T.INT32
    digits, bits = int(ml_dtypes.finfo(number).nmant), ml_dtypes.finfo(number).bits
    special = np.array([np.nan, np.inf, -0.0]).astype(number)
    nan, top, zero = (int(code) for code in special.view(f"u{number.itemsize}"))
    finite = em.Where(em.IsNaN(x), em.scalar_like(0, x), x)
    magnitude = em.Min(em.Abs(finite), em.scalar_like(np.finfo(real.numpy()).max, x))
    fraction, exponent = _split(em, magnitude, least_exponent(number))
    mantissa = em.Round(em.Mul(fraction, em.scalar_like(2.0**digits, x)))
    step = em.scalar(1 << digits, integer)
    code = em.Add(em.cast(mantissa, integer), em.Mul(em.cast(exponent, integer), step))
    if bits == real.bitwidth:
        code = em.Where(em.IsInf(x), em.scalar_like(top, code), code)
    else:
        code = em.Min(code, em.scalar_like(top, code))
    if number != ml_dtypes.float8_e8m0fnu:
        sign_bit = em.scalar(wrapped(1 << bits - 1, integer), integer)
        negative = _is_negative(em, x)
        if not zero:  # the code of -0 is that of NaN
            is_number = em.And(em.Greater(code, em.scalar_like(0, code)), em.Less(code, sign_bit))
            negative = em.And(negative, is_number)
        code = em.Where(negative, em.Add(code, sign_bit), code)
    return em.Where(em.IsNaN(x), em.scalar_like(nan, code), code)


def _is_negative(em: Emitter, x: oir.Value) -> oir.Value:
    """Where a float is negative or -0."""
    zero, one = em.scalar_like(0, x), em.scalar_like(1, x)
    # 1 / -0 is -inf
    return em.Or(em.Less(x, zero), em.Less(em.Div(one, x), zero))


def _split(em: Emitter, magnitude: oir.Value, least: int) -> tuple[oir.Value, oir.Value]:
    """m and E - least with magnitude = m · 2^E, m in [1, 2) or E = least and m in [0, 1).

    The logarithm only guesses E, from below; powers of two from a table then divide exactly, and a
    quotient of 2 or more says that E is one more.
    """
    real = dtype_of(magnitude).numpy()
    most = math.frexp(float(np.finfo(real).max))[1] - 1
    powers = em.const(np.ldexp(real.type(1), np.arange(least, most + 1)))
    normal = em.Max(magnitude, em.scalar_like(2.0**least, magnitude))
    guess = em.Mul(em.Log(normal), em.scalar_like(1 / math.log(2), magnitude))
    # 2^-9 is more than the logarithm's error and leaves the guess at most one too low.
    offset = em.Floor(em.Sub(guess, em.scalar_like(least + 2.0**-9, magnitude)))
    offset = em.Max(offset, em.scalar_like(0, magnitude))
    fraction = em.Div(magnitude, em.Gather(powers, em.cast(offset, T.INT32)))
    low = em.GreaterOrEqual(fraction, em.scalar_like(2, magnitude))
    one, half = em.scalar_like(1, magnitude), em.scalar_like(0.5, magnitude)
    return (
        em.Where(low, em.Mul(fraction, half), fraction),
        em.Where(low, em.Add(offset, one), offset),
    )


def _decode(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The number of each code: (mantissa · 2^-digits + hidden bit) · 2^E."""
    digits = mantissa_digits(dtype)
    real, integer = _carrier(dtype)
    x = em.cast(x, signed_type(dtype.bitwidth))
    positive = em.GreaterOrEqual(x, em.scalar_like(0, x))
    code = em.cast(mask(em, x, range_of_type(dtype_of(x)).high), integer)
    exponent = shift_right_logical(em, code, digits)
    mantissa = em.cast(mask(em, code, (1 << digits) - 1), real)
    hidden = em.cast(em.Min(exponent, em.scalar(1, integer)), real)
    fraction = em.Add(em.Mul(mantissa, em.scalar(2.0**-digits, real)), hidden)
    count = 1 << dtype.bitwidth - 1 - digits
    powers = np.ldexp(
        real.numpy().type(1), np.arange(count - 1) - 1 + least_exponent(dtype.numpy())
    )
    powers[0] *= 2
    scale = em.Gather(em.const(np.append(powers, powers.dtype.type(np.inf))), exponent)
    infinity = em.scalar((count - 1) << digits, integer)
    number = em.Mul(fraction, scale)
    number = em.Where(em.Greater(code, infinity), em.scalar(np.nan, real), number)
    # ORT's Where makes +0 of a -0 in its second operand, not in its third.
    return em.cast(em.Where(positive, number, em.Neg(number)), dtype)


def _look_up(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The number of each code of 8 bits or fewer, from a table."""
    codes = np.arange(1 << dtype.bitwidth).astype(np.uint8)
    # 2^-127 of f8E8M0 is not a normal f32.
    numbers = em.const(codes.view(dtype.numpy()).astype(np.float64))
    index = mask(em, em.cast(x, T.INT32), len(codes) - 1)
    return em.cast(em.Gather(numbers, index), dtype)


# -- floats of 8 bits or fewer without a type in ONNX, stored as uint8 --------------------------


def stored_to_float(em: Emitter, x: oir.Value, number: np.dtype) -> oir.Value:
    """The f32 number of each code of the ml_dtypes type `number`, which is exact."""
    codes = np.arange(256)
    bits = (codes & (1 << ml_dtypes.finfo(number).bits) - 1).astype(np.uint8)
    table = em.const(bits.view(number).astype(np.float32))
    return em.Gather(table, em.cast(x, T.INT32))


def float_to_stored(em: Emitter, x: oir.Value, number: np.dtype) -> oir.Value:
    """The code of each f32, rounded to the nearest number of the ml_dtypes type, ties to even."""
    return em.cast(_encode(em, x, number), T.UINT8)

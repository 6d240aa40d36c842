"""The bits of integers and of floats."""

from __future__ import annotations

import math
from dataclasses import dataclass

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


# -- the bits of floats as integers, and back -------------------------------------------------
#
# `to_bits` and `from_bits` are BitCast if the opset has it. In an explicit opset below 26, and for
# floats of 8 bits or fewer, which runtimes cannot BitCast, both are exact arithmetic. Only the
# sign and payload of a NaN are lost: it becomes the quiet NaN.


T = oir.DataType


@dataclass(frozen=True)
class Format:
    """How a float type encodes numbers.

    Attributes:
        digits: Bits of the stored mantissa.
        least: Exponent of the smallest normal number.
        signed: Whether the highest bit is the sign.
    """

    digits: int
    least: int
    signed: bool = True


FORMATS = {
    T.DOUBLE: Format(52, -1022),
    T.FLOAT: Format(23, -126),
    T.FLOAT16: Format(10, -14),
    T.BFLOAT16: Format(7, -126),
    T.FLOAT8E4M3FN: Format(3, -6),
    T.FLOAT8E4M3FNUZ: Format(3, -7),
    T.FLOAT8E5M2: Format(2, -14),
    T.FLOAT8E5M2FNUZ: Format(2, -15),
    # Code 0 is 2^-127; other formats have their subnormals there.
    T.FLOAT8E8M0: Format(0, -126, signed=False),
    T.FLOAT4E2M1: Format(1, 0),
}


def to_bits(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The bits of a float as an integer of type `dtype`, which has its width."""
    if _bit_casts(em, dtype_of(x)):
        return _bit_cast(em, x, dtype)
    return em.cast(_encode(em, x), dtype)


def from_bits(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The float of type `dtype` with the bits of an integer of its width."""
    if _bit_casts(em, dtype):
        return _bit_cast(em, x, dtype)
    return _look_up(em, x, dtype) if dtype.bitwidth <= 8 else _decode(em, x, dtype)


def total_order_key(em: Emitter, x: oir.Value) -> oir.Value:
    """Signed integers ordered as the floats of x are in total order:
    -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    if not FORMATS[dtype_of(x)].signed:
        return em.cast(to_bits(em, x, T.UINT8), T.INT16)
    dtype = signed_type(dtype_of(x).bitwidth)
    coded = to_bits(em, x, dtype)
    # Negative codes grow with the magnitude: all bits but the sign are inverted.
    mirrored = em.BitwiseXor(coded, em.scalar_like(range_of_type(dtype).high, coded))
    return em.Where(em.Less(coded, em.scalar_like(0, coded)), mirrored, coded)


def _bit_cast(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    return em.BitCast(x, to=dtype)


def _bit_casts(em: Emitter, dtype: oir.DataType) -> bool:
    if dtype.bitwidth > 8 and em.has_bitcast:
        return True
    em.report.note("bits of floats are computed without BitCast: NaN becomes the quiet NaN")
    return False


def _carrier(dtype: oir.DataType) -> tuple[oir.DataType, oir.DataType]:
    """A float type and a signed integer type to compute in that hold all of `dtype`."""
    return (T.DOUBLE, T.INT64) if dtype == T.DOUBLE else (T.FLOAT, T.INT32)


def _encode(em: Emitter, x: oir.Value) -> oir.Value:
    """The code of each element: (m + E - least) · 2^digits for |x| = m · 2^E, m in [1, 2).

    For subnormals too, with E = least and m < 1.
    """
    dtype, form = dtype_of(x), FORMATS[dtype_of(x)]
    real, integer = _carrier(dtype)
    nan, infinity = _codes(dtype)
    x = em.cast(x, real)
    finite = em.Where(em.IsNaN(x), em.scalar(1, real), x)
    largest = float(np.finfo(real.numpy()).max)
    magnitude = em.Min(em.Abs(finite), em.scalar(largest, real))
    fraction, exponent = _split(em, magnitude, form.least)
    scaled = em.cast(em.Mul(fraction, em.scalar(2.0**form.digits, real)), integer)
    step = em.scalar(1 << form.digits, integer)
    code = em.Add(scaled, em.Mul(em.cast(exponent, integer), step))
    if infinity is not None:
        code = em.Where(em.IsInf(x), em.scalar(infinity, integer), code)
    if form.signed:
        sign_bit = em.scalar(wrapped(1 << dtype.bitwidth - 1, integer), integer)
        code = em.Where(_is_negative(em, x), em.Add(code, sign_bit), code)
    if nan is not None:
        code = em.Where(em.IsNaN(x), em.scalar(nan, integer), code)
    return code


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


def _codes(dtype: oir.DataType) -> tuple[int | None, int | None]:
    """The codes of NaN and of +infinity; None where the type has none."""
    special = np.array([np.nan, np.inf]).astype(dtype.numpy())
    nan, infinity = (int(code) for code in special.view(f"u{special.itemsize}"))
    if dtype == T.FLOAT4E2M1:
        return None, None
    return nan, infinity if np.isinf(special[1]) else None


def _decode(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The number of each code: (mantissa · 2^-digits + hidden bit) · 2^E."""
    form = FORMATS[dtype]
    real, integer = _carrier(dtype)
    x = em.cast(x, signed_type(dtype.bitwidth))
    positive = em.GreaterOrEqual(x, em.scalar_like(0, x))
    code = em.cast(mask(em, x, range_of_type(dtype_of(x)).high), integer)
    exponent = shift_right_logical(em, code, form.digits)
    mantissa = em.cast(mask(em, code, (1 << form.digits) - 1), real)
    hidden = em.cast(em.Min(exponent, em.scalar(1, integer)), real)
    fraction = em.Add(em.Mul(mantissa, em.scalar(2.0**-form.digits, real)), hidden)
    count = 1 << dtype.bitwidth - 1 - form.digits
    powers = np.ldexp(real.numpy().type(1), np.arange(count - 1) - 1 + form.least)
    powers[0] *= 2
    scale = em.Gather(em.const(np.append(powers, powers.dtype.type(np.inf))), exponent)
    infinity = em.scalar((count - 1) << form.digits, integer)
    number = em.Mul(fraction, scale)
    number = em.Where(em.Greater(code, infinity), em.scalar(np.nan, real), number)
    # ORT's Where makes +0 of a -0 in its second operand, not in its third.
    return em.cast(em.Where(positive, number, em.Neg(number)), dtype)


def _look_up(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """The number of each code of 8 bits or fewer, from a table."""
    codes = np.arange(1 << dtype.bitwidth).astype(np.uint8)
    # 2^-127 of f8E8M0 is no normal f32.
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
    """The code of each f32, rounded to the nearest number of the ml_dtypes type, ties to even.

    Numbers that round beyond the largest number become the same as infinity: infinity, NaN, or the
    largest number. The mantissa is rounded to an integer. If it rounds up to the next power of two,
    it carries into the exponent, which gives the next code.
    """
    form = ml_dtypes.finfo(number)
    nan, top, negative_zero = _special_codes(number)
    finite = em.Where(em.IsNaN(x), em.scalar_like(0, x), x)
    magnitude = em.Min(em.Abs(finite), em.scalar_like(np.finfo(np.float32).max, x))
    fraction, exponent = _split(em, magnitude, form.minexp)
    mantissa = em.Round(em.Mul(fraction, em.scalar_like(2.0**form.nmant, x)))
    step = em.scalar(1 << form.nmant, T.INT32)
    code = em.Add(em.cast(mantissa, T.INT32), em.Mul(em.cast(exponent, T.INT32), step))
    code = em.Min(code, em.scalar(top, T.INT32))
    sign_bit = 1 << form.bits - 1
    negative = _is_negative(em, x)
    if not negative_zero:  # its code is the code of NaN
        inside = em.And(
            em.Greater(code, em.scalar_like(0, code)), em.Less(code, em.scalar_like(sign_bit, code))
        )
        negative = em.And(negative, inside)
    code = em.Where(negative, em.Add(code, em.scalar_like(sign_bit, code)), code)
    code = em.Where(em.IsNaN(x), em.scalar_like(nan, code), code)
    return em.cast(code, T.UINT8)


def _special_codes(number: np.dtype) -> tuple[int, int, bool]:
    """The codes of NaN and of infinity, or what becomes of them; whether the type has -0."""
    special = np.array([np.nan, np.inf, -0.0], np.float32).astype(number).view(np.uint8)
    nan, infinity, zero = (int(code) for code in special)
    return nan, infinity, zero != 0

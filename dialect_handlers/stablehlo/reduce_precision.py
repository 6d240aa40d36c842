"""reduce_precision."""

from __future__ import annotations

import math

import onnx_ir as oir

from dialect_handlers.common.casts import convert
from dialect_handlers.common.float_bits import FORMATS, from_bits, to_bits
from dialect_handlers.common.integer_bits import mask, shift_right_logical, unsigned_type
from hlo2onnx.ir.notes import keep_rounding
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

T = oir.DataType


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
    form = FORMATS[dtype_of(x)]
    fewer_exponents = exponent_bits < dtype_of(x).bitwidth - 1 - form.digits
    fewer_digits = mantissa_bits < form.digits
    least = 2 - (1 << exponent_bits - 1)
    narrow = _BY_CAST.get((dtype_of(x), exponent_bits, mantissa_bits))
    if narrow is not None:
        # Numbers that do not round up to the smallest normal number with this mantissa.
        limit = math.ldexp(1 - 2.0 ** (-mantissa_bits - 2), least)
        rounded = em.cast(keep_rounding(em.cast(x, narrow)), dtype_of(x))
        return _flushed(em, x, rounded, limit, by=x) if fewer_exponents else rounded
    rounded = _rounded(em, x, form.digits - mantissa_bits) if fewer_digits else x
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

"""Conversions between element types with StableHLO's rounding, wrapping and saturation."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.notes import keep_rounding
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import FLOATS, dtype_of
from hlo2onnx.lowering.emitter import Emitter

T = oir.DataType


def convert(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """x as `dtype`, as stablehlo.convert does it.

    Integers wrap. Floats round to nearest even. Float to integer truncates and saturates; NaN
    becomes 0. Every number but 0 is true. Integers to bf16, and f64 to f16 or bf16, round to f32
    first, as in XLA on the CPU. One Cast suffices where ONNX's Cast does the same.
    """
    source = dtype_of(x)
    if source in FLOATS and source.bitwidth < 16:
        x = em.cast(x, T.FLOAT)  # exact, and the kernels of 8 bits take -0 for true
    if dtype in _OVERFLOW and source in _ABOVE_F8:
        return em.cast(_overflowing(em, narrowed(em, x), dtype), dtype)
    if dtype == T.FLOAT8E8M0:
        return em.cast(_below_the_largest(em, narrowed(em, x)), dtype)
    if dtype.name.startswith("FLOAT8"):
        return em.cast(narrowed(em, x), dtype)
    if source in FLOATS and dtype not in FLOATS and dtype != T.BOOL:
        return _to_integer(em, x, dtype)
    return em.cast(x, dtype)


# -- float to integer ---------------------------------------------------------------------------


def _to_integer(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """Cast of clipped values: outside the type's range the result of Cast is undefined.

    If the maximum of the integer type lies between two floats, a Where after the Cast replaces all
    values from the next power of two on.
    """
    if dtype_of(x).bitwidth < 32:
        x = keep_rounding(em.cast(x, T.FLOAT))
    low, high = range_of_type(dtype)
    top = _largest_within(high, dtype_of(x))
    bounds = em.facts.float_range(x)
    if not em.facts.nan_free(x):
        x = em.Where(em.IsNaN(x), em.scalar_like(0, x), x)
    # Truncation brings numbers less than 1 outside the range back in.
    inside = low - 1 < bounds.low and bounds.high < high + 1
    clipped = x if inside else em.Clip(x, em.scalar_like(low, x), em.scalar_like(top, x))
    result = em.cast(clipped, dtype)
    if top < high and not bounds.high <= top:
        above = em.GreaterOrEqual(x, em.scalar_like(high + 1, x))
        result = em.Where(above, em.scalar(high, dtype), result)
    return result


def _largest_within(high: int, dtype: oir.DataType) -> int:
    """The largest integer up to `high` that is a value of the float type."""
    digits = np.finfo(dtype.numpy()).nmant + 1
    spare = max(high.bit_length() - digits, 0)
    return high >> spare << spare


# -- float to 8-bit float -----------------------------------------------------------------------

_OVERFLOW = {
    T.FLOAT8E4M3FN: 464.0,
    T.FLOAT8E5M2: float(np.nextafter(np.float32(61440), np.float32(0))),
}
"""The largest f32 that rounds to a finite number. ORT's casts treat only numbers above the range
of the type as overflow, not numbers that round to one above it."""
_ABOVE_F8 = frozenset(
    {T.FLOAT, T.DOUBLE, T.BFLOAT16, T.FLOAT16, T.INT16, T.INT32, T.INT64}
    | {T.UINT16, T.UINT32, T.UINT64}
)
"""Types with finite values above those limits."""


def _overflowing(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    """x, infinite where it rounds above the largest number of `dtype`."""
    above = em.Greater(em.Abs(x), em.scalar_like(_OVERFLOW[dtype], x))
    return em.Where(above, em.Mul(x, em.scalar_like(math.inf, x)), x)


_LARGEST = 2.0**127
"""The largest number of f8E8M0; from half as much more on everything is NaN."""


def _below_the_largest(em: Emitter, x: oir.Value) -> oir.Value:
    """x, with the largest number of f8E8M0 where x rounds down to it; ORT makes NaN of it."""
    if em.facts.float_range(x).high < _LARGEST:
        return x
    rounds_down = em.Less(x, em.scalar_like(1.5 * _LARGEST, x))
    return em.Where(rounds_down, em.Min(x, em.scalar_like(_LARGEST, x)), x)


def narrowed(em: Emitter, x: oir.Value) -> oir.Value:
    """x in f32 so that a second rounding, to 8 bits, gives what one rounding of x would.

    An f64 is rounded to the 8 digits of bf16. A term far below them replaces the dropped digits and
    breaks ties as they would.
    """
    if dtype_of(x) != T.DOUBLE:
        return keep_rounding(em.cast(x, T.FLOAT))
    bounded = em.Clip(x, em.scalar_like(-3e38, x), em.scalar_like(3e38, x))
    short = em.cast(keep_rounding(em.cast(bounded, T.BFLOAT16)), T.DOUBLE)
    grows = em.Sign(em.Mul(em.Sub(bounded, short), short))
    factor = em.Add(em.Mul(grows, em.scalar_like(2.0**-20, x)), em.scalar_like(1, x))
    return em.cast(em.Mul(short, factor), T.FLOAT)

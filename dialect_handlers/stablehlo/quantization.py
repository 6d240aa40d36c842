"""uniform_quantize and uniform_dequantize, and floats that models hold as their bits.

`hlo2onnx.frontend.mlir.quantization` and `.stored_floats` turn them into custom calls with the
parameters of their types, so that no handler sees such a type.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.bits import float_to_stored, stored_to_float
from dialect_handlers.common.casts import convert, narrowed
from hlo2onnx.frontend.mlir.quantization import DEQUANTIZE, QUANTIZE
from hlo2onnx.frontend.mlir.stored_floats import DECODE, ENCODE
from hlo2onnx.frontend.mlir.types import STORED_FLOATS
from hlo2onnx.ir.values import dtype_of, rank_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.lowering.registry import handles_call

T = oir.DataType

_STORED_SINCE = {T.INT8: 0, T.UINT8: 0, T.INT16: 21, T.UINT16: 21, T.INT4: 21, T.UINT4: 21}
"""The first opset whose QuantizeLinear returns each type."""

NAN = "NaN is quantized to the lowest number, in XLA to 0 (translate with nan='xla' for 0)"


@handles_call(QUANTIZE)
def quantize(
    em: Emitter,
    op: CustomCall,
    *,
    scales: Sequence[float],
    zero_points: Sequence[int],
    low: int,
    high: int,
    axis: int | None = None,
) -> oir.Value:
    """uniform_quantize(x) -> QuantizeLinear, or round(x / scale + zero_point) and Clip.

    QuantizeLinear rounds before it adds the zero point, so it is used for zero point 0. For others
    a rewrite rule makes it. The result is clipped if its bounds are narrower
    than those of its type.
    """
    x, stored = em.operand(op), em.result_type(op).dtype
    has_operator = _has_operator(em, stored, dtype_of(x)) and em.options.nan != "xla"
    if has_operator and not em.facts.nan_free(x):
        em.report.note(NAN)
    if has_operator and not any(zero_points):
        scale, zeros = _along(em, scales, T.FLOAT, axis), _along(em, zero_points, stored, axis)
        quantized = em.QuantizeLinear(x, scale, zeros, axis=axis)
        return _within(em, quantized, low, high)
    y = em.Div(x, _along(em, scales, dtype_of(x), axis, rank_of(x)))
    if any(zero_points):
        y = em.Add(y, _along(em, zero_points, dtype_of(x), axis, rank_of(x)))
    y = em.Clip(y, em.scalar_like(low, y), em.scalar_like(high, y))
    return convert(em, em.Round(y), stored)


@handles_call(DEQUANTIZE, ignores={"low": "the type's own bounds", "high": "the type's own bounds"})
def dequantize(
    em: Emitter,
    op: CustomCall,
    *,
    scales: Sequence[float],
    zero_points: Sequence[int],
    axis: int | None = None,
) -> oir.Value:
    """uniform_dequantize(q) -> DequantizeLinear: (q - zero_point) * scale."""
    x, result = em.operand(op), em.result_type(op).dtype
    stored = dtype_of(x)
    is_wide = stored == T.INT32 and not any(zero_points)
    if _has_operator(em, stored, result) or (is_wide and result == T.FLOAT):
        zeros = None if is_wide else _along(em, zero_points, stored, axis)
        return em.DequantizeLinear(x, _along(em, scales, result, axis), zeros, axis=axis)
    y = em.cast(x, T.INT32)
    if any(zero_points):
        y = em.Sub(y, _along(em, zero_points, T.INT32, axis, rank_of(x)))
    return em.Mul(em.cast(y, result), _along(em, scales, result, axis, rank_of(x)))


def _has_operator(em: Emitter, stored: oir.DataType, expressed: oir.DataType) -> bool:
    """Whether ONNX converts between these types; it rounds half types differently."""
    return expressed == T.FLOAT and em.opset >= _STORED_SINCE.get(stored, em.opset + 1)


def _within(em: Emitter, x: oir.Value, low: int, high: int) -> oir.Value:
    """x, clipped unless its range is known to lie within the bounds."""
    bounds = em.facts.int_range(x)
    if bounds is not None and bounds.within(low, high):
        return x
    return em.Clip(x, em.scalar_like(low, x), em.scalar_like(high, x))


def _along(
    em: Emitter,
    numbers: Sequence[float],
    dtype: oir.DataType,
    axis: int | None,
    rank: int | None = None,
) -> oir.Value:
    """The parameters as a scalar, or as a vector along the axis; with a rank, they broadcast."""
    array = np.array(numbers).astype(dtype.numpy())
    if axis is None:
        return em.const(array[0])
    return em.const(array if rank is None else array.reshape([-1] + [1] * (rank - 1 - axis)))


# -- floats stored as the integers of their bits ------------------------------------------------


@handles_call(DECODE)
def decode(em: Emitter, op: CustomCall, *, element: str) -> oir.Value:
    """decode(bits) -> f32 numbers, by a table."""
    return stored_to_float(em, em.operand(op), STORED_FLOATS[element])


@handles_call(ENCODE)
def encode(em: Emitter, op: CustomCall, *, element: str) -> oir.Value:
    """encode(x) -> the bits of x, rounded once to the nearest number, ties to even."""
    return float_to_stored(em, narrowed(em, em.operand(op)), STORED_FLOATS[element])

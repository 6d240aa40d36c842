"""iota: counting along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.mlir.types import parts_of

CONSTANT_BYTES = 1 << 18
"""A longer count is made by Range: a quarter of a megabyte is enough for a simpler graph. But one
of bytes, which is pointless from 256 elements on, is stored at any length: the runtime's casts to
f8 are off where they overflow."""


@handles("stablehlo.iota")
def iota(em: Emitter, op: Op, *, iota_dimension: int) -> oir.Value:
    """iota() -> Expand of 0, 1, 2, ... along the axis, in the element type."""
    return _iota(em, em.result_dims(op), iota_dimension, em.result_type(op).dtype)


@handles("stablehlo.iota", form="complex")
def complex_iota(em: Emitter, op: Op, *, iota_dimension: int) -> list[Parts]:
    """iota() -> the count, with an imaginary part of zero."""
    dims, (part, _) = em.result_dims(op), parts_of(op.results[0].type)
    real = _iota(em, dims, iota_dimension, part.dtype)
    return [(real, em.expand(em.scalar(0, part.dtype), dims))]


def _iota(em: Emitter, dims: Sequence[int], axis: int, dtype: oir.DataType) -> oir.Value:
    count = dims[axis]
    column = [count, *(1 for _ in dims[axis + 1 :])]
    if dtype.bitwidth <= 8 or count * dtype.bitwidth <= 8 * CONSTANT_BYTES:
        # What does not fit the type wraps, or becomes what the type has for "too large".
        with np.errstate(over="ignore"):
            counted = np.arange(count).astype(dtype.numpy()).reshape(column)
        return em.expand(em.const(counted), dims)
    own = dtype if dtype == oir.DataType.INT32 else oir.DataType.INT64
    numbers = em.Range(em.scalar(0, own), em.scalar(count, own), em.scalar(1, own))
    return em.expand(em.reshape(em.cast(numbers, dtype), column), dims)

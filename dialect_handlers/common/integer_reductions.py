"""Sums and extremes of integers where ONNX Runtime's own reducers give other numbers.

Measured (ONNX Runtime 1.31): ReduceSum and ReduceProd compute integers in f64 and saturate the
result; ReduceMax and ReduceMin (and Max, Min, Clip) on INT64 compare words of equal high half by
their low half as signed numbers, so that 2^31 < 0. MatMul wraps and TopK and ArgMax are right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.graph.values import dtype_of, shape_of, static_shape
from hlo2onnx.lowering.emitter import Emitter

INT32, INT64, UINT64 = oir.DataType.INT32, oir.DataType.INT64, oir.DataType.UINT64

_SUM_LIMITS = {INT32: 1 << 31, INT64: 1 << 53}
"""Sums below these are exact in f64 and in the type itself."""

_ANY_EXTENT = 1 << 31
"""More elements than a dynamic extent stands for."""


def sum_integers(em: Emitter, x: oir.Value, axes: Sequence[int], keepdims: bool) -> oir.Value:
    """A sum that wraps: ReduceSum where that provably is exact, else a product with ones, which
    is several times faster besides."""
    dtype = dtype_of(x)
    own = INT32 if dtype.bitwidth <= 32 else INT64
    if _sum_fits(em, x, axes, own):
        return _reduce_sum(em, x, axes, keepdims, own)
    if static_shape(x) is not None:
        wide = em.cast(x, INT32) if dtype.bitwidth < 32 else x
        return em.cast(_sum_by_matmul(em, wide, sorted(axes), keepdims), dtype)
    if _sum_fits(em, x, axes, INT64):
        return _reduce_sum(em, x, axes, keepdims, INT64)
    raise UnsupportedOp(
        f"a sum of {dtype.name} over a dynamic shape may leave the range in which ONNX Runtime"
        " adds exactly",
        "lower the function for static shapes, or sum a narrower type",
    )


def _sum_fits(em: Emitter, x: oir.Value, axes: Sequence[int], carrier: oir.DataType) -> bool:
    bounds = em.facts.int_range(x) or range_of_type(dtype_of(x))
    extents = [shape_of(x)[axis] for axis in axes]
    count = math.prod(extent if isinstance(extent, int) else _ANY_EXTENT for extent in extents)
    return max(-bounds.low, bounds.high) * count < _SUM_LIMITS[carrier]


def _reduce_sum(
    em: Emitter, x: oir.Value, axes: Sequence[int], keepdims: bool, carrier: oir.DataType
) -> oir.Value:
    total = em.ReduceSum(em.cast(x, carrier), em.i64(sorted(axes)), keepdims=int(keepdims))
    return em.cast(total, dtype_of(x))


def _sum_by_matmul(em: Emitter, x: oir.Value, axes: Sequence[int], keepdims: bool) -> oir.Value:
    """The reduced axes, as one between an outer and an inner axis, contracted with ones."""
    dims = [int(dim) for dim in static_shape(x) or ()]
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    kept_dims = [dims[axis] for axis in kept]
    inner = math.prod(dims[axes[-1] + 1 :])
    if axes[-1] - axes[0] >= len(axes):
        x, inner = em.transpose(x, [*kept, *axes]), 1
    count = math.prod(dims[axis] for axis in axes)
    outer = math.prod(kept_dims) // max(inner, 1)
    one = em.scalar_like(1, x)
    if inner == 1:
        total = em.MatMul(em.reshape(x, [outer, count]), em.expand(one, [count, 1]))
    else:
        total = em.MatMul(em.expand(one, [1, count]), em.reshape(x, [outer, count, inner]))
    if keepdims:
        kept_dims = [1 if axis in axes else dim for axis, dim in enumerate(dims)]
    return em.reshape(total, kept_dims)


def extreme_of_wide_integers(
    em: Emitter, x: oir.Value, axes: Sequence[int], keepdims: bool, largest: bool
) -> oir.Value:
    """The largest or smallest UINT32, INT64 or UINT64: in INT32 where all provably fit, else by
    TopK, one axis after the other."""
    dtype = dtype_of(x)
    bounds = em.facts.int_range(x)
    if bounds is not None and bounds.within(*range_of_type(INT32)):
        reducer = "ReduceMax" if largest else "ReduceMin"
        narrow = em.cast(x, INT32)
        return em.cast(em.op(reducer, narrow, em.i64(sorted(axes)), keepdims=int(keepdims)), dtype)
    key = order_as_int64(em, x)
    for axis in axes:
        key, _ = em.TopK(key, em.i64([1]), axis=axis, largest=int(largest), n_outputs=2)
    if dtype == UINT64:
        key = em.BitwiseXor(key, _sign_bit(em))
    key = em.cast(key, dtype)
    return key if keepdims else em.squeeze(key, axes)


def order_as_int64(em: Emitter, x: oir.Value) -> oir.Value:
    """Integers as INT64 in the same order; UINT64 has its top bit flipped."""
    key = em.cast(x, INT64)
    if dtype_of(x) != UINT64:
        return key
    flipped: oir.Value = em.BitwiseXor(key, _sign_bit(em))
    return flipped


def _sign_bit(em: Emitter) -> oir.Value:
    return em.scalar(np.iinfo(np.int64).min, INT64)

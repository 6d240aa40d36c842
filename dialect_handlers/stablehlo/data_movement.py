"""Moving data without looking at it: reshape, transpose, broadcast, slice, concatenate, reverse."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.reshape", form="parts")
def reshape(em: Emitter, op: Op) -> oir.Value:
    """reshape(x) -> Reshape: the same elements in row-major order."""
    return em.reshape(em.operand(op), em.result_dims(op))


@handles("stablehlo.transpose", form="parts")
def transpose(em: Emitter, op: Op, *, permutation: Sequence[int]) -> oir.Value:
    """transpose(x) -> Transpose: axis d of the result is axis permutation[d] of x."""
    return em.transpose(em.operand(op), permutation)


@handles("stablehlo.broadcast_in_dim", form="parts")
def broadcast_in_dim(em: Emitter, op: Op, *, broadcast_dimensions: Sequence[int]) -> oir.Value:
    """broadcast_in_dim(x) -> Expand of a Reshape: axis i of x is axis broadcast_dimensions[i].

    Expand itself adds leading axes. If no axis is widened, only the Reshape remains.
    """
    dims = em.result_dims(op)
    extents = shape_of(em.operand(op))
    placed = dict(zip(broadcast_dimensions, extents, strict=True))
    x = em.transpose(em.operand(op), [broadcast_dimensions.index(axis) for axis in sorted(placed)])
    aligned = [placed.get(axis, 1) for axis in range(len(dims))]
    if aligned == list(dims):
        return em.reshape(x, dims)
    first = min(placed, default=len(dims))
    return em.expand(em.reshape(x, aligned[first:]), dims)


@handles("stablehlo.slice", form="parts")
def slice_(
    em: Emitter,
    op: Op,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int],
) -> oir.Value:
    """slice(x) -> Slice: x[start:limit:stride] along every axis."""
    return em.slice(em.operand(op), start_indices, limit_indices, strides)


@handles("stablehlo.concatenate", form="parts")
def concatenate(em: Emitter, op: Op, *, dimension: int) -> oir.Value:
    """concatenate(xs) -> Concat of the operands that are not empty along the axis."""
    values = em.operands(op)
    return em.concat([x for x in values if shape_of(x)[dimension] != 0] or values[:1], dimension)


@handles("stablehlo.reverse", form="parts")
def reverse(em: Emitter, op: Op, *, dimensions: Sequence[int]) -> oir.Value:
    """reverse(x) -> Slice that steps backwards past the first element."""
    x = em.operand(op)
    axes = [axis for axis in dimensions if shape_of(x)[axis] not in (0, 1)]
    count = len(axes)
    return em.slice(x, [-1] * count, [INT64_MIN] * count, [-1] * count, axes)

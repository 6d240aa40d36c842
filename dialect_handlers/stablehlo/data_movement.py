"""Moving data without looking at it, making it, and handing it on."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.padding import pad as padded
from dialect_handlers.common.tensors import count_along
from hlo2onnx.frontend.mlir.constants import Splat
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- reshape, transpose, broadcast, slice, concatenate, reverse -------------------------------
#
# Moving data without looking at it: reshape, transpose, broadcast, slice, concatenate, reverse.


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
    dims, x = em.result_dims(op), em.operand(op)
    placed = dict(zip(broadcast_dimensions, shape_of(x), strict=True))
    x = em.transpose(x, [broadcast_dimensions.index(axis) for axis in sorted(placed)])
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


# -- pad: gaps between elements, then edges ---------------------------------------------------


@handles("stablehlo.pad", form="parts")
def pad(
    em: Emitter,
    op: Op,
    *,
    edge_padding_low: Sequence[int],
    edge_padding_high: Sequence[int],
    interior_padding: Sequence[int],
) -> oir.Value:
    """pad(x, fill) -> Pad, with Slice for negative edges and Reshapes for gaps."""
    x, fill = em.operands(op)
    return padded(em, x, fill, edge_padding_low, edge_padding_high, interior_padding)


# -- iota: counting along an axis -------------------------------------------------------------


@handles("stablehlo.iota")
def iota(em: Emitter, op: Op, *, iota_dimension: int) -> oir.Value:
    """iota() -> Expand of 0, 1, 2, ... along the axis, in the element type."""
    return count_along(em, em.result_dims(op), iota_dimension, em.result_type(op).dtype)


@handles("stablehlo.iota", form="complex")
def complex_iota(em: Emitter, op: Op, *, iota_dimension: int) -> list[Parts]:
    """iota() of complex numbers -> the real iota, with imaginary part zero."""
    dims, (part, _) = em.result_dims(op), parts_of(op.results[0].type)
    real = count_along(em, dims, iota_dimension, part.dtype)
    return [(real, em.expand(em.scalar(0, part.dtype), dims))]


# -- constant: splat, dense and resource ------------------------------------------------------


@handles("stablehlo.constant", ignores={"value": "read through Constants, without a copy"})
def constant(em: Emitter, op: Op) -> oir.Value:
    """constant value -> an initializer; a splat becomes Expand of a scalar."""
    content = em.constants.read(op.operation)
    dtype = em.result_type(op).dtype
    if isinstance(content, Splat):
        return em.expand(em.const(content.element, dtype), content.shape)
    return em.const(content, dtype)


@handles("stablehlo.constant", form="complex", ignores={"value": "read through Constants"})
def complex_constant(em: Emitter, op: Op) -> list[Parts]:
    """constant value -> its real and its imaginary part."""
    content = em.constants.read(op.operation)
    array = content.element if isinstance(content, Splat) else content
    parts = [em.const(array.real.copy()), em.const(array.imag.copy())]
    return [tuple(em.expand(part, em.result_dims(op)) for part in parts)]


# -- values that are handed on: tuples, barriers and tokens need no nodes ---------------------


@handles("stablehlo.tuple", form="any")
def tuple_(em: Emitter, op: Op) -> list[Parts]:
    """tuple(xs) -> the parts of all members."""
    return [tuple(part for operand in op.operands for part in em.parts(operand))]


@handles("stablehlo.get_tuple_element", form="any")
def get_tuple_element(em: Emitter, op: Op, *, index: int) -> list[Parts]:
    """get_tuple_element(x) -> the parts of member `index`."""
    members = ir.TupleType(op.operands[0].type)
    first = sum(len(parts_of(members.get_type(member))) for member in range(index))
    return [em.parts(op.operands[0])[first : first + len(parts_of(op.results[0].type))]]


@handles("stablehlo.optimization_barrier", form="any")
def optimization_barrier(em: Emitter, op: Op) -> list[Parts]:
    """optimization_barrier(xs) -> xs; ONNX has no barrier."""
    return [em.parts(operand) for operand in op.operands]


@handles("stablehlo.after_all", form="any")
def after_all(em: Emitter, op: Op) -> list[Parts]:
    """after_all(tokens) -> nothing: tokens order effects, and a model has no effects."""
    return [()]

"""Ops with an operand that holds the shape of the result.

Where that shape follows from the shapes of the program's inputs, as in programs of JAX, the ops
become the same nodes as their static forms. A shape computed from data is read at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.padding import pad
from dialect_handlers.common.slices import from_either_end
from dialect_handlers.common.tensors import count_along
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import difference, is_static, total
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import dims_of, extent_contents, value_of


@handles("stablehlo.get_dimension_size", form="any")
def get_dimension_size(em: Emitter, op: Op, *, dimension: int) -> oir.Value:
    """get_dimension_size(x) -> the extent of an axis, as i32."""
    x = em.parts(op.operands[0])[0]
    return value_of(em, extent_contents(shape_of(x)[dimension]), em.result_type(op).dtype)


@handles("stablehlo.dynamic_reshape", form="parts")
def dynamic_reshape(em: Emitter, op: Op) -> oir.Value:
    """dynamic_reshape(x, shape) -> Reshape: the same elements in row-major order.

    If x is a value of the requested shape with an axis added, the result is that value.
    """
    x, dims = em.operand(op), _wanted(em, op, 1)
    node = x.producer()
    if node is not None and node.op_type == "Unsqueeze":
        (source, _) = node.inputs
        if source is not None and shape_of(source) == tuple(dims):
            return source
    return em.reshape(x, dims)


@handles(
    "stablehlo.dynamic_broadcast_in_dim",
    form="parts",
    ignores={
        "known_expanding_dimensions": "Expand finds out by itself",
        "known_nonexpanding_dimensions": "Expand finds out by itself",
    },
)
def dynamic_broadcast_in_dim(
    em: Emitter, op: Op, *, broadcast_dimensions: Sequence[int]
) -> oir.Value:
    """dynamic_broadcast_in_dim(x, shape) -> Expand of a Reshape.

    Axis i of x is axis broadcast_dimensions[i] of the result.
    """
    dims = _wanted(em, op, 1)
    x = em.transpose(
        em.operand(op),
        sorted(range(len(broadcast_dimensions)), key=broadcast_dimensions.__getitem__),
    )
    first = min(broadcast_dimensions, default=len(dims))
    # Expand itself adds leading axes of extents other than 1.
    while first and dims[first - 1] == 1:
        first -= 1
    missing = [axis - first for axis in range(first, len(dims)) if axis not in broadcast_dimensions]
    return em.expand(em.unsqueeze(x, missing), dims)


@handles("stablehlo.dynamic_iota")
def dynamic_iota(em: Emitter, op: Op, *, iota_dimension: int) -> oir.Value:
    """dynamic_iota(shape) -> Expand of 0, 1, 2, ... along the axis."""
    return count_along(em, _wanted(em, op, 0), iota_dimension, em.result_type(op).dtype)


@handles("stablehlo.real_dynamic_slice", form="parts")
def real_dynamic_slice(em: Emitter, op: Op) -> oir.Value:
    """real_dynamic_slice(x, starts, limits, strides) -> Slice."""
    x, *bounds = em.operands(op)
    starts, strides = (dims_of(em, item) for item in bounds[::2])
    limits = _limits(em, bounds[0], bounds[1], starts)
    for axis, dim in enumerate(shape_of(x)):
        if difference(limits[axis], starts[axis]) == dim:
            starts[axis], limits[axis] = 0, dim
    if not is_static(strides):
        vectors = [em.extents.vector(column) for column in (starts, limits)]
        axes, steps = em.i64(list(range(len(strides)))), em.extents.vector(strides)
        dims = tuple(oir.SymbolicDim(None) for _ in strides)
        types = [(dtype_of(x), dims)]
        return em.op("Slice", x, *vectors, axes, steps, types=types)
    rows = [
        axis
        for axis, (start, limit) in enumerate(zip(starts, limits, strict=True))
        if not isinstance(start, int) and difference(limit, start) == 1
    ]
    for axis in rows:
        # Like dynamic_slice of a row.
        index = from_either_end(starts[axis], shape_of(x)[axis])
        x = em.unsqueeze(em.Gather(x, em.extents.scalar(index), axis=axis), [axis])
        starts[axis], limits[axis] = 0, 1
    return em.slice(x, starts, limits, strides)  # type: ignore[arg-type]


def _limits(em: Emitter, starts: oir.Value, limits: oir.Value, known: Sequence[Dim]) -> list[Dim]:
    """Limits; starts + sizes, as JAX writes a dynamic_slice of symbolic sizes, by their terms."""
    node = limits.producer()
    if node is None or node.op_type != "Add" or starts not in node.inputs:
        return dims_of(em, limits)
    (sizes,) = [x for x in node.inputs if x is not starts] or [starts]
    assert sizes is not None
    return [total(*pair) for pair in zip(known, dims_of(em, sizes), strict=True)]


@handles("stablehlo.dynamic_pad", form="parts")
def dynamic_pad(em: Emitter, op: Op) -> oir.Value:
    """dynamic_pad(x, fill, low, high, interior) -> Pad; the amounts may be symbolic."""
    x, fill, *amounts = em.operands(op)
    low, high, gaps = (dims_of(em, item) for item in amounts)
    if not is_static(gaps) or not all(
        gap == 0 or is_static(edges) for *edges, gap in zip(low, high, gaps, strict=True)
    ):
        raise UnsupportedOp(
            "interior padding, or the padding of an axis with interior padding, is not constant",
            "use no interior padding, or constant amounts",
        )
    return pad(em, x, fill, low, high, gaps)  # type: ignore[arg-type]


@handles("stablehlo.set_dimension_size", form="parts")
def set_dimension_size(em: Emitter, op: Op, *, dimension: int) -> oir.Value:
    """set_dimension_size(x, size) -> Slice: the first elements along an axis."""
    x, size = em.operands(op)
    (extent,) = dims_of(em, size)
    if op.result_shape()[dimension] not in (None, extent):
        raise unsupported("fixed size")
    return em.slice(x, [0], [extent], axes=[dimension])


def _wanted(em: Emitter, op: Op, operand: int) -> list[Dim]:
    """The extents of the result: as its type has them, else as an operand holds them."""
    (shape,) = em.parts(op.operands[operand])
    return dims_of(em, shape, op.result_shape())

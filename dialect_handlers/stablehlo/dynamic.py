"""Ops whose result has the shape that an operand says.

Where that shape follows from the shapes of the program's inputs, which is what JAX makes, the ops
become what their static forms become; only a shape that is computed from data is read at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.counting import count_along
from dialect_handlers.common.padding import pad
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.graph.dims import is_static
from hlo2onnx.graph.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import dims_of, extent_contents, value_of
from hlo2onnx.mlir.types import shape_of as extents_of

INT64 = oir.DataType.INT64


@handles("stablehlo.get_dimension_size", form="any")
def get_dimension_size(em: Emitter, op: Op, *, dimension: int) -> oir.Value:
    """get_dimension_size(x) -> the extent of an axis, as i32."""
    x = em.parts(op.operands[0])[0]
    return value_of(em, extent_contents(shape_of(x)[dimension]), em.result_type(op).dtype)


@handles("stablehlo.dynamic_reshape", form="any")
def dynamic_reshape(em: Emitter, op: Op) -> list[Parts]:
    """dynamic_reshape(x, shape) -> Reshape: the same elements in row-major order."""
    dims = _wanted(em, op, op.operands[1])
    return [tuple(_reshaped(em, part, dims, em.operand(op, 1)) for part in _first(em, op))]


@handles(
    "stablehlo.dynamic_broadcast_in_dim",
    form="any",
    ignores={
        "known_expanding_dimensions": "Expand finds out by itself",
        "known_nonexpanding_dimensions": "Expand finds out by itself",
    },
)
def dynamic_broadcast_in_dim(
    em: Emitter, op: Op, *, broadcast_dimensions: Sequence[int]
) -> list[Parts]:
    """dynamic_broadcast_in_dim(x, shape) -> Expand of a Reshape."""
    dims = _wanted(em, op, op.operands[1])
    order = np.argsort(broadcast_dimensions).tolist()
    axes = [axis for axis in range(len(dims)) if axis not in broadcast_dimensions]
    # Expand puts leading axes there by itself.
    inner = [axis for axis in axes if axis > min(broadcast_dimensions, default=len(dims))]
    results = []
    for part in _first(em, op):
        x = em.transpose(part, order)
        lead = len(dims) - rank_of(x) - len(inner)
        x = em.unsqueeze(x, [axis - lead for axis in inner])
        results.append(_expanded(em, x, dims, em.operand(op, 1)))
    return [tuple(results)]


@handles("stablehlo.dynamic_iota")
def dynamic_iota(em: Emitter, op: Op, *, iota_dimension: int) -> oir.Value:
    """dynamic_iota(shape) -> Expand of 0, 1, 2, ... along the axis."""
    dims = _wanted(em, op, op.operands[0])
    dtype = em.result_type(op).dtype
    if _known(dims):
        return count_along(em, dims, iota_dimension, dtype)
    shape = em.cast(em.operand(op), INT64)
    count = em.Gather(shape, em.i64(iota_dimension), axis=0)
    numbers = em.op("Range", em.i64(0), count, em.i64(1), types=[(INT64, (dims[iota_dimension],))])
    column = em.unsqueeze(em.cast(numbers, dtype), range(1, len(dims) - iota_dimension))
    return _expanded(em, column, dims, em.operand(op))


@handles("stablehlo.real_dynamic_slice", form="parts")
def real_dynamic_slice(em: Emitter, op: Op) -> oir.Value:
    """real_dynamic_slice(x, starts, limits, strides) -> Slice."""
    x, *bounds = em.operands(op)
    starts, limits, strides = map(dims_of, bounds)
    if starts is not None and limits is not None and strides is not None and is_static(strides):
        return em.slice(x, starts, limits, strides)  # type: ignore[arg-type]
    dims = tuple(_result_dim(dim) for dim in extents_of(op.results[0].type))
    first, last, step = (em.cast(item, INT64) for item in bounds)
    axes = em.i64(list(range(len(dims))))
    result: oir.Value = em.Slice(x, first, last, axes, step, types=[(dtype_of(x), dims)])
    return result


@handles("stablehlo.dynamic_pad", form="parts")
def dynamic_pad(em: Emitter, op: Op) -> oir.Value:
    """dynamic_pad(x, fill, low, high, interior) -> Pad, by amounts that may be symbolic."""
    x, fill, *amounts = em.operands(op)
    low, high = map(dims_of, amounts[:2])
    gaps = dims_of(amounts[2])
    if gaps is None or not is_static(gaps):
        raise UnsupportedOp(
            "the gaps between elements depend on data or on symbolic extents",
            "pad with an interior padding that is constant",
        )
    if low is None or high is None or not _has_whole_gaps(low, high, gaps):
        return _padded_at_run_time(em, op, x, fill, amounts, gaps)
    return pad(em, x, fill, low, high, gaps)  # type: ignore[arg-type]


def _has_whole_gaps(low: Sequence[Dim], high: Sequence[Dim], gaps: Sequence[Dim]) -> bool:
    """Whether the edges of every axis with gaps are numbers."""
    return all(is_static(edges) or gap == 0 for *edges, gap in zip(low, high, gaps, strict=True))


def _padded_at_run_time(
    em: Emitter,
    op: Op,
    x: oir.Value,
    fill: oir.Value,
    amounts: Sequence[oir.Value],
    gaps: Sequence[Dim],
) -> oir.Value:
    """Gaps, then edges that are known at run time; Pad cuts where an amount is negative."""
    none = [0] * len(gaps)
    x = pad(em, x, fill, none, none, gaps)  # type: ignore[arg-type]
    pads = em.cast(em.concat(amounts[:2], 0), INT64)
    dims = tuple(_result_dim(dim) for dim in extents_of(op.results[0].type))
    padded: oir.Value = em.Pad(x, pads, fill, types=[(dtype_of(x), dims)])
    return padded


# -- shapes ------------------------------------------------------------------------------------


def _first(em: Emitter, op: Op) -> Parts:
    return em.parts(op.operands[0])


def _result_dim(dim: int | None) -> Dim:
    return oir.SymbolicDim(None) if dim is None else dim


def _wanted(em: Emitter, op: Op, shape: object) -> list[Dim]:
    """The extents of the result: as its type has them, else as the shape operand holds them."""
    (value,) = em.parts(shape)
    told = dims_of(value)
    own = extents_of(op.results[0].type)
    if told is None:
        return [_result_dim(dim) for dim in own]
    return [want if dim is None else dim for dim, want in zip(own, told, strict=True)]


def _known(dims: Sequence[Dim]) -> bool:
    return all(isinstance(dim, int) or dim.value is not None for dim in dims)


def _reshaped(em: Emitter, x: oir.Value, dims: Sequence[Dim], shape: oir.Value) -> oir.Value:
    if _known(dims):
        return em.reshape(x, dims)
    types = [(dtype_of(x), tuple(dims))]
    result: oir.Value = em.Reshape(x, em.cast(shape, INT64), allowzero=1, types=types)
    return result


def _expanded(em: Emitter, x: oir.Value, dims: Sequence[Dim], shape: oir.Value) -> oir.Value:
    if _known(dims):
        return em.expand(x, dims)
    result: oir.Value = em.Expand(x, em.cast(shape, INT64), types=[(dtype_of(x), tuple(dims))])
    return result

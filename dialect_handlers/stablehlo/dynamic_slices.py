"""dynamic_slice and dynamic_update_slice: one window, anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.slices import (
    NOT_A_ROW,
    Start,
    clamped,
    clamped_constant,
    constant_starts,
    followed,
    row_index,
    window,
    write_window,
)
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import difference
from hlo2onnx.ir.values import Dim, dtype_of, shape_of, static_shape
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

# -- dynamic_slice ----------------------------------------------------------------------------


@handles("stablehlo.dynamic_slice", form="parts")
def dynamic_slice(em: Emitter, op: Op, *, slice_sizes: Sequence[int]) -> oir.Value:
    """dynamic_slice(x, starts) -> Slice from the clamped starts; Gather for single rows.

    Gather counts negative indices from the end itself.
    """
    x, *starts = em.operands(op)
    if 0 in slice_sizes:
        return em.const(np.empty(slice_sizes), dtype_of(x))
    limits = [difference(dim, size) for dim, size in zip(shape_of(x), slice_sizes, strict=True)]
    known = {axis: _known(em, starts[axis], limit) for axis, limit in enumerate(limits)}
    still = {axis: first for axis, first in known.items() if first is not None}
    ends = [first + slice_sizes[axis] for axis, first in still.items()]
    x = em.slice(x, list(still.values()), ends, axes=list(still))
    moving = [axis for axis in known if axis not in still]
    if not moving:
        return x
    if all(slice_sizes[axis] == 1 for axis in moving) and _picks_few(em, x, moving):
        picked = _picked(
            em, x, {axis: row_index(em, starts[axis], limits[axis]) for axis in moving}
        )
        return em.reshape(picked, slice_sizes)
    joined = em.concat([em.reshape(starts[axis], [1]) for axis in moving], axis=0)
    sizes = [slice_sizes[axis] for axis in moving]
    return window(em, x, moving, clamped(em, joined, [limits[axis] for axis in moving]), sizes)


def _picks_few(em: Emitter, x: oir.Value, axes: Sequence[int]) -> bool:
    """Whether a Gather along each of these axes in turn is cheap."""
    dims = static_shape(x)
    if len(axes) == 1 or dims is None:
        return len(axes) == 1
    return math.prod(dims) <= em.costs.gathered_elements * max(dims[axis] for axis in axes)


def _picked(em: Emitter, x: oir.Value, rows: Mapping[int, oir.Value]) -> oir.Value:
    """One row along each of these axes, without the axes; the longest axis goes first."""
    left, dims = list(range(len(shape_of(x)))), static_shape(x)
    for axis in sorted(rows, key=lambda axis: -dims[axis] if dims else 0):
        x = em.Gather(x, rows[axis], axis=left.index(axis))
        left.remove(axis)
    return x


def _known(em: Emitter, start: oir.Value, limit: Dim) -> int | None:
    """The clamped start, if it is known; a slice as long as its axis starts at 0."""
    if limit == 0:
        return 0
    known = clamped_constant(constant_starts(em, start), [limit])
    return None if known is None else int(known.item())


# -- dynamic_update_slice: one window that is written anywhere --------------------------------


@handles("stablehlo.dynamic_update_slice", form="any")
def dynamic_update_slice(em: Emitter, op: Op) -> list[Parts]:
    """dynamic_update_slice(x, update, starts) -> x with the update from the clamped starts on."""
    x, update = em.parts(op.operands[0]), em.parts(op.operands[1])
    if x in em.rows:
        # The only write to a buffer that the enclosing loop returns as a stack of rows.
        if shape_of(update[0])[1:] != shape_of(x[0])[1:]:
            raise UnsupportedOp(*NOT_A_ROW)
        em.rows[x] = update
        return [x]
    dims, sizes = shape_of(x[0]), shape_of(update[0])
    if 0 in sizes:
        return [x]
    limits = [difference(dim, size) for dim, size in zip(dims, sizes, strict=True)]
    tail = _tail(em, op, limits)
    if tail is not None:
        cut = [em.slice(part, [0], [limits[tail]], axes=[tail]) for part in x]
        return [tuple(em.concat(both, tail) for both in zip(cut, update, strict=True))]
    places = {
        axis: _start(em, em.operand(op, 2 + axis), limit)
        for axis, limit in enumerate(limits)
        if limit != 0
    }
    return [tuple(write_window(em, *parts, places) for parts in zip(x, update, strict=True))]


def _tail(em: Emitter, op: Op, limits: Sequence[Dim]) -> int | None:
    """The axis along which a window is shorter, if that is one of free extent, and the window ends
    where it does."""
    shorter = [axis for axis, limit in enumerate(limits) if limit != 0]
    starts = [followed(em.operand(op, 2 + axis)) for axis in shorter]
    return shorter[0] if len(shorter) == 1 and starts == [[limits[shorter[0]]]] else None


def _start(em: Emitter, start: oir.Value, limit: Dim) -> Start:
    known = _known(em, start, limit)
    if known is not None:
        return known
    return em.reshape(em.cast(clamped(em, start, [limit]), oir.DataType.INT64), [1])

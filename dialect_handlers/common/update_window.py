"""Writing one window of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import at_most, fixed, product, total
from hlo2onnx.ir.shapes import INT64_MAX
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter

Start = int | oir.Value
"""A start that is known, or an i64 of shape (1,). It is inside."""

MOST_ROWS = 1 << 12
"""Rows of the largest window that is scattered: a limit on the size of the indices, which are
stored in the model, and no cost."""

NOT_A_ROW = (
    "each trip of a loop may write less than a whole row of a buffer",
    "write rows with the symbolic extents of the buffer",
)
"""The error for a buffer that was wrongly taken for a stack of rows."""


def write_window(
    em: Emitter, x: oir.Value, update: oir.Value, starts: Mapping[int, Start]
) -> oir.Value:
    """x with the update in place of the window that begins at `starts`.

    Args:
        starts: By axis; the other axes start at 0.
    """
    dims, sizes = shape_of(x), shape_of(update)
    partial = [axis for axis in range(len(dims)) if sizes[axis] != dims[axis]]
    if not partial:
        return update
    rows = product(sizes[: partial[-1] + 1])
    # Slices of a Concat at known places are slices of its parts, of ScatterND they are not.
    moves = any(not isinstance(starts.get(axis, 0), int) for axis in partial)
    is_small = at_most(product(dims), int(em.costs.small_elements))
    scatters = (moves and is_small) or is_small_part(em, sizes, dims)
    if isinstance(rows, int) and rows <= MOST_ROWS and scatters:
        return _scattered(em, x, update, starts, partial[-1] + 1)
    return _between(em, x, update, {axis: starts.get(axis, 0) for axis in partial})


def is_small_part(em: Emitter, sizes: Sequence[Dim], dims: Sequence[Dim]) -> bool:
    """Whether the target scatters a window of these sizes into a tensor."""
    return at_most(product((*sizes, int(em.costs.scattered_part))), product(dims))


def read_window(
    em: Emitter, x: oir.Value, sizes: Sequence[Dim], starts: Mapping[int, Start]
) -> oir.Value:
    """The window of these sizes that begins at `starts`."""
    for axis, start in starts.items():
        if sizes[axis] != shape_of(x)[axis] and not isinstance(start, int):
            x = _cut(em, x, axis, start, sizes[axis])
    firsts = [
        start if isinstance(start, int) else 0 for start in map(starts.get, range(len(sizes)))
    ]
    limits = [
        size if first == 0 else first + size for first, size in zip(firsts, sizes, strict=True)
    ]
    return em.slice(x, firsts, limits)


def _scattered(
    em: Emitter, x: oir.Value, update: oir.Value, starts: Mapping[int, Start], depth: int
) -> oir.Value:
    """ScatterND of the rows along the first `depth` axes, all of them different."""
    counts = [np.arange(size) for size in fixed(shape_of(update)[:depth])]
    grid = np.stack(np.meshgrid(*counts, indexing="ij"), -1).astype(np.int64)
    known = {axis: start for axis, start in starts.items() if isinstance(start, int)}
    grid = grid + np.array([known.get(axis, 0) for axis in range(depth)], np.int64)
    index = em.const(grid)
    columns = [starts.get(axis, 0) for axis in range(depth)]
    if not all(isinstance(column, int) for column in columns):
        zero = em.i64([0])
        firsts = [zero if isinstance(column, int) else column for column in columns]
        first = em.concat(firsts, axis=0)
        index = em.Add(index, first) if grid.any() else em.reshape(first, grid.shape)
    return em.ScatterND(x, index, update)


def _between(
    em: Emitter, x: oir.Value, update: oir.Value, starts: Mapping[int, Start]
) -> oir.Value:
    """Concat of the part before the window, the window, and the part after it, axis by axis."""
    (axis, start), *others = starts.items()
    dim, size = shape_of(x)[axis], shape_of(update)[axis]
    if others:
        band = _cut(em, x, axis, start, size)
        update = _between(em, band, update, dict(others))
    if isinstance(start, int):
        before = [em.slice(x, [0], [start], axes=[axis])] if start else []
        if isinstance(size, int):
            end = start + size
            behind = [em.slice(x, [end], [dim], axes=[axis])] if end != dim else []
            return em.concat([*before, update, *behind], axis)
        start = em.i64([start])
    dims: list[Dim] = list(shape_of(x))
    dims[axis] = oir.SymbolicDim(None)
    types = [(dtype_of(x), tuple(dims))]
    first, last, along = em.i64([0]), em.i64([INT64_MAX]), em.i64([axis])
    parts = [
        em.op("Slice", x, first, start, along, types=types),
        update,
        em.op("Slice", x, em.Add(start, em.extents.value(size)), last, along, types=types),
    ]
    return em.op("Concat", *parts, axis=axis, types=[(dtype_of(x), shape_of(x))])


def _cut(em: Emitter, x: oir.Value, axis: int, start: Start, size: Dim) -> oir.Value:
    if isinstance(start, int):
        return em.slice(x, [start], [total(start, size)], axes=[axis])
    dims = list(shape_of(x))
    dims[axis] = size
    if size == 1:
        return em.Gather(x, start, axis=axis)
    end, along = em.Add(start, em.extents.value(size)), em.i64([axis])
    return em.op("Slice", x, start, end, along, types=[(dtype_of(x), tuple(dims))])

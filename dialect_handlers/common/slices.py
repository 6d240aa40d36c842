"""Reading and writing windows of a tensor at known and computed starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir
from sympy import sympify

from dialect_handlers.common.tensors import count_along
from hlo2onnx.ir.dims import (
    at_most,
    canonical,
    difference,
    dim_of,
    fixed,
    free_symbols,
    is_known,
    is_static,
    product,
    total,
)
from hlo2onnx.ir.ranges import Range, range_of_type
from hlo2onnx.ir.shapes import INT64_MAX
from hlo2onnx.ir.values import Dim, const_of, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import contents_of

# -- start indices of gathers and dynamic slices, and the windows they begin ------------------


INT32, INT64 = oir.DataType.INT32, oir.DataType.INT64
WIDE_UNSIGNED = frozenset({oir.DataType.UINT32, oir.DataType.UINT64})


def clamped(em: Emitter, starts: oir.Value, limits: Sequence[Dim]) -> oir.Value:
    """Starts clamped to [0, limit], as i32 or i64.

    The last axis of `starts` holds one start per limit; with a single limit any shape is allowed.
    Starts that provably lie inside stay unchanged. Others must be clamped: ONNX counts negative
    indices from the end, and fails beyond it.
    """
    if _follow_inside(starts, limits):
        return starts if dtype_of(starts) in (INT32, INT64) else em.cast(starts, INT64)
    ranges = _column_ranges(em, starts, len(limits))
    below = any(known.low < 0 for known in ranges)
    above = not all(at_most(known.high, limit) for known, limit in zip(ranges, limits, strict=True))
    if dtype_of(starts) in WIDE_UNSIGNED and above:
        # As i64 the upper half of u64 would be negative.
        starts, above = em.Min(starts, _bounds(em, limits, dtype_of(starts))), False
    # A symbolic limit is i64.
    last = range_of_type(INT32).high
    small = all(isinstance(limit, int) and limit <= last for limit in limits)
    fits_i32 = dtype_of(starts) == INT32 and (small or not above)
    starts = em.cast(starts, INT32 if fits_i32 else INT64)
    if not above:
        return em.Max(starts, em.scalar_like(0, starts)) if below else starts
    highest = _bounds(em, limits, dtype_of(starts))
    if below and rank_of(highest) == 0:
        return em.Clip(starts, em.scalar_like(0, starts), highest)
    if below:
        starts = em.Max(starts, em.scalar_like(0, starts))
    return em.Min(starts, highest)


def row_index(em: Emitter, start: oir.Value, limit: Dim) -> oir.Value:
    """The clamped start of one row, for Gather."""
    if not _follow_inside(start, [limit]):
        return clamped(em, start, [limit])
    (dim,) = followed(start) or (0,)
    return em.extents.scalar(from_either_end(dim, canonical(limit + 1)))


def from_either_end(index: Dim, extent: Dim) -> Dim:
    """An index into an axis, counted from its end where that is simpler."""
    back = difference(index, extent)
    return back if len(free_symbols([back])) < len(free_symbols([index])) else index


def starts_inside(starts: oir.Value, limits: Sequence[Dim]) -> list[Dim] | None:
    """Starts that follow from shapes and provably lie inside."""
    return followed(starts) if _follow_inside(starts, limits) else None


def followed(starts: oir.Value) -> list[Dim] | None:
    """Starts that follow from shapes."""
    contents = contents_of(starts)
    dims = None if contents is None else [dim_of(sympify(x)) for x in contents.reshape(-1)]
    return None if dims is None or is_static(dims) else dims


def _follow_inside(starts: oir.Value, limits: Sequence[Dim]) -> bool:
    """Whether starts that follow from shapes provably lie inside."""
    dims = followed(starts)
    if dims is None:
        return False
    each = list(limits) * (len(dims) // len(limits))
    return all(
        at_most(0, dim) and at_most(dim, limit) for dim, limit in zip(dims, each, strict=True)
    )


def _bounds(em: Emitter, limits: Sequence[Dim], dtype: oir.DataType) -> oir.Value:
    if len(set(limits)) > 1:
        if is_static(limits):
            return em.const(np.array(limits, dtype.numpy()))
        return em.cast(em.extents.vector(limits), dtype)
    if isinstance(limits[0], int):
        return em.scalar(limits[0], dtype)
    return em.cast(em.squeeze(em.extents.value(limits[0]), [0]), dtype)


def _column_ranges(em: Emitter, starts: oir.Value, count: int) -> list[Range]:
    """The known facts about each start; joined columns are examined one by one."""
    node = starts.producer()
    if node is not None and node.op_type == "Concat":
        columns = [x for x in node.inputs if x is not None]
        last = rank_of(starts) - 1
        if node.attributes["axis"].as_int() == last and len(columns) == count:
            return [_range(em, column) for column in columns]
    return [_range(em, starts)] * count


def _range(em: Emitter, value: oir.Value) -> Range:
    return em.facts.int_range(value) or range_of_type(dtype_of(value))


def constant_starts(em: Emitter, starts: oir.Value) -> np.ndarray | None:
    """The elements of starts that are known, in their shape."""
    array, dims = const_of(starts), static_shape(starts)
    if array is not None or dims is None:
        return array
    elements = em.facts.constant(starts)
    if elements is not None and elements.size == 1:
        return np.broadcast_to(elements.reshape(()), dims)
    return em.facts.elements(starts)


def clamped_constant(starts: np.ndarray | None, limits: Sequence[Dim]) -> np.ndarray | None:
    """Known starts clamped as by `clamped`, as i64; None if a start or its clamped value is
    unknown."""
    if starts is None:
        return None
    if not is_static(limits):
        # The least limit is 0.
        return None if starts.any() else starts.astype(np.int64)
    if starts.dtype.kind == "u":
        return np.minimum(starts.astype(np.uint64), np.array(limits, np.uint64)).astype(np.int64)
    return np.clip(starts.astype(np.int64), 0, np.array(limits, np.int64))


def window(
    em: Emitter, x: oir.Value, axes: Sequence[int], starts: oir.Value, sizes: Sequence[Dim]
) -> oir.Value:
    """x[start : start + size] along each of `axes`; starts of shape (len(axes),) in bounds."""
    dims = list(shape_of(x))
    for axis, size in zip(axes, sizes, strict=True):
        dims[axis] = size
    dtype = dtype_of(starts)
    if is_static(sizes):
        ends = em.Add(starts, em.const(np.array(sizes, dtype.numpy())))
    else:
        ends = em.Add(starts, em.cast(em.extents.vector(sizes), dtype))
    return em.Slice(
        x, starts, ends, em.const(np.array(axes, dtype.numpy())), types=[(dtype_of(x), tuple(dims))]
    )


# -- writing one window of a tensor -----------------------------------------------------------


Start = int | oir.Value
"""A start that is known, or an i64 of shape (1,). It is inside."""

MOST_ROWS = 1 << 12
"""Rows of the largest window whose indices are stored in the model: a limit on its size, no
cost."""

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
    start = starts.get(partial[0], 0)
    if _is_made(em, x) and len(partial) == 1 and partial != [0] and not isinstance(start, int):
        return em.TensorScatter(x, update, em.expand(start, dims[:1]), axis=partial[0])
    depth = partial[-1] + 1
    rows, row = product(sizes[:depth]), product(sizes[depth:])
    # Slices of a Concat at known places are slices of its parts, of ScatterND they are not.
    moves = any(not isinstance(starts.get(axis, 0), int) for axis in partial)
    is_small = at_most(product(dims), int(em.costs.small_elements))
    is_long = isinstance(row, int) and row >= em.costs.scattered_row
    scatters = (moves and (is_small or is_long)) or is_small_part(em, sizes, dims)
    if isinstance(rows, int):
        has_places = rows <= MOST_ROWS or (moves and is_long)
    else:
        has_places = is_known(sizes[:depth])
    if scatters and has_places:
        return _scattered(em, x, update, starts, depth)
    return _between(em, x, update, {axis: starts.get(axis, 0) for axis in partial})


def _is_made(em: Emitter, x: oir.Value) -> bool:
    """Whether ONNX Runtime may update a value in its place by TensorScatter, where ScatterND copies
    it. It does neither to inputs of a graph, but warns about TensorScatter."""
    return x.producer() is not None and em.supports("TensorScatter", dtype_of(x))


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
    extents = shape_of(update)[:depth]
    rows = product(extents)
    if not isinstance(rows, int) or rows > MOST_ROWS:
        return em.ScatterND(x, _row_places(em, extents, starts), update)
    counts = [np.arange(size) for size in fixed(extents)]
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


def _row_places(em: Emitter, extents: Sequence[Dim], starts: Mapping[int, Start]) -> oir.Value:
    """The places of a window's rows [*extents, len(extents)], computed at run time."""
    columns = []
    for axis, extent in enumerate(extents):
        start = starts.get(axis, 0)
        first = em.i64([start]) if isinstance(start, int) else start
        if extent == 1:
            columns.append(em.expand(first, (*extents, 1)))
            continue
        column = count_along(em, extents, axis, INT64)
        column = column if start == 0 else em.Add(column, first)
        columns.append(em.unsqueeze(column, [len(extents)]))
    return em.concat(columns, axis=len(extents))


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

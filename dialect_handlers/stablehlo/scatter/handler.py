"""The handler of scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import Axis, Batch
from dialect_handlers.common.ordered_rows import Targets, rows_at_once, scatter_rows_in_order
from dialect_handlers.common.parts import each
from dialect_handlers.common.reductions import combine
from dialect_handlers.common.regions import MONOIDS, Combiner, neutral, promoted
from dialect_handlers.common.scatter_updates import (
    Region,
    drops_rows,
    last_of_each,
    region_of,
    scatter_in_order,
    scatter_rows,
)
from dialect_handlers.common.update_window import (
    NOT_A_ROW,
    Start,
    is_small_part,
    read_window,
    write_window,
)
from dialect_handlers.stablehlo.scatter.blocked_updates import rows_of_a_block, scatter_blocks
from dialect_handlers.stablehlo.scatter.checked_indices import given_indices, scatter_checked
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions, read_numbers
from dialect_handlers.stablehlo.scatter.masked_window import takes_mask, write_masked
from dialect_handlers.stablehlo.scatter.padded_elements import scatter_padded, takes_border
from dialect_handlers.stablehlo.scatter.row_updates import RowUpdates
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

INT64 = oir.DataType.INT64

SORTED = {"indices_are_sorted": "a licence to be fast"}


@handles("stablehlo.scatter", form="real", ignores=SORTED)
@handles("stablehlo.scatter", form="complex", ignores=SORTED)
def scatter(
    em: Emitter,
    op: Op,
    *,
    scatter_dimension_numbers: stablehlo.ScatterDimensionNumbers,
    unique_indices: bool = False,
) -> list[Parts]:
    """scatter(inputs, indices, updates) -> the inputs, combined with each window of updates.

    Windows are applied in order. A window that is not wholly inside the operand changes nothing, as
    in XLA; by the specification, its elements inside the operand would count.
    """
    count = len(op.results)
    if em.parts(op.operands[0]) in em.rows:
        return [_as_stacked_row(em, op)]
    values = promoted(em, [*op.operands[:count], *op.operands[count + 1 :]], op.block(0).arguments)
    inputs, updates = values[:count], values[count:]
    indices, vector = em.operand(op, count), scatter_dimension_numbers.index_vector_dim
    shapes = [shape_of(x) for x in (inputs[0][0], indices, em.parts(op.operands[count + 1])[0])]
    if any(0 in shape for shape in (shapes[0], shapes[2])):
        return inputs
    n = read_numbers(scatter_dimension_numbers, *shapes)
    places = Places(em, n, indices, vector)
    made = _Scatter(em, n, region_of(em, op.block(0)), places, inputs, updates)
    if takes_mask(em, n, places, inputs):
        return made.by_mask()
    if product(n.batch) == 1:
        if not made.drops_row():
            return made.as_one_window()
        made = made.with_batch_axis()
        return made.as_rows(made.n.windows)
    if unique_indices or places.are_distinct():
        return made.as_rows(n.windows)
    ordered = made.as_ordered_rows()
    if ordered is not None:
        return ordered
    if made.region.overwrites and product(n.dims[n.depth :]) != 1:
        return made.as_rows(n.window_order, repeated=True)
    return made.as_checked_elements(vector)


def _as_stacked_row(em: Emitter, op: Op) -> Parts:
    """The only write to a buffer that the enclosing loop returns as a stack of rows."""
    buffer, updates = em.parts(op.operands[0]), em.parts(op.operands[2])
    row = [1, *shape_of(buffer[0])[1:]]
    if product(row) != product(shape_of(updates[0])):
        raise UnsupportedOp(*NOT_A_ROW)
    em.rows[buffer] = tuple(em.reshape(part, row) for part in updates)
    return buffer


@dataclass(frozen=True)
class _Scatter:
    """A scatter with an operand and updates that are not empty."""

    em: Emitter
    n: ScatterDimensions
    region: Region
    places: Places
    inputs: list[Parts]
    updates: list[Parts]

    def by_mask(self) -> list[Parts]:
        """Combines the whole operand with the windows, and chooses by a mask."""
        return write_masked(
            self.em, self.n, self.places, self.region, self.inputs, self._windows(), self._replaces
        )

    def drops_row(self) -> bool:
        """Whether the single window is one row that may miss: fewer nodes drop its index than read
        the old content along several axes."""
        may_drop = drops_rows(self.region, self.inputs, self.updates)
        row = RowUpdates(self.em, self.n, self.places, self.n.windows)
        return self.places.may_miss and len(self.places.axes) > 1 and row.has_columns and may_drop

    def with_batch_axis(self) -> _Scatter:
        """The same scatter of one window with a batch axis, as rows have it."""
        em, n, places = self.em, self.n, self.places
        if n.batch:
            return self
        numbers = replace(n, batch=(1,), windows=(Batch(0), *n.windows))
        starts = Places(em, numbers, em.reshape(places.indices, [1, len(places.axes)]), 1)
        updates = each(lambda x: em.reshape(x, [1, *shape_of(x)]), self.updates)
        return _Scatter(em, numbers, self.region, starts, self.inputs, updates)

    def as_one_window(self) -> list[Parts]:
        """Reads the window's old content, combines it, and writes it at the clamped start; or
        combines the whole operand with the window, or with neutral elements around it."""
        em, n, region, places = self.em, self.n, self.region, self.places
        news, overwrites = self._windows(), self._replaces
        valid, starts = places.valid, _starts(em, places)
        if valid is not None:
            if places.constant is not None:
                return self.inputs
            valid = em.reshape(valid, [])
        if places.constant is not None and valid is None and _is_padded(em, n, region):
            known = np.zeros(len(n.dims), np.int64)
            known[places.axes] = places.constant.reshape(-1)
            return combine(em, region.function, self.inputs, _padded(em, n, region, known, news))
        if not overwrites or valid is not None:
            olds = each(lambda x: read_window(em, x, n.sizes, starts), self.inputs)
        if not overwrites:
            news = combine(em, region.function, olds, news)
        if valid is not None:
            news = each(partial(em.Where, valid), news, olds)
        return each(lambda x, new: write_window(em, x, new, starts), self.inputs, news)

    @property
    def _replaces(self) -> bool:
        """Whether the region returns the update."""
        return all(name == Combiner.RHS for name in self.region.combiners)

    def _windows(self) -> list[Parts]:
        """The updates in the order of the operand's axes: windows of its batches."""
        em, n = self.em, self.n
        order = sorted(range(len(n.windows)), key=lambda place: n.runs_along(n.windows[place]))
        dims = [
            batch if batch != 1 else size for batch, size in zip(n.batch_dims, n.sizes, strict=True)
        ]
        return each(lambda x: em.reshape(em.transpose(x, order), dims), self.updates)

    def as_rows(self, layout: Sequence[Axis], *, repeated: bool = False) -> list[Parts]:
        """Writes whole rows, of the axes after the last indexed one, at once.

        Args:
            layout: The order of the updates' axes in which the rows are taken.
            repeated: Rows may have the same target; the last one stays. Otherwise windows do not
                overlap.
        """
        em, n, places = self.em, self.n, self.places
        rows = RowUpdates(em, n, places, layout)
        dims = rows.dims
        drops = drops_rows(self.region, self.inputs, self.updates)
        if repeated:
            index = rows.index()
        elif places.valid is None and n.scatters_leading_rows:
            index, dims = em.reshape(places.rows, [rows.count, n.depth]), list(n.dims)
        elif rows.has_columns and (places.valid is None or drops):
            index, dims = rows.columns(), list(n.dims)
        else:
            index = rows.index()
        index = em.cast(index, INT64)
        valid = None if places.valid is None else rows.spread(places.valid)
        news = rows.of(self.updates)
        if repeated:
            news = last_of_each(em, index, news, valid, dims[0])
        xs = each(lambda x: em.reshape(x, dims), self.inputs)
        results = scatter_rows(em, self.region, xs, index, news, valid)
        return each(lambda x: em.reshape(x, n.dims), results)

    def as_ordered_rows(self) -> list[Parts] | None:
        """Combines whole rows one after the other; None where another way is better."""
        em, n, places = self.em, self.n, self.places
        rows = RowUpdates(em, n, places, n.window_order)
        at_once = rows_at_once(em.costs, self.region, rows.dims[0], rows.count, rows.width)
        if not at_once:
            return None
        is_computed = places.constant is None
        targets = Targets(
            rows.index,
            None if places.valid is None else partial(rows.spread, places.valid),
            rows.beyond if n.scatters_leading_rows and n.depth == 1 and is_computed else None,
            at_once,
        )
        xs = each(lambda x: em.reshape(x, rows.dims), self.inputs)
        results = scatter_rows_in_order(em, self.region, xs, targets, rows.of(self.updates))
        return each(lambda x: em.reshape(x, n.dims), results)

    def as_checked_elements(self, vector: int) -> list[Parts]:
        """Combines element by element, faster where a check finds all indices inside.

        Args:
            vector: The axis of the scatter indices that holds the index vector.
        """
        em, n, region, places = self.em, self.n, self.region, self.places
        given = given_indices(em, n, region, places, places.indices, vector)
        if given is None:
            return self.as_elements()

        def general() -> list[Parts]:
            again = Places(em, n, given.normalized(em), vector)
            return replace(self, places=again).as_elements()

        return scatter_checked(
            em, n, region, given, places.axes, self.inputs, self.updates, general
        )

    def as_elements(self) -> list[Parts]:
        """Combines element by element, into a padded operand where that is cheaper."""
        if takes_border(self.n, self.region, self.places):
            return scatter_padded(
                self.em, self.n, self.region, self.places, self.inputs, self.updates
            )
        return self.in_order()

    def in_order(self) -> list[Parts]:
        """Combines element by element, on the operand as one axis: windows may meet."""
        em, n, region, places = self.em, self.n, self.region, self.places
        layout = list(n.windows)
        if n.overlaps_shifted or None in region.combiners:
            layout = n.window_order  # row-major order is then the order of the windows
        order = [n.windows.index(axis) for axis in layout]
        valid = places.valid
        flat = each(lambda x: em.reshape(x, [product(n.dims)]), self.inputs)
        news = each(lambda x: em.transpose(x, order), self.updates)
        spread = None if valid is None else places.spread(valid, layout)
        rows = rows_of_a_block(n, layout, em.costs)
        if rows and places.constant is None and None not in region.combiners:
            results = scatter_blocks(em, n, region, flat, places, layout, news, spread, rows)
        else:
            trips = product(n.batch[axis] for axis in n.free)
            index = places.index(layout, len(n.dims))
            results = scatter_in_order(em, region, flat, index, news, spread, trips)
        return each(lambda x: em.reshape(x, n.dims), results)


def _is_padded(em: Emitter, n: ScatterDimensions, region: Region) -> bool:
    """Whether a window of known position is large, and its combiner has a neutral element."""
    is_large = not is_small_part(em, n.sizes, n.dims)
    return is_large and all(name in MONOIDS for name in region.combiners)


def _padded(
    em: Emitter, n: ScatterDimensions, region: Region, starts: np.ndarray, windows: Sequence[Parts]
) -> list[Parts]:
    """The windows at these starts along each axis, with neutral elements around them."""
    pads = [*starts, *(np.array(n.dims) - n.sizes - starts)]
    if not any(pads):
        return list(windows)
    padded: list[Parts] = []
    for name, parts in zip(region.combiners, windows, strict=True):
        if name is None:
            raise InternalError("a region without a name has no neutral element")
        dtype = dtype_of(parts[0])
        around = em.scalar(neutral(name, dtype), dtype)
        padded.append(tuple(em.Pad(x, em.i64(pads), around) for x in parts))
    return padded


def _starts(em: Emitter, places: Places) -> dict[int, Start]:
    """The clamped start of a single window along each axis."""
    if places.constant is not None:
        return dict(zip(places.axes, map(int, places.constant.reshape(-1)), strict=True))
    vector = em.reshape(places.clamped, [len(places.axes)])
    return {
        axis: em.slice(vector, [column], [column + 1]) for column, axis in enumerate(places.axes)
    }

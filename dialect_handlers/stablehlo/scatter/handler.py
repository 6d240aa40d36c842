"""The handler of scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import (
    Axis,
    Batch,
    ScatterDimensions,
    scatter_dimensions,
)
from dialect_handlers.common.regions import promoted
from dialect_handlers.common.scatter_updates import (
    UPDATES_PER_ROW,
    Region,
    drops_rows,
    region_of,
    scatter_in_order,
    scatter_last,
    scatter_rows,
    with_spare_rows,
)
from dialect_handlers.common.slices import NOT_A_ROW
from dialect_handlers.common.tensors import each
from dialect_handlers.stablehlo.scatter.one_window import (
    takes_mask,
    windows_of,
    write_masked,
    write_one,
)
from dialect_handlers.stablehlo.scatter.places import Places
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import at_most, fixed, product, total
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.targets.costs import Costs

SORTED = {"indices_are_sorted": "a hint that changes no result"}

MOST_GROWTH = 2
"""Limit of the size of an operand with a border, as a multiple of the operand's. i32 holds its
indices."""

_MORE_BLOCKS = 4
"""Blocks of equal size are faster than a smaller one at the end. There may be more of them than the
fewest possible: by one part in this many, or by two."""


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
    n = scatter_dimensions(scatter_dimension_numbers, *shapes)
    places, region = Places(em, n, indices, vector), region_of(em, op.block(0))
    if takes_mask(em, n, places, inputs):
        return write_masked(em, n, places, region, inputs, windows_of(em, n, updates))
    is_dropped = places.may_miss and _takes_columns(n, places, region, inputs, updates)
    if product(n.batch) == 1 and not (len(places.axes) > 1 and is_dropped):
        return write_one(em, n, places, region, inputs, windows_of(em, n, updates))
    if unique_indices or places.are_distinct():
        return _as_distinct_rows(em, n, places, region, inputs, updates)
    return _in_order(em, n, places, region, inputs, updates)


def _as_stacked_row(em: Emitter, op: Op) -> Parts:
    """The only write to a buffer that the enclosing loop returns as a stack of rows."""
    buffer, updates = em.parts(op.operands[0]), em.parts(op.operands[2])
    row = [1, *shape_of(buffer[0])[1:]]
    if product(row) != product(shape_of(updates[0])):
        raise UnsupportedOp(*NOT_A_ROW)
    em.rows[buffer] = tuple(em.reshape(part, row) for part in updates)
    return buffer


@dataclass(frozen=True)
class _Rows:
    """The updates as rows of the operand: a row has its axes from `depth` on.

    Attributes:
        layout: The axes of the updates in the order in which rows are counted.
    """

    em: Emitter
    n: ScatterDimensions
    places: Places
    layout: Sequence[Axis]
    depth: int

    @property
    def counted(self) -> list[Axis]:
        """The axes of the updates that are not within a row."""
        return [a for a in self.layout if isinstance(a, Batch) or a.axis < self.depth]

    @property
    def count(self) -> Dim:
        """How many rows the updates have."""
        return product(self.n.extents(self.counted))

    @property
    def dims(self) -> list[Dim]:
        """Extents of the operand with the axes in front of a row joined to one."""
        return [product(self.n.dims[: self.depth]), *self.n.dims[self.depth :]]

    def index(self) -> oir.Value:
        """The target of each row, of shape (updates). It is inside also where not valid."""
        return self.em.reshape(self.places.index(self.counted, self.depth), [self.count])

    def beyond(self) -> oir.Value:
        """`index` into an operand with one more element along each axis in front of a row. These
        take the rows that do not count.

        A start outside is clamped to -1 or to the extent of the axis. As a linear index, -1 along
        an axis is the last element of the row before. That element belongs to the border. The index
        -1 is the last element of the tensor, which belongs to it, too.
        """
        return self.em.reshape(self.places.beyond, [self.count])

    def valid(self) -> oir.Value | None:
        """Which rows of the updates count, of shape (updates); None for all of them."""
        if self.places.valid is None:
            return None
        spread = self.places.spread(self.places.valid, self.counted)
        spread = self.em.expand(spread, self.n.extents(self.counted))
        return self.em.reshape(spread, [self.count])

    def of(self, updates: Sequence[Parts]) -> list[Parts]:
        """These updates as rows, of shape (updates, ...)."""
        em, n, counted = self.em, self.n, self.counted
        behind = sorted((axis for axis in n.windows if axis not in counted), key=n.runs_along)
        order = [n.windows.index(axis) for axis in [*counted, *behind]]
        dims = [self.count, *n.dims[self.depth :]]
        return each(lambda x: em.reshape(em.transpose(x, order), dims), updates)


def _takes_columns(
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: Sequence[Parts],
    updates: Sequence[Parts],
) -> bool:
    """Whether rows are dropped by an index along each axis: fewer nodes drop the index of a single
    window than read its old content along several axes."""
    is_plain = n.scatters_leading_rows and not places.is_narrow
    return is_plain and drops_rows(region, inputs, updates)


def _as_distinct_rows(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: Sequence[Parts],
    updates: Sequence[Parts],
) -> list[Parts]:
    """Windows that do not overlap: all their rows at once."""
    rows = _Rows(em, n, places, n.windows, n.depth)
    dims: Sequence[Dim] = rows.dims
    all_count = n.scatters_leading_rows and places.valid is None
    if all_count or _takes_columns(n, places, region, inputs, updates):
        index, dims = em.reshape(places.rows, [rows.count, n.depth]), n.dims
    else:
        index = em.unsqueeze(rows.index(), [1])
    xs = each(lambda x: em.reshape(x, dims), inputs)
    index = em.cast(index, oir.DataType.INT64)
    results = scatter_rows(em, region, xs, index, rows.of(updates), rows.valid())
    return each(lambda x: em.reshape(x, n.dims), results)


def _in_order(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: Sequence[Parts],
    updates: Sequence[Parts],
) -> list[Parts]:
    """Windows that may overlap: whole rows or single elements, one after the other."""
    rows = _Rows(em, n, places, n.window_order, n.depth)
    at_once = rows_at_once(em.costs, region, rows.dims, rows.count)
    only_last = keeps_few(region, rows.dims, rows.count, at_once)
    if not at_once and not only_last:
        # Row-major order need be that of the windows only where these can meet.
        in_order = n.overlaps_shifted or None in region.combiners
        rows = _Rows(em, n, places, n.window_order if in_order else n.windows, len(n.dims))
    front, behind = list(n.dims[: rows.depth]), n.dims[rows.depth :]
    xs, index, valid = inputs, rows.index, rows.valid
    if _takes_border(rows, region):
        front, index, valid = [total(dim, 1) for dim in front], rows.beyond, lambda: None
        xs = each(lambda x: with_spare_rows(em, x, rows.depth), inputs)
    flat = each(lambda x: em.reshape(x, [product(front), *behind]), xs)
    given = em, region, flat, index(), rows.of(updates), valid()
    if only_last:
        results = scatter_last(*given)
    else:
        trips = product(n.batch[axis] for axis in n.free)
        results = scatter_in_order(*given, trips=trips, at_once=at_once)
    whole = each(lambda x: em.reshape(x, [*front, *behind]), results)
    return each(lambda x: em.slice(x, [0] * len(n.dims), n.dims), whole)


def rows_at_once(costs: Costs, region: Region, dims: Sequence[Dim], count: Dim) -> int:
    """How many rows of updates one ScatterND takes; 0 if ScatterElements is better.

    Args:
        dims: Extents of the operand, whose first axis counts rows.
        count: Rows of the updates.
    """
    rows, width = dims[0], product(dims[1:])
    if None in region.combiners or not isinstance(width, int) or width < 2:
        return 0
    most = int(costs.ordered_scatter_elements) // width
    if isinstance(count, int) and count <= most:
        return count
    if not most or not at_most(rows, int(costs.ordered_scatter_copies) * most):
        return 0
    if not isinstance(count, int):
        return most
    fewest = -(-count // most)
    blocks = range(fewest, fewest + max(fewest // _MORE_BLOCKS, 2) + 1)
    return next((count // n for n in blocks if count % n == 0), most)


def keeps_few(region: Region, dims: Sequence[Dim], count: Dim, at_once: int) -> bool:
    """Whether `scatter_last` is better than `scatter_in_order`: rows are overwritten, and there are
    many of them or no ScatterND works in order.

    Args:
        dims: Of an operand of `scatter_in_order`.
        count: Rows of the updates.
        at_once: The result of `rows_at_once`.
    """
    if not region.replaces or product(dims[1:]) == 1 or at_once == count:
        return False
    return not at_once or at_most(product((dims[0], UPDATES_PER_ROW)), count)


def _takes_border(rows: _Rows, region: Region) -> bool:
    """Whether a border of the operand may take the updates outside of it, by `_Rows.beyond`, and
    costs less than masking them."""
    n, places = rows.n, rows.places
    if not n.scatters_leading_rows or n.depth != rows.depth or None in region.combiners:
        return False
    if not places.may_miss or (n.depth > 1 and not places.is_narrow):
        return False
    if n.depth > 1:
        front = fixed(n.dims[: n.depth])
        if math.prod(dim + 1 for dim in front) > MOST_GROWTH * math.prod(front):
            return False
    return at_most(product(rows.dims), product((rows.count, *n.dims[n.depth :])))

"""The handler of scatter."""

from __future__ import annotations

from collections.abc import Sequence

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
    region_of,
    scatter_in_order,
    scatter_last,
    scatter_rows,
    with_spare_row,
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
from hlo2onnx.ir.dims import at_most, product
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.targets.costs import Costs

SORTED = {"indices_are_sorted": "a hint that changes no result"}

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
    if product(n.batch) == 1:
        return write_one(em, n, places, region, inputs, windows_of(em, n, updates))
    is_distinct = unique_indices or places.are_distinct()
    return _scatter_rows(em, n, places, region, inputs, updates, is_distinct=is_distinct)


def _as_stacked_row(em: Emitter, op: Op) -> Parts:
    """The only write to a buffer that the enclosing loop returns as a stack of rows."""
    buffer, updates = em.parts(op.operands[0]), em.parts(op.operands[2])
    row = [1, *shape_of(buffer[0])[1:]]
    if product(row) != product(shape_of(updates[0])):
        raise UnsupportedOp(*NOT_A_ROW)
    em.rows[buffer] = tuple(em.reshape(part, row) for part in updates)
    return buffer


def _scatter_rows(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: Sequence[Parts],
    updates: Sequence[Parts],
    *,
    is_distinct: bool,
) -> list[Parts]:
    """Whole rows of the operand, which have its last axes: all at once if no two windows overlap,
    else the last one, or one after the other, or single elements."""
    depth, at_once, only_last, layout = n.depth, 0, False, list(n.windows)
    if not is_distinct:
        count = product(n.extents(_counted(layout, depth)))
        at_once = rows_at_once(em.costs, region, _joined(n, depth), count)
        only_last = keeps_few(region, _joined(n, depth), count, at_once)
        is_whole = at_once or only_last
        depth = depth if is_whole else len(n.dims)
        # Row-major order need be that of the windows only where these can meet.
        if is_whole or n.overlaps_shifted or None in region.combiners:
            layout = n.window_order
    counted = _counted(layout, depth)
    count, dims = product(n.extents(counted)), _joined(n, depth)
    rows = each(lambda x: em.reshape(x, dims), inputs)
    if depth == 1 and _takes_border(n, places, region, product((count, *dims[1:]))):
        index, valid = places.beyond, None
        rows = each(lambda x: with_spare_row(em, x), rows)
    else:
        index, valid = places.index(counted, depth), places.valid
    if valid is not None:
        valid = em.expand(places.spread(valid, counted), n.extents(counted))
        valid = em.reshape(valid, [count])
    behind = sorted((axis for axis in n.windows if axis not in counted), key=n.runs_along)
    order = [n.windows.index(axis) for axis in [*counted, *behind]]
    news = each(lambda x: em.reshape(em.transpose(x, order), [count, *dims[1:]]), updates)
    given = em, region, rows, em.reshape(index, [count]), news, valid
    if is_distinct:
        results = scatter_rows(*given)
    elif only_last:
        results = scatter_last(em, rows, *given[3:])
    else:
        trips = product(n.batch[axis] for axis in n.free)
        results = scatter_in_order(*given, trips=trips, at_once=at_once)
    return each(lambda x: em.reshape(em.slice(x, [0], dims[:1], axes=[0]), n.dims), results)


def _counted(layout: Sequence[Axis], depth: int) -> list[Axis]:
    """The axes of the updates that are not within a row, whose axes are from `depth` on."""
    return [a for a in layout if isinstance(a, Batch) or a.axis < depth]


def _joined(n: ScatterDimensions, depth: int) -> list[Dim]:
    """Extents of the operand with the axes in front of a row joined to one."""
    return [product(n.dims[:depth]), *n.dims[depth:]]


def _takes_border(n: ScatterDimensions, places: Places, region: Region, size: Dim) -> bool:
    """Whether one more row of the operand may take the updates outside of it, and copying it costs
    less than masking them: `size` elements."""
    if not n.scatters_leading_rows or None in region.combiners or not places.may_miss:
        return False
    return at_most(product(n.dims), size)


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
        dims: Extents of the operand, whose first axis counts rows.
        count: Rows of the updates.
        at_once: The result of `rows_at_once`.
    """
    if not region.replaces or product(dims[1:]) == 1 or at_once == count:
        return False
    return not at_once or at_most(product((dims[0], UPDATES_PER_ROW)), count)

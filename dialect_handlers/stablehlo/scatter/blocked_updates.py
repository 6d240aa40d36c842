"""Very many updates of a small operand, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import Axis, Batch
from dialect_handlers.common.parts import each, flat, regrouped
from dialect_handlers.common.scatter_updates import Region, scatter_in_order, with_spare_rows
from dialect_handlers.common.update_blocks import in_blocks
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.targets.costs import Costs

_BLOCKS = 4
"""Blocks of the fewest updates that are scattered in blocks."""
COPY_RATIO = 4
"""A block has at least so many times the elements of the operand, which it copies. This bounds the
copies on any runtime; it is no cost."""


def rows_of_a_block(n: ScatterDimensions, layout: Sequence[Axis], costs: Costs) -> int:
    """How many rows of the updates, in this layout, make a block; 0 for all of them at once."""
    if not n.is_static:
        return 0
    total = _count(n.extents(layout))
    first = layout[0] if layout else None
    if total < costs.scattered_elements or not isinstance(first, Batch) or first.axis not in n.free:
        return 0
    size = max(costs.scattered_elements / _BLOCKS, COPY_RATIO * _count(n.dims))
    length = _count([n.extent(first)])
    rows = max(int(size * length // total), 1)
    return rows if 2 * rows <= length else 0


def scatter_blocks(
    em: Emitter,
    n: ScatterDimensions,
    region: Region,
    xs: Sequence[Parts],
    places: Places,
    layout: Sequence[Axis],
    updates: Sequence[Parts],
    valid: oir.Value | None,
    rows: int,
) -> list[Parts]:
    """A Scan over blocks of this many rows, then the rows left over. Invalid rows go to spare
    elements after the operand, if few are needed."""
    depth, size, total = len(n.dims), _count(n.dims), _count([n.extent(layout[0])])
    first = places.first(layout, depth)
    spare = places.reach(layout, depth) + 1
    if valid is not None and COPY_RATIO * spare <= size:
        first, valid = em.Where(valid, first, em.scalar_like(size, first)), None
        xs = each(lambda x: with_spare_rows(em, x, spare), xs)
    if shape_of(first)[0] != total:
        first = em.expand(first, [total, *shape_of(first)[1:]])
    tensors = [first, *flat(updates)]
    tensors += [] if valid is None else [valid]

    def scattered(states: Sequence[Parts], given: Sequence[oir.Value]) -> list[Parts]:
        index = places.index(layout, depth, given[0])
        rest = iter(given[1:])
        news = regrouped(rest, updates)
        return scatter_in_order(em, region, states, index, news, next(rest, None), 1)

    done = in_blocks(em, "blocks", xs, tensors, rows, scattered)
    return each(lambda x: em.slice(x, [0], [size]), done)


def _count(dims: Iterable[Dim]) -> int:
    """The product of static extents."""
    return math.prod(fixed(list(dims)))

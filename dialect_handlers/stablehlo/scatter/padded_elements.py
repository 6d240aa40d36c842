"""Scatters of single elements into a padded operand, whose border takes updates outside of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.common.parts import each
from dialect_handlers.common.scatter_updates import Region, scatter_in_order
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import fixed, product
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

MOST_GROWTH = 2
"""Limit of the padded operand's size, as a multiple of the operand's. i32 holds its indices."""


def takes_border(n: ScatterDimensions, region: Region, places: Places) -> bool:
    """Whether `scatter_padded` applies, and padding costs less than masking the updates."""
    elements = n.scatters_leading_rows and n.depth == len(n.dims)
    if not elements or not places.is_narrow or None in region.combiners or places.are_inside:
        return False
    size = math.prod(fixed(n.dims))
    wider = math.prod(dim + 1 for dim in fixed(n.dims))
    return size <= math.prod(fixed(n.batch)) and wider <= MOST_GROWTH * size


def scatter_padded(
    em: Emitter,
    n: ScatterDimensions,
    region: Region,
    places: Places,
    xs: Sequence[Parts],
    updates: Sequence[Parts],
) -> list[Parts]:
    """A scatter into operands with one more element along each axis.

    A start outside is clamped to -1 or to the extent of the axis. As a linear index, -1 along an
    axis is the last element of the row before. That element belongs to the border. The index -1 is
    the last element of the tensor, which belongs to it, too.
    """
    dims, count = fixed(n.dims), product(n.batch)
    border = [0] * len(dims) + [1] * len(dims)
    wider = [dim + 1 for dim in dims]

    def padded(x: oir.Value) -> oir.Value:
        known = em.facts.constant(x)
        if known is not None and known.size == 1:
            return em.expand(em.const(known.reshape(())), [product(wider)])
        return em.reshape(em.Pad(x, em.i64(border)), [product(wider)])

    order = [n.windows.index(axis) for axis in n.window_order]
    news = each(lambda x: em.reshape(em.transpose(x, order), [count]), updates)
    index = em.reshape(places.beyond, [count])
    done = scatter_in_order(em, region, each(padded, xs), index, news, None, count)
    whole = each(lambda x: em.reshape(x, wider), done)
    return each(lambda x: em.slice(x, [0] * len(dims), dims), whole)

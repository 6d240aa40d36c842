"""A window of extent 1 along a few axes of a small operand, written by a mask of the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.parts import each, flat
from dialect_handlers.common.reductions import combine
from dialect_handlers.common.scatter_updates import Region
from dialect_handlers.stablehlo.scatter.dimension_numbers import ScatterDimensions
from dialect_handlers.stablehlo.scatter.scatter_indices import Places
from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

MOST_AXES = 2
"""Limit of the axes along which a single window may move: each takes a comparison and an And."""
MOST_AXES_OF_A_BATCH = 1
"""The same for one window in each batch of the operand: rows of indices are faster for more."""


def takes_mask(em: Emitter, n: ScatterDimensions, places: Places, inputs: Sequence[Parts]) -> bool:
    """Whether a mask is faster: the operand is small, each of its batches has one window, and that
    may lie outside of it."""
    if not (places.may_miss and n.is_static and n.is_alone):
        return False
    most = MOST_AXES_OF_A_BATCH if n.batching else MOST_AXES
    if n.partial != sorted(places.axes) or len(places.axes) > most:
        return False
    if any(n.sizes[axis] != 1 for axis in n.partial):
        return False
    small = math.prod(fixed(n.dims)) <= em.costs.small_elements
    return small and all(_selects(em, dtype_of(part)) for part in flat(inputs))


def _selects(em: Emitter, dtype: oir.DataType) -> bool:
    """Whether elements are chosen without casts; those of booleans are, by logic."""
    return dtype == oir.DataType.BOOL or em.supports("Where", dtype)


def write_masked(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: list[Parts],
    news: list[Parts],
    overwrites: bool,
) -> list[Parts]:
    """The operands, combined with the windows in their places.

    Args:
        news: The windows, in the order of the operand's axes.
        overwrites: Whether the region returns the update.
    """
    mask = _mask(em, n, places)
    if not overwrites:
        whole = each(lambda x: em.expand(x, fixed(n.dims)), news)
        news = combine(em, region.function, inputs, whole)
    return each(lambda new, x: em.Where(mask, new, x), news, inputs)


def _mask(em: Emitter, n: ScatterDimensions, places: Places) -> oir.Value:
    """The mask of the elements in the windows. Axes that these cover have extent 1 in it."""
    masks = []
    for axis, start in places.columns.items():
        behind = len(n.dims) - 1 - axis
        rows = np.arange(fixed(n.dims)[axis], dtype=dtype_of(start).numpy())
        masks.append(em.Equal(em.const(rows.reshape(-1, *[1] * behind)), start))
    return masks[0] if len(masks) == 1 else em.And(*masks)

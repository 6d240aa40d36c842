"""A scatter of one window, or of one in each batch of the operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import ScatterDimensions
from dialect_handlers.common.reductions import combine
from dialect_handlers.common.scatter_updates import Region
from dialect_handlers.common.slices import Start, read_window, write_window
from dialect_handlers.common.tensors import each, flat
from dialect_handlers.stablehlo.scatter.places import Places
from hlo2onnx.ir.dims import at_most, fixed, product
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

MOST_AXES = 2
"""Limit of the axes along which a single window may move: each takes a comparison and an And."""
MOST_AXES_OF_A_BATCH = 1
"""The same for one window in each batch of the operand: rows of indices are faster for more."""


def windows_of(em: Emitter, n: ScatterDimensions, updates: Sequence[Parts]) -> list[Parts]:
    """The updates in the order of the operand's axes: the windows of its batches."""
    order = sorted(range(len(n.windows)), key=lambda place: n.runs_along(n.windows[place]))
    pairs = zip(n.batch_dims, n.sizes, strict=True)
    dims = [batch if batch != 1 else size for batch, size in pairs]
    return each(lambda x: em.reshape(em.transpose(x, order), dims), updates)


# -- by a mask -------------------------------------------------------------------------------


def takes_mask(em: Emitter, n: ScatterDimensions, places: Places, inputs: Sequence[Parts]) -> bool:
    """Whether a mask of the elements is faster: the operand is small, each of its batches has one
    window, of extent 1 along a few axes, and that may lie outside of it."""
    if not (places.may_miss and n.is_static and n.is_alone):
        return False
    most = MOST_AXES_OF_A_BATCH if n.batching else MOST_AXES
    if n.partial != sorted(places.axes) or len(places.axes) > most:
        return False
    if any(n.sizes[axis] != 1 for axis in n.partial):
        return False
    small = at_most(product(n.dims), int(em.costs.small_elements))
    return small and all(_selects(em, dtype_of(part)) for part in flat(inputs))


def _selects(em: Emitter, dtype: oir.DataType) -> bool:
    """Whether elements are chosen without casts; those of booleans are, by logic."""
    return dtype == oir.DataType.BOOL or em.supports("Where", dtype)


def write_masked(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: Sequence[Parts],
    windows: Sequence[Parts],
) -> list[Parts]:
    """Combines the whole operands with the windows, and chooses by a mask."""
    mask = _mask(em, n, places)
    if not region.replaces:
        whole = each(lambda x: em.expand(x, fixed(n.dims)), windows)
        windows = combine(em, region.function, inputs, whole)
    return each(lambda new, x: em.Where(mask, new, x), windows, inputs)


def _mask(em: Emitter, n: ScatterDimensions, places: Places) -> oir.Value:
    """The mask of the elements in the windows. Axes that these cover have extent 1 in it."""
    masks = []
    for axis, start in places.columns().items():
        behind = len(n.dims) - 1 - axis
        rows = np.arange(fixed(n.dims)[axis], dtype=dtype_of(start).numpy())
        masks.append(em.Equal(em.const(rows.reshape(-1, *[1] * behind)), start))
    return masks[0] if len(masks) == 1 else em.And(*masks)


# -- by its place ----------------------------------------------------------------------------


def write_one(
    em: Emitter,
    n: ScatterDimensions,
    places: Places,
    region: Region,
    inputs: list[Parts],
    windows: list[Parts],
) -> list[Parts]:
    """Reads the window's old content, combines it, and writes it at the clamped
    start."""
    valid, starts = places.valid, _starts(em, places)
    if valid is not None:
        if places.constant is not None:
            return inputs
        valid = em.reshape(valid, [])
    if not region.replaces or valid is not None:
        olds = each(lambda x: read_window(em, x, n.sizes, starts), inputs)
    if not region.replaces:
        windows = combine(em, region.function, olds, windows)
    if valid is not None:
        windows = each(partial(em.Where, valid), windows, olds)
    return each(lambda x, new: write_window(em, x, new, starts), inputs, windows)


def _starts(em: Emitter, places: Places) -> dict[int, Start]:
    """The clamped start of a single window along each axis."""
    if places.constant is not None:
        return dict(zip(places.axes, map(int, places.constant.reshape(-1)), strict=True))
    pairs = zip(places.axes, places.clamped, strict=True)
    return {axis: em.reshape(start, [1]) for axis, start in pairs}

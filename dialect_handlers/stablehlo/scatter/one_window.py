"""A scatter of one window, or of one in each batch of the operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import ScatterDimensions
from dialect_handlers.common.reductions import combine
from dialect_handlers.common.regions import MONOIDS, neutral
from dialect_handlers.common.scatter_updates import Region
from dialect_handlers.common.slices import Start, is_small_part, read_window, write_window
from dialect_handlers.common.tensors import each, flat
from dialect_handlers.stablehlo.scatter.places import Places
from hlo2onnx.errors import InternalError
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
    for axis, start in places.columns.items():
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
    """Reads the window's old content, combines it, and writes it at the clamped start; or combines
    the whole operand with the window, or with neutral elements around it."""
    valid, starts = places.valid, _starts(em, places)
    if valid is not None:
        if places.constant is not None:
            return inputs
        valid = em.reshape(valid, [])
    if places.constant is not None and _is_padded(em, n, region):
        known = np.zeros(len(n.dims), np.int64)
        known[places.axes] = places.constant.reshape(-1)
        return combine(em, region.function, inputs, _padded(em, n, region, known, windows))
    if not region.replaces or valid is not None:
        olds = each(lambda x: read_window(em, x, n.sizes, starts), inputs)
    if not region.replaces:
        windows = combine(em, region.function, olds, windows)
    if valid is not None:
        windows = each(partial(em.Where, valid), windows, olds)
    return each(lambda x, new: write_window(em, x, new, starts), inputs, windows)


def _is_padded(em: Emitter, n: ScatterDimensions, region: Region) -> bool:
    """Whether a window of known position is large, and its combiner has a neutral element."""
    is_large = not is_small_part(em, n.sizes, n.dims)
    return is_large and all(name in MONOIDS for name in region.combiners)


def _padded(
    em: Emitter, n: ScatterDimensions, region: Region, starts: np.ndarray, windows: list[Parts]
) -> list[Parts]:
    """The windows at these starts along each axis, with neutral elements around them."""
    pads = [*starts, *(np.array(n.dims) - n.sizes - starts)]
    if not any(pads):
        return windows
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

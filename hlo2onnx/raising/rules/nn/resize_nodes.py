"""Resize operators, and products of matrices that resample two axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim, Shape, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.rules.nn.resize_weights import NEAREST, Mode


def multiplications(rows: Sequence[int], columns: Sequence[int]) -> float:
    """Multiplications for each element of the result of products with matrices [before, after]."""
    return rows[0] + columns[0] * rows[0] / rows[1]


def layout_of_images(mode: Mode, axes: Sequence[int], rank: int) -> str | None:
    """The layout in which ONNX Runtime resizes these axes: channels "first", "last", or None."""
    if list(axes) == list(range(rank - len(axes), rank)) and (rank in (2, 4) or mode == NEAREST):
        return "first"
    if len(axes) == 2 and rank == 4 and list(axes) == [1, 2]:
        return "last"
    return None


def _to_the_end(axes: Sequence[int], rank: int) -> list[int]:
    """The permutation that moves these axes to the end."""
    return [axis for axis in range(rank) if axis not in axes] + list(axes)


def products(
    x: oir.Value, axes: Sequence[int], matrices: Sequence[np.ndarray], b: Rewriter
) -> oir.Value:
    """x resampled along two axes by products with matrices [before, after]."""
    rows, columns = matrices
    perm = _to_the_end(axes, rank_of(x))
    wide = b.MatMul(b.transpose(x, perm), b.const(np.ascontiguousarray(columns)))
    whole = b.MatMul(b.const(np.ascontiguousarray(rows.T)), wide)
    return b.transpose(whole, [int(axis) for axis in np.argsort(perm)])


def resized(x: oir.Value, sizes: dict[int, int], mode: Mode, b: Rewriter) -> oir.Value:
    """x with axes of these sizes, transposed before and after where the target does not take the
    axes there."""
    if rank_of(x) == 3:  # one image
        batch = b.unsqueeze(x, [0])
        small = resized(batch, {axis + 1: size for axis, size in sizes.items()}, mode, b)
        return b.squeeze(small, [0])
    axes = sorted(sizes)
    rank = rank_of(x)
    need(0 not in shape_of(x), "it is empty", x)
    perm = list(range(rank))
    if b.target.flags.images_only and layout_of_images(mode, axes, rank) is None:
        perm = _to_the_end(axes, rank)
        ends = range(rank - len(axes), rank)
        need(layout_of_images(mode, ends, rank) is not None, "Resize is wrong for this rank", x)
    x = b.transpose(x, perm)
    dims = [sizes.get(axis, shape_of(x)[place]) for place, axis in enumerate(perm)]
    known = [dim for dim in dims if isinstance(dim, int)]
    extents: list[oir.Value | None] = [None, None, b.i64(known)]
    if len(known) < rank:
        extents = [None, b.const(_scales(shape_of(x), dims))]
    types = [(dtype_of(x), tuple(dims))]
    found = b.op("Resize", x, *extents, types=types, **mode.attributes)
    assert isinstance(found, oir.Value)
    return b.transpose(found, [int(axis) for axis in np.argsort(perm)])


def _scales(before: Shape, after: Sequence[Dim]) -> np.ndarray:
    """The scale of each axis, for shapes that are not all known.

    Raises:
        Refusal: An extent computed from the scale would differ.
    """
    scales = np.ones(len(before), np.float32)
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, int) and isinstance(new, int) and old:
            scales[axis] = np.float32(new) / np.float32(old)
            need(np.floor(scales[axis] * np.float32(old)) == new, "the extent is rounded")
    return scales

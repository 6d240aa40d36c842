"""Tensors in groups, tensors of one number, and progressions along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import starmap

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_static
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

# -- tensors in groups: the parts of each StableHLO value -------------------------------------


def each(action: Callable[..., oir.Value], *groups: Iterable[Parts]) -> list[Parts]:
    """The action on every tensor, or on the tensors at the same place of several lists."""
    return [tuple(starmap(action, zip(*parts, strict=True))) for parts in zip(*groups, strict=True)]


def flat(parts: Iterable[Parts]) -> list[oir.Value]:
    """All parts in one list."""
    return [part for item in parts for part in item]


def regrouped(values: Iterable[oir.Value], like: Iterable[Parts]) -> list[Parts]:
    """The values in groups of the same sizes as these."""
    rest = iter(values)
    return [tuple(next(rest) for _ in parts) for parts in like]


# -- tensors of one number --------------------------------------------------------------------


def filled_like(em: Emitter, number: int, x: oir.Value) -> oir.Value:
    """The number in the type and the shape of x, which may be dynamic."""
    return expanded_like(em, em.scalar_like(number, x), x)


def expanded_like(em: Emitter, x: oir.Value, like: oir.Value) -> oir.Value:
    """x in the shape of `like`, which may be dynamic."""
    shape = shape_of(like)
    if shape_of(x) == shape or is_static(shape):
        return em.expand(x, shape)
    return em.op("Expand", x, em.Shape(like), types=[(dtype_of(x), shape)])


def zeros_like(em: Emitter, x: oir.Value) -> oir.Value:
    """Zeros of the type and the shape of x, which may be dynamic."""
    return filled_like(em, 0, x)


# -- 0, 1, 2, ... and other progressions along an axis ----------------------------------------


CONSTANT_BYTES = 1 << 18
"""Size of the longest constant count; Range makes longer ones. This limits the size of the model;
it is no cost. Counts of 8-bit types are constants of any length: casts to f8 may be inexact where
they overflow."""

CONSTANT_ELEMENTS = 1 << 16
"""Progressions along several axes are one constant up to this size. Beyond it the runtime adds one
constant for each axis. This limits the size of the model; it is no cost."""


def count_along(em: Emitter, dims: Sequence[Dim], axis: int, dtype: oir.DataType) -> oir.Value:
    """A tensor of these extents that counts along one axis, in any real element type."""
    count = dims[axis]
    column = [count, *(1 for _ in dims[axis + 1 :])]
    if isinstance(count, int) and (
        dtype.bitwidth <= 8 or count * dtype.bitwidth <= 8 * CONSTANT_BYTES
    ):
        # Numbers beyond the type wrap or overflow.
        with np.errstate(over="ignore"):
            counted = np.arange(count).astype(dtype.numpy()).reshape(column)  # type: ignore[arg-type]
        return em.expand(em.const(counted), dims)
    own = oir.DataType.INT64
    if isinstance(count, int):
        own = dtype if dtype == oir.DataType.INT32 else own
        limit = em.scalar(count, own)
    else:
        limit = em.extents.scalar(count)
    numbers = em.Range(em.scalar(0, own), limit, em.scalar(1, own), types=[(own, (count,))])
    numbers = em.cast(numbers, dtype)
    return em.expand(em.unsqueeze(numbers, range(1, len(column))), dims)


def progression(
    em: Emitter,
    dims: Sequence[Dim],
    axis: int,
    step: Dim | np.ndarray,
    first: Dim = 0,
    dtype: oir.DataType = oir.DataType.INT64,
) -> np.ndarray | oir.Value:
    """first, first + step, first + 2 step, ... along one axis: an array if nothing is symbolic.

    Args:
        dims: Extents; only the one of the axis matters. The result has extent 1 along the others.
        step: If it has axes, they follow those of `dims`.
    """
    extent, behind = dims[axis], len(dims) - axis - 1
    if isinstance(step, np.ndarray):
        behind += step.ndim
    before, ones = [1] * axis, [1] * behind
    if isinstance(extent, int) and isinstance(first, int) and not isinstance(step, oir.SymbolicDim):
        return first + np.arange(extent).reshape([*before, extent, *ones]) * step
    count = count_along(em, [*before, extent, *ones], axis, dtype)
    if isinstance(step, np.ndarray):
        return em.Mul(count, em.const(step, dtype))
    count = count if step == 1 else em.Mul(count, em.extents.scalar(step))
    return count if first == 0 else em.Add(count, em.extents.scalar(first))


def plus(em: Emitter, x: oir.Value, terms: Sequence[np.ndarray | oir.Value]) -> oir.Value:
    """x plus all of these; arrays of not too many elements together are one constant."""
    arrays = [term for term in terms if isinstance(term, np.ndarray)]
    if math.prod(np.broadcast_shapes(*(term.shape for term in arrays))) <= CONSTANT_ELEMENTS:
        arrays = [sum(arrays[1:], start=arrays[0])] if arrays else []
    for array in arrays:
        if array.any():
            x = em.Add(x, em.const(array, dtype_of(x)))
    for term in terms:
        if isinstance(term, oir.Value):
            x = em.Add(x, term)
    return x

"""What each window over a tensor of symbolic extents selects."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.counting import count_along
from dialect_handlers.common.padding import pad
from dialect_handlers.common.reductions import Function
from dialect_handlers.common.scattering import number
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.graph.dims import canonical, product
from hlo2onnx.graph.values import Dim, shape_of
from hlo2onnx.lowering.emitter import Emitter, Parts

LARGEST_WINDOW = 64
"""Elements of the largest window whose elements are compared one by one."""


def selected_places(
    em: Emitter,
    function: Function,
    x: Parts,
    counts: Sequence[Dim],
    sizes: Sequence[int],
    steps: Sequence[int],
    edges: Sequence[tuple[int, int]],
) -> tuple[oir.Value, oir.Value | None]:
    """The linear index into x that each window selects, and which windows hold any element of x,
    None for all of them: a selected element stays while the function holds for it and the next
    one, in row-major order.

    Args:
        counts: Windows along each axis.
        sizes: Extents of a window.
        steps: Elements from one window to the next.
        edges: Padding before and behind each axis; what it holds is never selected.

    Raises:
        UnsupportedOp: The windows are large.
    """
    if math.prod(sizes) > LARGEST_WINDOW:
        raise UnsupportedOp(
            "large windows select among elements of a tensor of symbolic extents",
            "lower the function for static shapes",
        )

    def laid_out(part: oir.Value) -> oir.Value:
        low, high = zip(*edges, strict=True)
        return pad(em, part, em.scalar_like(0, part), low, high, [0] * len(edges))

    def at(part: oir.Value, place: Sequence[int]) -> oir.Value:
        limits = [
            canonical(index + (count - 1) * step + 1)  # type: ignore[operator]
            for index, count, step in zip(place, counts, steps, strict=True)
        ]
        return em.slice(part, list(place), limits, list(steps))

    dims = shape_of(x[0])
    padded, places = [laid_out(part) for part in x], laid_out(_numbered(em, dims))
    held: oir.Value | None = None
    if any(edge for pair in edges for edge in pair):
        ones = em.expand(em.scalar(1, oir.DataType.UINT8), dims)
        held = em.cast(laid_out(ones), oir.DataType.BOOL)
    selected, index, started = [], places, held
    for position, place in enumerate(np.ndindex(*sizes)):
        new, here = [at(part, place) for part in padded], at(places, place)
        inside = None if held is None else at(held, place)
        if not position:
            selected, index, started = new, here, inside
            continue
        take = em.Not(*function(tuple(selected), tuple(new)))
        if inside is not None and started is not None:
            take = em.And(em.Or(take, em.Not(started)), inside)
            started = em.Or(started, inside)
        selected = [em.Where(take, *pair) for pair in zip(new, selected, strict=True)]
        index = em.Where(take, here, index)
    return index, started


def _numbered(em: Emitter, dims: Sequence[Dim]) -> oir.Value:
    """The linear index of every element."""
    index: oir.Value = em.i64(0)
    for axis, dim in enumerate(dims):
        column: list[Dim] = [dim if axis == other else 1 for other in range(len(dims))]
        count = count_along(em, column, axis, oir.DataType.INT64)
        stride = product(dims[axis + 1 :])
        index = em.Add(index, count if stride == 1 else em.Mul(count, number(em, stride)))
    return em.expand(index, dims)

"""What each window over a tensor of symbolic extents selects."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.iota import count_along
from dialect_handlers.common.padding import pad
from dialect_handlers.common.reductions import Function
from dialect_handlers.common.scatter_updates import number
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import difference, multiple, product, total
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

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

    dims = shape_of(x[0])
    padded = [_laid_out(em, part, edges) for part in x]
    places = _laid_out(em, _numbered(em, dims), edges)
    reaches = [
        total(multiple(difference(count, 1), step), 1)
        for count, step in zip(counts, steps, strict=True)
    ]

    held: oir.Value | None = None
    if any(edge for pair in edges for edge in pair):
        ones = em.expand(em.scalar(1, oir.DataType.UINT8), dims)
        held = em.cast(_laid_out(em, ones, edges), oir.DataType.BOOL)
    laid_out = (*padded, places) if held is None else (*padded, places, held)

    def at(place: Sequence[int]) -> _Elements:
        limits = [total(reach, index) for index, reach in zip(place, reaches, strict=True)]
        found = [em.slice(part, list(place), limits, list(steps)) for part in laid_out]
        count = len(padded)
        return tuple(found[:count]), found[count], None if held is None else found[-1]

    return _first_that_stays(em, function, [at(place) for place in np.ndindex(*sizes)])


_Elements = tuple[Parts, oir.Value, oir.Value | None]
"""One element of every window: its parts, its linear index, and where it is one of x; None for
everywhere."""


def _first_that_stays(
    em: Emitter, function: Function, elements: Sequence[_Elements]
) -> tuple[oir.Value, oir.Value | None]:
    """The index of the element that each window selects among these, and where there is one."""
    (selected, index, started), *others = elements
    for new, here, inside in others:
        take = em.Not(*function(selected, new))
        if inside is not None and started is not None:
            take = em.And(em.Or(take, em.Not(started)), inside)
            started = em.Or(started, inside)
        selected = tuple(em.Where(take, *pair) for pair in zip(new, selected, strict=True))
        index = em.Where(take, here, index)
    return index, started


def _laid_out(em: Emitter, x: oir.Value, edges: Sequence[tuple[int, int]]) -> oir.Value:
    """x with zeros at its edges, which are cut where they are negative."""
    low, high = zip(*edges, strict=True)
    return pad(em, x, em.scalar_like(0, x), low, high, [0] * len(edges))


def _numbered(em: Emitter, dims: Sequence[Dim]) -> oir.Value:
    """The linear index of every element."""
    index: oir.Value = em.i64(0)
    for axis, dim in enumerate(dims):
        column: list[Dim] = [dim if axis == other else 1 for other in range(len(dims))]
        count = count_along(em, column, axis, oir.DataType.INT64)
        stride = product(dims[axis + 1 :])
        index = em.Add(index, count if stride == 1 else em.Mul(count, number(em, stride)))
    return em.expand(index, dims)

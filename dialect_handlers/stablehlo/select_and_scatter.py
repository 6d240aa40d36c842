"""select_and_scatter: the gradient of pooling by selection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import Function
from dialect_handlers.common.regions import promoted
from dialect_handlers.common.scatter_updates import region_of, scatter_in_order, scatter_rows
from dialect_handlers.common.tensors import each, plus, progression
from dialect_handlers.common.windows import (
    Mask,
    Place,
    WindowAxis,
    Windows,
    is_everywhere,
    window_axes,
)
from hlo2onnx.ir.dims import at_most, fixed, is_static, multiple, product
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.select_and_scatter", form="real")
@handles("stablehlo.select_and_scatter", form="complex")
def select_and_scatter(
    em: Emitter,
    op: Op,
    *,
    window_dimensions: Sequence[int] | None = None,
    window_strides: Sequence[int] | None = None,
    padding: np.ndarray | None = None,
) -> list[Parts]:
    """select_and_scatter(x, source, init) -> init, combined with the source at selected elements.

    Each window of x selects one element; the matching element of the source goes to its place.
    """
    x = em.parts(op.operands[0])
    source, init = promoted(em, op.operands[1:], op.block(1).arguments)
    dims, counts = shape_of(x[0]), shape_of(source[0])
    if 0 in (*dims, *counts):
        return each(lambda part: em.expand(part, dims), [init])
    axes = window_axes(dims, window_dimensions, window_strides, padding)
    places, valid = Selector(em, em.scalar_function(op.block(0)), axes)(x)
    many = product(counts)
    targets = each(lambda part: em.expand(part, [product(dims)]), [init])
    updates = each(lambda part: em.reshape(part, [many]), [source])
    index = em.reshape(places, [many])
    valid = None if valid is None else em.reshape(valid, [many])
    region = region_of(em, op.block(1))
    if any(axis.count != 1 and not at_most(axis.window, axis.stride) for axis in axes):
        results = scatter_in_order(em, region, targets, index, updates, valid, trips=many)
    else:
        results = scatter_rows(em, region, targets, index, updates, valid)
    return each(lambda part: em.reshape(part, dims), results)


class Selector:
    """Finds what each window selects, in row-major order: a selected element stays while the
    function holds for it and the next one.

    Args:
        axes: The windows, of static size.
    """

    def __init__(self, em: Emitter, function: Function, axes: Sequence[WindowAxis]) -> None:
        self.em = em
        self.function = function
        self.windows = Windows(em, axes)
        self._all = list(axes)

    def __call__(self, x: Parts) -> tuple[oir.Value, oir.Value | None]:
        """The linear index into x for each window, 0 where it holds no element of x, and which
        windows hold any; None for all of them."""
        windows = self.windows
        nothing = tuple(self.em.scalar_like(0, part) for part in x)
        initial = [nothing, (self.em.i64(0),)]
        (_, (offset,)), started = windows.fold([x], initial, self._step)
        held = started if windows.holding is None else windows.holding
        index = self.em.expand(plus(self.em, offset, self._firsts()), windows.counts)
        if is_everywhere(held):
            return index, None
        if isinstance(held, np.ndarray) and is_static(windows.counts):
            held = np.ascontiguousarray(np.broadcast_to(held, fixed(windows.counts)))
        valid = self.em.expand(windows.value_of(held), windows.counts)
        return self.em.Where(valid, index, self.em.i64(0)), valid

    def _strides(self) -> list[Dim]:
        """Elements from one index to the next along each axis of the operand."""
        dims = [axis.extent for axis in self._all]
        return [product(dims[number + 1 :]) for number in range(len(dims))]

    def _firsts(self) -> list[np.ndarray | oir.Value]:
        """What each axis adds to the linear index of a window's first position."""
        return [
            progression(
                self.em,
                self.windows.counts,
                number,
                multiple(axis.stride, stride),
                multiple(axis.low, multiple(stride, -1)),
            )
            for number, (axis, stride) in enumerate(zip(self._all, self._strides(), strict=True))
        ]

    def _step(
        self, states: list[Parts], elements: list[Parts], place: Place, inside: Mask, started: Mask
    ) -> list[Parts]:
        """The selected element of each window and its offset from the window's first position."""
        em, windows = self.em, self.windows
        (selected, (offset,)), (new,) = states, elements
        here = windows.offset(place, self._strides())
        if isinstance(started, np.ndarray) and not started.any():
            return [new, (here,)]
        take = em.Not(*self.function(selected, new))
        if not is_everywhere(started):
            take = em.Or(take, windows.negated(started))
        if not is_everywhere(inside):
            take = em.And(take, windows.value_of(inside))
        return [tuple(map(partial(em.Where, take), new, selected)), (em.Where(take, here, offset),)]

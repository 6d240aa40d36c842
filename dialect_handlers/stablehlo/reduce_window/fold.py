"""Windows combined by a region without a name: element by element, in XLA's order.

The specification leaves the order open and so admits associative regions only. XLA starts with the
init values and takes a window's elements in row-major order, so that it gives other regions a
meaning too, and NaN an outcome in regions that compare and select (the JVP of max pooling).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import Function, combine
from dialect_handlers.stablehlo.reduce_window.cumulative import doubling_scan
from dialect_handlers.stablehlo.reduce_window.geometry import Axis
from dialect_handlers.stablehlo.reduce_window.padded_layout import lay_out
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

LONGEST_FOLD = 16
"""Elements of the largest cumulative window that is not taken to be associative."""

LONGEST_UNROLLED = 64
"""Elements of the largest window that is not a Loop's."""


_BOOL = oir.DataType.BOOL


def each(action: Callable[[oir.Value], oir.Value], tensors: Sequence[Parts]) -> list[Parts]:
    """An action on every tensor by itself."""
    return [tuple(action(part) for part in parts) for parts in tensors]


class Fold:
    """The windows of one op.

    Args:
        function: The region over whole tensors.
        axes: Each has a position that holds an element.
    """

    def __init__(self, em: Emitter, function: Function, axes: Sequence[Axis]) -> None:
        self.em = em
        self.function = function
        self.axes = {number: axis for number, axis in enumerate(axes) if not axis.is_trivial}
        self.counts = [axis.count for axis in axes]

    def __call__(self, inits: Sequence[Parts], tensors: Sequence[Parts]) -> list[Parts]:
        """region(...region(region(init, first), second)..., last) of every window."""
        size = math.prod(axis.window for axis in self.axes.values())
        if size > LONGEST_FOLD and len(self.axes) == 1:
            ((number, axis),) = self.axes.items()
            if axis.prefix is not None and not axis.prefix.exclusive:
                return self._scanned(inits, tensors, number, axis.prefix.reverse)
        held = each(self._laid_out, tensors)
        if size <= LONGEST_UNROLLED:
            return each(self._expanded, self._unrolled(inits, held))
        return self._looped(each(self._expanded, inits), held, size)

    def _laid_out(self, x: oir.Value) -> oir.Value:
        """The positions of the axes; what holes hold is never used."""
        return lay_out(self.em, x, self.axes, self.em.scalar_like(0, x))

    def _expanded(self, x: oir.Value) -> oir.Value:
        return self.em.expand(x, self.counts)

    def _combine(self, lhs: Sequence[Parts], rhs: Sequence[Parts]) -> list[Parts]:
        return combine(self.em, self.function, lhs, rhs)

    def _scanned(
        self, inits: Sequence[Parts], tensors: Sequence[Parts], number: int, reverse: bool
    ) -> list[Parts]:
        """Long cumulative windows, of a region taken to be associative: log2(n) steps, not n²."""
        scanned = doubling_scan(self.em, self._combine, tensors, number, reverse=reverse)
        return self._combine(inits, scanned)

    def _unrolled(self, inits: Sequence[Parts], held: Sequence[Parts]) -> list[Parts]:
        """One application of the region for each element of a window."""
        result = list(inits)
        for index in np.ndindex(*(axis.window for axis in self.axes.values())):
            places = dict(zip(self.axes, index, strict=True))
            reads = {number: axis.reads(places[number]) for number, axis in self.axes.items()}
            if all(read.any() for read in reads.values()):
                following = each(partial(self._at, places=places), held)
                result = self._where(self._mask(reads), self._combine(result, following), result)
        return result

    def _at(self, x: oir.Value, places: Mapping[int, int]) -> oir.Value:
        """The element at these places of every window."""
        axes = self.axes
        starts = [place * axes[number].step for number, place in places.items()]
        limits = [start + axes[number].reach for start, number in zip(starts, places, strict=True)]
        strides = [axes[number].stride for number in places]
        return self.em.slice(x, starts, limits, strides, list(places))

    def _mask(self, held: Mapping[int, np.ndarray]) -> oir.Value | None:
        """Where every one of these axes holds an element; None for everywhere."""
        mask: oir.Value | None = None
        for number, elements in held.items():
            if not elements.all():
                dims = [len(elements) if axis == number else 1 for axis in range(len(self.counts))]
                one = self.em.const(elements.reshape(dims))
                mask = one if mask is None else self.em.And(mask, one)
        return mask

    def _where(
        self, mask: oir.Value | None, new: Sequence[Parts], old: Sequence[Parts]
    ) -> list[Parts]:
        if mask is None:
            return list(new)
        return [
            tuple(self.em.Where(mask, *pair) for pair in zip(*parts, strict=True))
            for parts in zip(new, old, strict=True)
        ]

    def _looped(self, inits: Sequence[Parts], held: Sequence[Parts], size: int) -> list[Parts]:
        """The same with one trip of a Loop for each element of a window."""
        em = self.em
        valid = self._valid()
        states = [
            tuple(em.value("folded", dtype_of(part), shape_of(part)) for part in parts)
            for parts in inits
        ]
        trip, going_on = em.value("trip", oir.DataType.INT64, []), em.value("on", _BOOL, [])
        flat = [part for parts in states for part in parts]
        with em.subgraph([trip, going_on, *flat], "windows") as body:
            starts = self._starts(trip)
            results = self._combine(states, each(lambda x: self._from(x, starts), held))
            if valid is not None:
                results = self._where(self._from(valid, starts), results, states)
            body.outputs.extend([em.Identity(going_on)])
            body.outputs.extend(part for parts in results for part in parts)
        initial = [part for parts in inits for part in parts]
        types = [(dtype_of(part), shape_of(part)) for part in initial]
        outputs = em.outputs(
            "Loop", em.i64(size), em.const(np.array(True)), *initial,
            body=body, types=types, n_outputs=len(types),
        )  # fmt: skip
        final = iter(outputs)
        return each(lambda _: next(final), inits)

    def _valid(self) -> oir.Value | None:
        """Which positions hold an element; None for all of them."""
        valid = self._mask({number: axis.elements for number, axis in self.axes.items()})
        dims = [
            self.axes[number].padded if number in self.axes else 1
            for number in range(len(self.counts))
        ]
        return None if valid is None else self.em.expand(valid, dims)

    def _starts(self, trip: oir.Value) -> oir.Value:
        """The positions of element `trip`, counted in row-major order, of the first window."""
        em = self.em
        windows = [axis.window for axis in self.axes.values()]
        inner = [math.prod(windows[place + 1 :]) for place in range(len(windows))]
        index = em.Mod(em.Div(trip, em.i64(inner)), em.i64(windows))
        return em.Mul(index, em.i64([axis.step for axis in self.axes.values()]))

    def _from(self, x: oir.Value, starts: oir.Value) -> oir.Value:
        """What begins at these positions, one element for each window."""
        em = self.em
        limits = em.Add(starts, em.i64([axis.reach for axis in self.axes.values()]))
        strides = em.i64([axis.stride for axis in self.axes.values()])
        dims = [
            self.axes[number].count if number in self.axes else dim
            for number, dim in enumerate(shape_of(x))
        ]
        numbers = em.i64(list(self.axes))
        types = [(dtype_of(x), tuple(dims))]
        return em.op("Slice", x, starts, limits, numbers, strides, types=types)

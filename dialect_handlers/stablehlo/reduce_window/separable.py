"""Named combiners over any windows, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from dialect_handlers.common.reductions import Function, combine, has_reducer, reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.stablehlo.reduce_window.cumulative import (
    CUMSUM_TYPES,
    cumulative_sum,
    doubling_scan,
)
from dialect_handlers.stablehlo.reduce_window.geometry import SHORT, Axis
from dialect_handlers.stablehlo.reduce_window.padded_layout import lay_out
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

IDEMPOTENT = frozenset({Combiner.MAXIMUM, Combiner.MINIMUM, Combiner.AND, Combiner.OR})
"""Those of which windows may overlap: f(x, x) == x."""

NAMED = IDEMPOTENT | {Combiner.ADD, Combiner.MULTIPLY, Combiner.XOR}
"""Associative, commutative, and with a neutral element to fill holes with."""

LONGEST_ONE_BY_ONE = 16
"""Windows beyond this length are never combined element by element."""


@dataclass(frozen=True)
class Region:
    """The region of an op, applied to tuples of tensors: one for each operand.

    Attributes:
        function: The region over whole tensors.
        combiners: Its name on each operand, all of them in NAMED.
        holes: A neutral element for each operand.
    """

    em: Emitter
    function: Function
    combiners: Sequence[Combiner]
    holes: Sequence[Parts]

    def __call__(self, lhs: Sequence[Parts], rhs: Sequence[Parts]) -> list[Parts]:
        """region(lhs..., rhs...)."""
        return combine(self.em, self.function, lhs, rhs)

    def each(
        self, action: Callable[[oir.Value, Combiner], oir.Value], tensors: Sequence[Parts]
    ) -> list[Parts]:
        """An action on every tensor by itself."""
        return [
            tuple(action(part, combiner) for part in parts)
            for parts, combiner in zip(tensors, self.combiners, strict=True)
        ]


def separable(region: Region, tensors: Sequence[Parts], axes: Sequence[Axis]) -> list[Parts]:
    """Windows over several axes are windows over one axis of the windows over the others.

    Precondition: each axis has a position that holds an element.
    """
    tensors = list(tensors)
    for number, axis in enumerate(axes):
        if not axis.is_trivial:
            tensors = _Along(region, number, axis).windows(tensors)
    return tensors


@dataclass(frozen=True)
class _Along:
    """Windows along axis `number`."""

    region: Region
    number: int
    axis: Axis

    def windows(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The combined windows, by the cheapest way there is for them."""
        axis = self.axis
        if axis.accumulates:
            scanned = self._scan(tensors)
            if scanned is not None:
                return scanned
        held = self._laid_out(tensors)
        apart = axis.count == 1 or (axis.step == 1 and axis.stride >= axis.window)
        if axis.window > SHORT and apart and self._have_reducers(tensors):
            return self._reduced(held)
        if axis.window <= SHORT or self._slices_pay():
            return self._one_by_one(held)
        return self._doubled(held)

    def _slices_pay(self) -> bool:
        """Whether `window` slices of `count` are less than two slices of everything a doubling."""
        window = self.axis.window
        doubled = 2 * (window - 1).bit_length() * self.axis.padded
        return window <= LONGEST_ONE_BY_ONE and window * self.axis.count <= doubled

    def _scan(self, tensors: Sequence[Parts]) -> list[Parts] | None:
        """Cumulative windows: CumSum where it is a sum, else a scan."""
        prefix = self.axis.prefix
        assert prefix is not None
        em, combiners = self.region.em, self.region.combiners
        types = {dtype_of(part) for parts in tensors for part in parts}
        if set(combiners) == {Combiner.ADD} and types <= CUMSUM_TYPES:
            return self.region.each(
                lambda x, _: cumulative_sum(em, x, self.number, prefix), tensors
            )
        if prefix.exclusive:
            return None
        return doubling_scan(em, self.region, tensors, self.number, reverse=prefix.reverse)

    def _laid_out(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The positions of this axis, holes filled with neutral elements."""
        em = self.region.em
        return [
            tuple(
                lay_out(em, part, {self.number: self.axis}, hole)
                for part, hole in zip(parts, holes, strict=True)
            )
            for parts, holes in zip(tensors, self.region.holes, strict=True)
        ]

    def _have_reducers(self, tensors: Sequence[Parts]) -> bool:
        return all(
            has_reducer(combiner, dtype_of(parts[0]))
            for combiner, parts in zip(self.region.combiners, tensors, strict=True)
        )

    def _reduced(self, held: Sequence[Parts]) -> list[Parts]:
        """Windows that share no position: each one as an axis of its own, reduced."""
        em, axis, number = self.region.em, self.axis, self.number

        def reduce(x: oir.Value, combiner: Combiner) -> oir.Value:
            if axis.count == 1:
                x = em.slice(x, [0], [axis.span], [axis.step], [number])
                return reduce_axes(em, combiner, x, [number], keepdims=True)
            dims = shape_of(x)
            room = axis.count * axis.stride
            if room > axis.padded:  # behind the last window, never read
                x = em.Pad(x, em.i64([0, room - axis.padded]), None, em.i64([number]))
            x = em.slice(x, [0], [room], axes=[number])
            x = em.reshape(x, [*dims[:number], axis.count, axis.stride, *dims[number + 1 :]])
            x = em.slice(x, [0], [axis.window], axes=[number + 1])
            return reduce_axes(em, combiner, x, [number + 1])

        return self.region.each(reduce, held)

    def _one_by_one(self, held: Sequence[Parts]) -> list[Parts]:
        """The first elements of all windows with the second ones, with the third ones, ..."""
        result = self._shifted(held, 0)
        for index in range(1, self.axis.window):
            result = self.region(result, self._shifted(held, index))
        return result

    def _doubled(self, held: Sequence[Parts]) -> list[Parts]:
        """Windows of 1, 2, 4, ... elements at every position; the wanted ones are made of them."""
        window = self.axis.window
        largest = window.bit_length() - 1
        powers = [list(held)]
        for exponent in range(largest):
            powers.append(self._twice(powers[exponent], 1 << exponent))
        result, covered = self._shifted(powers[largest], 0), 1 << largest
        may_overlap = IDEMPOTENT.issuperset(self.region.combiners)
        while covered < window:
            exponent = largest if may_overlap else (window - covered).bit_length() - 1
            start = window - (1 << largest) if may_overlap else covered
            result = self.region(result, self._shifted(powers[exponent], start))
            covered = start + (1 << exponent)
        return result

    def _twice(self, windows: Sequence[Parts], size: int) -> list[Parts]:
        """Windows of 2 · size elements at every position they fit in."""
        room: int = shape_of(windows[0][0])[self.number]  # type: ignore[assignment]
        shift = size * self.axis.step
        return self.region(
            self._cut(windows, 0, room - shift, 1),
            self._cut(windows, shift, room, 1),
        )

    def _shifted(self, windows: Sequence[Parts], index: int) -> list[Parts]:
        """What begins at element `index` of each window."""
        start = index * self.axis.step
        return self._cut(windows, start, start + self.axis.reach, self.axis.stride)

    def _cut(self, tensors: Sequence[Parts], start: int, limit: int, stride: int) -> list[Parts]:
        em = self.region.em
        return self.region.each(
            lambda x, _: em.slice(x, [start], [limit], [stride], [self.number]), tensors
        )

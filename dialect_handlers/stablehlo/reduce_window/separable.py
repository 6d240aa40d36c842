"""Named combiners over any windows, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from dialect_handlers.common.parts import each, flat
from dialect_handlers.common.reductions import Function, combine, has_reducer, reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.subgraphs import repeat
from dialect_handlers.common.windows import SHORT, Prefix, WindowAxis, Windows, lay_out
from dialect_handlers.stablehlo.reduce_window.cumulative import (
    CUMSUM_TYPES,
    cumulative_sum,
    doubling_scan,
)
from hlo2onnx.ir.dims import difference, fixed, total
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

IDEMPOTENT = frozenset({Combiner.MAXIMUM, Combiner.MINIMUM, Combiner.AND, Combiner.OR})
"""Combiners with f(x, x) == x, for which windows may overlap."""

NAMED = IDEMPOTENT | {Combiner.ADD, Combiner.MULTIPLY, Combiner.XOR}
"""Associative, commutative, and with a neutral element to fill holes with."""

LONGEST_ONE_BY_ONE = 16
"""Longest window that is combined element by element: a limit on the number of nodes, no cost."""


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
        """An action on every tensor and its combiner."""
        return [
            tuple(action(part, combiner) for part in parts)
            for parts, combiner in zip(tensors, self.combiners, strict=True)
        ]


def separable(region: Region, tensors: Sequence[Parts], axes: Sequence[WindowAxis]) -> list[Parts]:
    """Windows over several axes are windows over one axis of the windows over the others.

    Precondition: each static axis has a position that holds an element.
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
    axis: WindowAxis

    def windows(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The combined windows, by the cheapest way there is for them."""
        axis = self.axis
        if axis.prefix is not None and not axis.is_short:
            scanned = self._scan(tensors, axis.prefix)
            if scanned is not None:
                return scanned
        held = self._laid_out(tensors)
        if not axis.is_short and self._is_apart and self._have_reducers(tensors):
            return self._reduced(held)
        if isinstance(axis.window, int) and self._slices_pay(axis.window):
            return self._one_by_one(held, axis.window)
        if axis.is_static:
            return self._doubled(held)
        return self._looped(held)

    @property
    def _is_apart(self) -> bool:
        """Whether windows provably share no position."""
        axis = self.axis
        if axis.count == 1:
            return True
        return axis.is_static and axis.step == 1 and axis.stride >= fixed([axis.window])[0]

    def _slices_pay(self, window: int) -> bool:
        """Whether `window` slices of `count` are less than two slices of everything a doubling,
        which takes a static axis."""
        if window <= SHORT or not self.axis.is_static:
            return window <= LONGEST_ONE_BY_ONE
        count, padded = fixed((self.axis.count, self.axis.padded))
        doubled = 2 * (window - 1).bit_length() * padded
        return window <= LONGEST_ONE_BY_ONE and window * count <= doubled

    def _scan(self, tensors: Sequence[Parts], prefix: Prefix) -> list[Parts] | None:
        """Cumulative windows: CumSum where it is a sum, else a scan."""
        em, combiners = self.region.em, self.region.combiners
        types = {dtype_of(part) for part in flat(tensors)}
        if set(combiners) == {Combiner.ADD} and types <= CUMSUM_TYPES:
            return each(lambda x: cumulative_sum(em, x, self.number, prefix), tensors)
        if prefix.exclusive:
            return None
        return doubling_scan(em, self.region, tensors, self.number, reverse=prefix.reverse)

    def _laid_out(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The positions of this axis, holes filled with neutral elements."""
        em, axes = self.region.em, {self.number: self.axis}
        return each(lambda x, hole: lay_out(em, x, axes, hole), tensors, self.region.holes)

    def _have_reducers(self, tensors: Sequence[Parts]) -> bool:
        pairs = zip(self.region.combiners, tensors, strict=True)
        return all(has_reducer(combiner, dtype_of(parts[0])) for combiner, parts in pairs)

    def _reduced(self, held: Sequence[Parts]) -> list[Parts]:
        """Windows that share no position: each becomes an axis, which is reduced."""
        em, axis, number = self.region.em, self.axis, self.number

        def reduce(x: oir.Value, combiner: Combiner) -> oir.Value:
            if axis.count == 1:
                x = em.slice(x, [0], [axis.span], [axis.step], [number])
                return reduce_axes(em, combiner, x, [number], keepdims=True)
            dims = shape_of(x)
            count, padded = fixed((axis.count, axis.padded))
            room = count * axis.stride
            if room > padded:  # after the last window, never read
                x = em.Pad(x, em.i64([0, room - padded]), None, em.i64([number]))
            x = em.slice(x, [0], [room], axes=[number])
            x = em.reshape(x, [*dims[:number], count, axis.stride, *dims[number + 1 :]])
            x = em.slice(x, [0], [axis.window], axes=[number + 1])
            return reduce_axes(em, combiner, x, [number + 1])

        return self.region.each(reduce, held)

    def _one_by_one(self, held: Sequence[Parts], window: int) -> list[Parts]:
        """The first elements of all windows with the second ones, with the third ones, ..."""
        result = self._shifted(held, 0)
        for index in range(1, window):
            result = self.region(result, self._shifted(held, index))
        return result

    def _doubled(self, held: Sequence[Parts]) -> list[Parts]:
        """Windows of 1, 2, 4, ... elements at every position, combined to the requested windows."""
        (window,) = fixed([self.axis.window])
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
        room = shape_of(windows[0][0])[self.number]
        shift = size * self.axis.step
        return self.region(
            self._cut(windows, 0, difference(room, shift), 1),
            self._cut(windows, shift, room, 1),
        )

    def _shifted(self, windows: Sequence[Parts], index: int) -> list[Parts]:
        """What begins at element `index` of each window."""
        start = index * self.axis.step
        return self._cut(windows, start, total(start, self.axis.reach), self.axis.stride)

    def _cut(self, tensors: Sequence[Parts], start: int, limit: Dim, stride: int) -> list[Parts]:
        em = self.region.em
        return each(lambda x: em.slice(x, [start], [limit], [stride], [self.number]), tensors)

    def _looped(self, held: Sequence[Parts]) -> list[Parts]:
        """The same as `_one_by_one` with one trip of a Loop for each element of a window."""
        em, rank = self.region.em, rank_of(held[0][0])
        plain = WindowAxis(1, 1)
        windows = Windows(em, [self.axis if n == self.number else plain for n in range(rank)])

        def filled(x: oir.Value, hole: oir.Value) -> oir.Value:
            dims = list(shape_of(x))
            dims[self.number] = self.axis.count
            return em.expand(hole, dims)

        def step(trip: oir.Value, states: list[Parts]) -> list[Parts]:
            place = windows.place_of(trip)
            return self.region(states, each(lambda x: windows.element_at(x, place), held))

        initial = each(filled, held, self.region.holes)
        return repeat(em, "windows", self.axis.window, initial, step)

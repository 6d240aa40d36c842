"""Named combiners over any windows, one axis after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as oir

from dialect_handlers.common.padding import pad
from dialect_handlers.common.reductions import Function, combine, has_reducer, reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.subgraphs import loop, states_of
from dialect_handlers.common.tensors import each, flat
from dialect_handlers.common.windows import (
    SHORT,
    Mask,
    Place,
    WindowAxis,
    Windows,
    is_everywhere,
    lay_out,
)
from hlo2onnx.ir.dims import difference, fixed, product, total
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

# -- named combiners over any windows, one axis after the other -------------------------------


IDEMPOTENT = frozenset({Combiner.MAXIMUM, Combiner.MINIMUM, Combiner.AND, Combiner.OR})
"""Combiners with f(x, x) == x, for which windows may overlap."""

NAMED = IDEMPOTENT | {Combiner.ADD, Combiner.MULTIPLY, Combiner.XOR}
"""Associative, commutative, and with a neutral element to fill holes with."""

LONGEST_ONE_BY_ONE = 16
"""Longest window along a symbolic axis that is combined element by element: a limit on the number
of nodes, no cost."""


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
        if axis.scan_reverse is not None and not axis.is_short:
            return self._scan(tensors, axis.scan_reverse)
        held = self._laid_out(tensors)
        if not axis.is_short and axis.count == 1 and self._have_reducers(tensors):
            return self._reduced(held)
        most = SHORT if axis.is_static else LONGEST_ONE_BY_ONE
        if isinstance(axis.window, int) and axis.window <= most:
            return self._one_by_one(held, axis.window)
        if axis.is_static:
            return self._doubled(held)
        return self._looped(tensors)

    def _scan(self, tensors: Sequence[Parts], reverse: bool) -> list[Parts]:
        """Cumulative windows: CumSum where it is a sum, else a scan."""
        em, combiners = self.region.em, self.region.combiners
        types = {dtype_of(part) for part in flat(tensors)}
        if set(combiners) == {Combiner.ADD} and types <= CUMSUM_TYPES:
            return each(lambda x: cumulative_sum(em, x, self.number, reverse=reverse), tensors)
        return doubling_scan(em, self.region, tensors, self.number, reverse=reverse)

    def _laid_out(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The positions of this axis, holes filled with neutral elements."""
        em, axes = self.region.em, {self.number: self.axis}
        return each(lambda x, hole: lay_out(em, x, axes, hole), tensors, self.region.holes)

    def _have_reducers(self, tensors: Sequence[Parts]) -> bool:
        pairs = zip(self.region.combiners, tensors, strict=True)
        return all(has_reducer(combiner, dtype_of(parts[0])) for combiner, parts in pairs)

    def _reduced(self, held: Sequence[Parts]) -> list[Parts]:
        """A single window: its elements are reduced."""
        em, axis, number = self.region.em, self.axis, self.number
        picked = each(lambda x: em.slice(x, [0], [axis.span], [axis.step], [number]), held)
        return [
            tuple(reduce_axes(em, combiner, x, [number], keepdims=True) for x in parts)
            for combiner, parts in zip(self.region.combiners, picked, strict=True)
        ]

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

    def _looped(self, tensors: Sequence[Parts]) -> list[Parts]:
        """The same as `_one_by_one` with one trip of a Loop for each element of a window."""
        region, dims = self.region, shape_of(tensors[0][0])
        axes = [self.axis if n == self.number else WindowAxis(dim, 1) for n, dim in enumerate(dims)]
        return Fold(region.em, region.function, axes)(region.holes, tensors)


# -- cumulative windows: window i holds everything up to element i, or from it on -------------


Combine = Callable[[Sequence[Parts], Sequence[Parts]], list[Parts]]
"""combine(earlier, later): a region over tuples of tensors."""

CUMSUM_TYPES = frozenset(
    {
        oir.DataType.FLOAT,
        oir.DataType.DOUBLE,
        oir.DataType.FLOAT16,
        oir.DataType.BFLOAT16,
        oir.DataType.INT32,
        oir.DataType.INT64,
        oir.DataType.UINT32,
        oir.DataType.UINT64,
    }
)
"""Element types that ONNX defines CumSum for."""


def doubling_scan(
    em: Emitter, combine: Combine, tensors: Sequence[Parts], axis: int, *, reverse: bool
) -> list[Parts]:
    """Inclusive scan by any associative function in log2(n) steps: after the step of distance d
    element i holds the 2d elements that end (start, if reverse) with it. Over an axis of symbolic
    extent the steps are the trips of a Loop."""
    extent, distance = shape_of(tensors[0][0])[axis], 1
    if isinstance(extent, int):
        while distance < extent:
            tensors = _doubled(em, combine, tensors, axis, distance, reverse)
            distance *= 2
        return list(tensors)

    def step(_: oir.Value, states: list[Parts]) -> tuple[oir.Value, list[Parts]]:
        ((covered,), *scanned) = states
        distance = em.extents.held_by(em.reshape(covered, [1]))
        results = _doubled(em, combine, scanned, axis, distance, reverse)
        twice = em.Add(covered, covered)
        return em.Less(twice, length), [(twice,), *results]

    length, one = em.extents.scalar(extent), em.i64(1)
    initial = [(one,), *tensors]
    states = states_of(em, "scanned", initial)
    return loop(em, "doubling", (None, em.Less(one, length)), initial, states, step)[1:]


def _doubled(
    em: Emitter,
    combine: Combine,
    tensors: Sequence[Parts],
    axis: int,
    distance: Dim,
    reverse: bool,
) -> list[Parts]:
    """One step of a scan."""

    def cut(start: Dim, limit: Dim) -> list[Parts]:
        return each(lambda x: em.slice(x, [start], [limit], axes=[axis]), tensors)

    extent = shape_of(tensors[0][0])[axis]
    rest = difference(extent, distance)
    before, after = cut(0, rest), cut(distance, extent)
    done = cut(rest, extent) if reverse else cut(0, distance)
    pairs = combine(before, after)
    joined = (pairs, done) if reverse else (done, pairs)
    return each(lambda *parts: em.concat(parts, axis), *joined)


def cumulative_sum(em: Emitter, x: oir.Value, axis: int, *, reverse: bool) -> oir.Value:
    """CumSum; over long or symbolic axes of floats, CumSum in blocks of the same length plus the
    CumSum of the blocks' sums. Zeros fill the last block.

    Precondition: the element type is one of CUMSUM_TYPES.
    """
    dims = shape_of(x)
    extent, before, behind = dims[axis], dims[:axis], dims[axis + 1 :]
    fits = isinstance(extent, int) and extent <= em.costs.cumulative_sum_terms
    if fits or dtype_of(x) not in FLOATS or not em.target.flags.naive_sums:
        return _cum_sum(em, x, axis, reverse)
    blocks, length = _blocks(em, extent)
    room = product((blocks, length))
    if room != extent:
        none = [0] * len(dims)
        high = [*none[:axis], difference(room, extent), *none[axis + 1 :]]
        x = pad(em, x, em.scalar_like(0, x), none, high, none)
    x = em.reshape(x, [*before, blocks, length, *behind])
    sums = em.ReduceSum(x, em.i64([axis + 1]), keepdims=1)
    others = _cum_sum(em, sums, axis, reverse, exclusive=True)
    x = em.Add(_cum_sum(em, x, axis + 1, reverse), others)
    x = em.reshape(x, [*before, room, *behind])
    return em.slice(x, [0], [extent], axes=[axis])


def _blocks(em: Emitter, extent: Dim) -> tuple[Dim, Dim]:
    """The number of blocks and their length: about sqrt(n) both, or as many blocks as
    the target asks for where n is symbolic."""
    if isinstance(extent, int):
        static_length = 1 << (extent.bit_length() // 2)
        return -(-extent // static_length), static_length
    size, one = em.extents.value(extent), em.i64([1])
    blocks = em.Add(em.Div(size, em.i64([int(em.costs.cumulative_sum_terms)])), one)
    length = em.Div(em.Add(size, em.Sub(blocks, one)), blocks)
    return em.extents.held_by(blocks), em.extents.held_by(length)


def _cum_sum(
    em: Emitter, x: oir.Value, axis: int, reverse: bool, exclusive: bool = False
) -> oir.Value:
    return em.CumSum(x, em.i64(axis), reverse=int(reverse), exclusive=int(exclusive))


# -- windows combined by a region without a name: element by element, in XLA's order ----------
#
# The specification leaves the order open and so admits associative regions only. XLA starts with
# the init values and takes a window's elements in row-major order. This gives other regions a
# meaning too, and NaN a result in regions that compare and select (the JVP of max pooling).


LONGEST_FOLD = 16
"""Elements of the largest cumulative window that is not taken to be associative: a limit on the
number of nodes, no cost."""


class Fold:
    """The windows of one op.

    Args:
        function: The region over whole tensors.
        axes: Each static one has a position that holds an element.
    """

    def __init__(self, em: Emitter, function: Function, axes: Sequence[WindowAxis]) -> None:
        self.em = em
        self.function = function
        self.windows = Windows(em, axes)

    def __call__(self, inits: Sequence[Parts], tensors: Sequence[Parts]) -> list[Parts]:
        """region(...region(region(init, first), second)..., last) of every window."""
        windows = self.windows
        size = windows.size
        if len(windows.axes) == 1 and not (isinstance(size, int) and size <= LONGEST_FOLD):
            ((number, axis),) = windows.axes.items()
            if axis.scan_reverse is not None:
                return self._scanned(inits, tensors, number, axis.scan_reverse)
        states, _ = windows.fold(tensors, inits, self._step)
        return each(lambda x: self.em.expand(x, windows.counts), states)

    def _step(
        self, states: list[Parts], elements: list[Parts], _: Place, inside: Mask, __: Mask
    ) -> list[Parts]:
        new = self._combine(states, elements)
        if is_everywhere(inside):
            return new
        return each(partial(self.em.Where, self.windows.value_of(inside)), new, states)

    def _combine(self, lhs: Sequence[Parts], rhs: Sequence[Parts]) -> list[Parts]:
        return combine(self.em, self.function, lhs, rhs)

    def _scanned(
        self, inits: Sequence[Parts], tensors: Sequence[Parts], number: int, reverse: bool
    ) -> list[Parts]:
        """Long cumulative windows, of a region taken to be associative: log2(n) steps, not n²."""
        scanned = doubling_scan(self.em, self._combine, tensors, number, reverse=reverse)
        return self._combine(inits, scanned)

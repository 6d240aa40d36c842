"""The windows of reduce_window and select_and_scatter, over static and symbolic extents.

`WindowAxis` is the arithmetic of one axis. `Windows` reads an element of all windows at once. Which
positions hold an element is known of static windows; of symbolic ones it is computed at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.padding import pad
from dialect_handlers.common.subgraphs import repeat
from dialect_handlers.common.tensors import each
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import (
    at_most,
    canonical,
    difference,
    fixed,
    is_positive,
    is_static,
    multiple,
    not_negative,
    product,
    total,
)
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

SHORT = 4
"""Windows up to this length are always combined element by element, with the fewest nodes. This is
not a cost."""


@dataclass(frozen=True)
class WindowAxis:
    """The windows along one axis.

    Positions count from the low end of the padded axis. A position holds an element of the
    operand, or it is a hole: padding at the edges or a gap of the base dilation. Holes take no
    part in a window (XLA; the specification fills them with the init values, which are neutral).

    Attributes:
        extent: Extent of the operand.
        window: Elements of a window.
        stride: Positions from one window to the next.
        gap: Positions from one element of the operand to the next (base dilation).
        step: Positions from one element of a window to the next (window dilation).
        low: Padding before the first element; cuts where it is negative.
        high: Padding after the last one.
    """

    extent: Dim
    window: Dim
    stride: int = 1
    gap: int = 1
    step: int = 1
    low: Dim = 0
    high: Dim = 0

    @property
    def is_static(self) -> bool:
        """Whether nothing about it is symbolic."""
        return is_static((self.extent, self.window, self.low, self.high))

    @property
    def is_trivial(self) -> bool:
        """Whether the axis stays unchanged."""
        return self.window == self.stride == self.gap == 1 and self.low == self.high == 0

    @property
    def is_short(self) -> bool:
        """Whether a window has at most SHORT elements."""
        return isinstance(self.window, int) and self.window <= SHORT

    @property
    def padded(self) -> Dim:
        """Number of positions."""
        dilated = not_negative(total(multiple(difference(self.extent, 1), self.gap), 1))
        return total(self.low, dilated, self.high)

    @property
    def span(self) -> Dim:
        """Positions from the first element of a window to its last, both counted."""
        return total(multiple(difference(self.window, 1), self.step), 1)

    @property
    def room(self) -> Dim:
        """Number of positions at which a window can begin; below 1 where none fits."""
        return total(difference(self.padded, self.span), 1)

    @property
    def count(self) -> Dim:
        """Number of windows."""
        if self.is_trivial:
            return self.extent
        count = canonical((self.room - 1) // self.stride + 1)
        return max(count, 0) if isinstance(count, int) else count

    @property
    def reach(self) -> Dim:
        """Positions from where the first window begins to where the last one does, both counted."""
        return total(multiple(difference(self.count, 1), self.stride), 1)

    @property
    def scan_reverse(self) -> bool | None:
        """Of cumulative windows, whether window i holds every element from element i on, not up to
        it; None of others."""
        if self.stride != 1 or self.gap != 1 or self.step != 1:
            return None
        before = difference(self.window, 1)
        edges = canonical(self.low), canonical(self.high)
        if edges not in ((before, 0), (0, before)) or not at_most(self.extent, self.window):
            return None
        return edges[0] == 0

    @property
    def is_full(self) -> bool:
        """Whether every position provably holds an element."""
        return self.gap == 1 and at_most(self.low, 0) and at_most(self.high, 0)

    @property
    def is_narrow(self) -> bool:
        """Whether both edges are provably narrower than a window."""
        return all(at_most(total(edge, 1), self.window) for edge in (self.low, self.high))

    @property
    def always_holds(self) -> bool:
        """Whether every window provably holds an element."""
        if self.is_static:
            return bool(self.held.all())
        if self.is_full:
            return True
        # The first window ends after the low edge, the last one begins before the high edge.
        is_cut = not (at_most(0, self.low) and at_most(0, self.high))
        reaches_in = self.gap == self.step == 1 and self.is_narrow
        return reaches_in and not is_cut and is_positive(self.extent)

    @property
    def never_holds(self) -> bool:
        """Whether no position holds an element, as far as that is known: padding has cut all."""
        return self.is_static and not self.elements.any()

    # -- static axes -------------------------------------------------------------------------

    @cached_property
    def elements(self) -> np.ndarray:
        """Which positions hold an element."""
        extent, low, padded = fixed((self.extent, self.low, self.padded))
        held = np.zeros(max(padded, 0), bool)
        inside = np.arange(extent) * self.gap + low
        held[inside[(inside >= 0) & (inside < padded)]] = True
        return held

    def reads(self, index: int) -> np.ndarray:
        """Which windows find an element, not a hole, at this index of theirs."""
        (reach,), start = fixed([self.reach]), index * self.step
        return self.elements[start : start + reach : self.stride]

    @cached_property
    def held(self) -> np.ndarray:
        """How many elements each window holds: differences of sums over every step-th position."""
        window, count = fixed((self.window, self.count))
        rows = -(-self.elements.size // self.step)
        table = np.zeros((rows + 1, self.step), np.int64)
        table[1:].reshape(-1)[: self.elements.size] = self.elements
        sums = table.cumsum(0).reshape(-1)
        starts = np.arange(count) * self.stride
        held: np.ndarray = sums[starts + window * self.step] - sums[starts]
        return held


def window_axes(
    dims: Sequence[Dim],
    sizes: Sequence[Dim] | None,
    strides: Sequence[int] | None,
    padding: np.ndarray | Sequence[Sequence[Dim]] | None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
) -> list[WindowAxis]:
    """The windows of an op along each axis of an operand of extents `dims`.

    Args:
        padding: Of shape (axes, 2). As the others, it may be left out.
    """
    ones = [1] * len(dims)
    edges = np.zeros((len(dims), 2), np.int64) if padding is None else padding
    rows = edges.tolist() if isinstance(edges, np.ndarray) else edges
    columns = (sizes, strides, base_dilations, window_dilations)
    return [
        WindowAxis(extent, *row, *edge)  # type: ignore[misc]
        for extent, edge, *row in zip(dims, rows, *(c or ones for c in columns), strict=True)
    ]


def lay_out(
    em: Emitter, x: oir.Value, axes: Mapping[int, WindowAxis], fill: oir.Value
) -> oir.Value:
    """x with base dilation and padding on these axes: what each position holds, `fill` in holes.

    Raises:
        UnsupportedOp: There are gaps, and symbolic padding.
    """
    rank = rank_of(x)
    low: list[Dim] = [0] * rank
    high: list[Dim] = [0] * rank
    gaps = [0] * rank
    for number, axis in axes.items():
        if axis.gap > 1 and not is_static((axis.low, axis.high)):
            raise UnsupportedOp(
                "the padding around a dilated axis is symbolic", "use constant padding"
            )
        low[number], high[number], gaps[number] = axis.low, axis.high, axis.gap - 1
    return pad(em, x, fill, low, high, gaps)


Mask = np.ndarray | oir.Value
"""Which windows satisfy something: an array where that is known, which broadcasts to them."""


def is_everywhere(mask: Mask) -> bool:
    """Whether the mask is known to be true everywhere."""
    return isinstance(mask, np.ndarray) and bool(mask.all())


Place = Sequence[int] | oir.Value
"""A place in a window, known or computed in a Loop, of shape (axes)."""
FoldStep = Callable[[list[Parts], list[Parts], Place, Mask, Mask], list[Parts]]
"""The next states, from the states, an element of every window and its place, which windows find an
element there, not a hole, and which have found one before."""

LONGEST_UNROLLED = 64
"""Elements of the largest window without a Loop: a limit on the number of nodes, no cost."""


class Windows:
    """Reads elements of all windows of an op at once.

    A place counts elements of a window along each axis that is not trivial.

    Args:
        axes: Every axis of the operand. Static ones have a position that holds an element.

    Attributes:
        axes: By number, those that are not trivial.
        counts: Number of windows along every axis.
    """

    def __init__(self, em: Emitter, axes: Sequence[WindowAxis]) -> None:
        self._em = em
        self.axes = {number: axis for number, axis in enumerate(axes) if not axis.is_trivial}
        self.counts = [axis.count for axis in axes]

    @property
    def sizes(self) -> list[Dim]:
        """Elements of a window along the axes that are not trivial."""
        return [axis.window for axis in self.axes.values()]

    @property
    def size(self) -> Dim:
        """Elements of a window."""
        return product(self.sizes)

    def laid_out(self, x: oir.Value) -> oir.Value:
        """The positions of all axes; holes hold zero."""
        return lay_out(self._em, x, self.axes, self._em.scalar_like(0, x))

    def element(self, x: oir.Value, place: Place) -> oir.Value:
        """The element of the laid-out x at this place of every window."""
        em, axes = self._em, self.axes.values()
        if isinstance(place, oir.Value):
            return self._element_at(x, place)
        starts = [index * axis.step for index, axis in zip(place, axes, strict=True)]
        limits = [total(start, axis.reach) for start, axis in zip(starts, axes, strict=True)]
        return em.slice(x, starts, limits, [axis.stride for axis in axes], list(self.axes))

    def inside(self, place: Place) -> Mask:
        """Which windows find an element, not a hole, at this place; of extent 1 along axes where
        all of them do."""
        if isinstance(place, oir.Value) or not self._is_static:
            valid = self.valid
            return np.array(True) if valid is None else self.element(valid, place)
        reads = [axis.reads(index) for index, axis in zip(place, self.axes.values(), strict=True)]
        return self._product([read[:1] if read.all() else read for read in reads])

    @cached_property
    def valid(self) -> oir.Value | None:
        """Which positions hold an element, with extent 1 along trivial axes; None for all."""
        em, axes = self._em, self.axes
        if self._is_static:
            mask = self._product([axis.elements for axis in axes.values()])
            return None if mask.all() else em.const(mask)
        if all(axis.is_full for axis in axes.values()):
            return None
        dims = [axes[n].extent if n in axes else 1 for n in range(len(self.counts))]
        ones = em.expand(em.scalar(1, oir.DataType.UINT8), dims)
        return em.cast(self.laid_out(ones), oir.DataType.BOOL)

    @property
    def holding(self) -> Mask | None:
        """Which windows hold an element; None if that takes a test of each of their places."""
        if self._is_static:
            return self._product([axis.held > 0 for axis in self.axes.values()])
        is_certain = all(axis.always_holds for axis in self.axes.values())
        return np.array(True) if is_certain else None

    def value_of(self, mask: Mask) -> oir.Value:
        """The mask as a value of the graph."""
        return mask if isinstance(mask, oir.Value) else self._em.const(mask)

    def negated(self, mask: Mask) -> oir.Value:
        """Where the mask is false."""
        return self._em.Not(mask) if isinstance(mask, oir.Value) else self._em.const(~mask)

    def either(self, mask: Mask, other: Mask) -> Mask:
        """Where one of two masks holds."""
        if isinstance(mask, oir.Value) or isinstance(other, oir.Value):
            return self._em.Or(self.value_of(mask), self.value_of(other))
        return mask | other

    @property
    def _is_static(self) -> bool:
        return all(axis.is_static for axis in self.axes.values())

    def _product(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """Where all masks of the axes hold, over every axis of the operand."""
        grid = np.ones([1] * len(self.counts), bool)
        for number, mask in zip(self.axes, masks, strict=True):
            column = [-1 if number == axis else 1 for axis in range(len(self.counts))]
            grid = grid & mask.reshape(column)
        return grid

    # -- every place after the other -----------------------------------------------------------

    def fold(
        self, tensors: Sequence[Parts], initial: Sequence[Parts], step: FoldStep
    ) -> tuple[list[Parts], Mask]:
        """The states after all places, in row-major order, and which windows hold an element.

        A window of many elements, or of a symbolic number, takes a trip of a Loop for each.

        Args:
            tensors: Laid out here, with zero in holes.
            initial: The first states, scalars or one element for each window.
        """
        em, held = self._em, each(self.laid_out, tensors)
        states = list(initial)
        started: Mask = np.array(False)
        if isinstance(self.size, int) and self.size <= LONGEST_UNROLLED:
            for place in np.ndindex(*fixed(self.sizes)):
                inside = self.inside(place)
                if isinstance(inside, oir.Value) or inside.any():
                    elements = each(partial(self.element, place=place), held)
                    states = step(states, elements, place, inside, started)
                    started = self.either(started, inside)
            return states, started

        def trip(number: oir.Value, given: list[Parts]) -> list[Parts]:
            (*states, (started,)), place = given, self._place_of(number)
            inside = self.inside(place)
            elements = each(partial(self.element, place=place), held)
            after = em.expand(self.value_of(self.either(started, inside)), self.counts)
            return [*step(states, elements, place, inside, started), (after,)]

        _ = self.valid  # outside of the Loop
        first = [*initial, (self.value_of(started),)]
        first = each(lambda x: em.expand(x, self.counts), first)
        *states, (started,) = repeat(em, "windows", self.size, first, trip)
        return states, started

    def offset(self, place: Place, strides: Sequence[Dim]) -> oir.Value:
        """The sum of the place's indices, each times the stride of its axis, as i64."""
        em, along = self._em, [strides[number] for number in self.axes]
        if isinstance(place, oir.Value):
            return em.ReduceSum(em.Mul(place, em.extents.vector(along)), keepdims=0)
        return em.extents.scalar(total(*map(multiple, place, along)))

    def _place_of(self, trip: oir.Value) -> oir.Value:
        """The place that a Loop over all places is at, of shape (axes)."""
        em, sizes = self._em, self.sizes
        if len(sizes) == 1:
            return em.reshape(trip, [1])
        inner = [product(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return em.Mod(em.Div(trip, em.extents.vector(inner)), em.extents.vector(sizes))

    def _element_at(self, x: oir.Value, place: oir.Value) -> oir.Value:
        """`element` at a place that is computed."""
        em, axes = self._em, self.axes.values()
        steps = [axis.step for axis in axes]
        start = em.Mul(place, em.i64(steps)) if set(steps) != {1} else place
        limit = em.Add(start, em.extents.vector([axis.reach for axis in axes]))
        dims = [self.counts[n] if n in self.axes else dim for n, dim in enumerate(shape_of(x))]
        numbers, strides = em.i64(list(self.axes)), em.i64([axis.stride for axis in axes])
        types = [(dtype_of(x), tuple(dims))]
        return em.op("Slice", x, start, limit, numbers, strides, types=types)

"""Windows along axes whose extent, window or padding is symbolic.

Named combiners go one axis after the other: cumulative windows are a scan, whose steps double at
run time; short windows are slices of the laid-out operand; any other window is a Loop over its
elements. Regions without a name are cumulative along one axis, or have a small static window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.padding import pad
from dialect_handlers.common.reductions import combine, has_reducer, reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.stablehlo.reduce_window.cumulative import (
    CUMSUM_TYPES,
    Combine,
    cumulative_sum_of_any_length,
    doubling_loop,
)
from dialect_handlers.stablehlo.reduce_window.fold import LONGEST_UNROLLED
from dialect_handlers.stablehlo.reduce_window.geometry import Prefix
from dialect_handlers.stablehlo.reduce_window.separable import LONGEST_ONE_BY_ONE, Region
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import at_most, canonical, difference, is_static, multiple, total
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

_BOOL, _INT64 = oir.DataType.BOOL, oir.DataType.INT64


@dataclass(frozen=True)
class Window:
    """The windows along one axis; see `geometry.Axis` for the attributes."""

    extent: Dim
    window: Dim
    stride: int
    gap: int
    step: int
    low: Dim
    high: Dim

    @property
    def is_trivial(self) -> bool:
        """Whether the axis goes through as it is."""
        return self.window == self.stride == self.gap == 1 and self.low == self.high == 0

    @property
    def is_static(self) -> bool:
        """Whether nothing about it is symbolic."""
        return is_static((self.extent, self.window, self.low, self.high))

    @property
    def padded(self) -> Dim:
        """Number of positions."""
        spread = multiple(difference(self.extent, 1), self.gap)
        return total(self.low, spread, 1, self.high)

    @property
    def span(self) -> Dim:
        """Positions from the first element of a window to its last, both counted."""
        return total(multiple(difference(self.window, 1), self.step), 1)

    @property
    def count(self) -> Dim:
        """Number of windows."""
        count = _of((self.padded - self.span) // self.stride + 1)  # type: ignore[operator]
        return max(count, 0) if isinstance(count, int) else count

    @property
    def reach(self) -> Dim:
        """Positions from where the first window begins to where the last one does, both counted."""
        return total(multiple(difference(self.count, 1), self.stride), 1)

    @property
    def prefix(self) -> Prefix | None:
        """How the windows are cumulative; None if they are not."""
        if self.stride != 1 or self.gap != 1 or self.step != 1:
            return None
        if not at_most(self.extent, self.window):
            return None
        before, whole = _of(self.window - 1), self.window
        forms: list[tuple[tuple[Dim, Dim], Prefix]] = [
            ((before, 0), Prefix(reverse=False, exclusive=False)),
            ((0, before), Prefix(reverse=True, exclusive=False)),
            ((whole, -1), Prefix(reverse=False, exclusive=True)),
            ((-1, whole), Prefix(reverse=True, exclusive=True)),
        ]
        edges = (_of(self.low), _of(self.high))
        return next((prefix for form, prefix in forms if form == edges), None)


def _of(dim: Any) -> Dim:
    return canonical(dim)


def laid_out(
    em: Emitter, tensors: Sequence[Parts], fills: Sequence[Parts], windows: Mapping[int, Window]
) -> list[Parts]:
    """The positions of these axes: gaps and padding hold the fill.

    Raises:
        UnsupportedOp: There are gaps, and symbolic padding.
    """
    rank = len(shape_of(tensors[0][0]))
    low, high, gaps = [0] * rank, [0] * rank, [0] * rank
    for number, window in windows.items():
        if window.gap > 1 and not is_static((window.low, window.high)):
            raise UnsupportedOp("the padding around a dilated axis is symbolic")
        low[number], high[number] = window.low, window.high  # type: ignore[assignment]
        gaps[number] = window.gap - 1
    return [
        tuple(pad(em, part, fill, low, high, gaps) for part, fill in zip(parts, own, strict=True))
        for parts, own in zip(tensors, fills, strict=True)
    ]


# -- named combiners ---------------------------------------------------------------------------


def along_axis(
    region: Region, tensors: Sequence[Parts], number: int, window: Window
) -> list[Parts]:
    """The combined windows along axis `number`."""
    prefix = window.prefix
    if prefix is not None:
        scanned = _scan(region, tensors, number, prefix)
        if scanned is not None:
            return scanned
    held = laid_out(region.em, tensors, region.holes, {number: window})
    if window.count == 1 and window.step == 1 and _have_reducers(region, tensors):
        em = region.em
        alone = region.each(lambda x, _: em.slice(x, [0], [window.window], axes=[number]), held)
        return region.each(
            lambda x, combiner: reduce_axes(em, combiner, x, [number], keepdims=True), alone
        )
    if isinstance(window.window, int) and window.window <= LONGEST_ONE_BY_ONE:
        result = _shifted(region, held, number, window, 0)
        for index in range(1, window.window):
            result = region(result, _shifted(region, held, number, window, index))
        return result
    return _looped(region, held, number, window)


def _have_reducers(region: Region, tensors: Sequence[Parts]) -> bool:
    pairs = zip(region.combiners, tensors, strict=True)
    return all(has_reducer(combiner, dtype_of(parts[0])) for combiner, parts in pairs)


def _scan(
    region: Region, tensors: Sequence[Parts], number: int, prefix: Prefix
) -> list[Parts] | None:
    types = {dtype_of(part) for parts in tensors for part in parts}
    em = region.em
    if set(region.combiners) == {Combiner.ADD} and types <= CUMSUM_TYPES:
        return region.each(
            lambda x, _: cumulative_sum_of_any_length(em, x, number, prefix), tensors
        )
    if prefix.exclusive:
        return None
    return doubling_loop(em, region, tensors, number, reverse=prefix.reverse)


def _shifted(
    region: Region, held: Sequence[Parts], number: int, window: Window, index: int
) -> list[Parts]:
    """Element `index` of each window."""
    start = index * window.step
    limit = _of(start + window.reach)
    return region.each(
        lambda x, _: region.em.slice(x, [start], [limit], [window.stride], [number]), held
    )


def _looped(region: Region, held: Sequence[Parts], number: int, window: Window) -> list[Parts]:
    """A Loop that combines one element of every window after the other."""
    em = region.em
    reach, count = em.extents.value(window.reach), window.count

    def filled(x: oir.Value, hole: oir.Value) -> oir.Value:
        dims = list(shape_of(x))
        dims[number] = count
        return em.expand(hole, dims)

    initial = [
        tuple(filled(part, hole) for part, hole in zip(parts, holes, strict=True))
        for parts, holes in zip(held, region.holes, strict=True)
    ]

    def step(trip: oir.Value, states: list[Parts]) -> list[Parts]:
        start = em.reshape(em.Mul(trip, em.i64(window.step)), [1])
        limit, axis, stride = em.Add(start, reach), em.i64([number]), em.i64([window.stride])
        element = region.each(
            lambda x, _: em.op(
                "Slice", x, start, limit, axis, stride, types=[(dtype_of(x), _along(x))]
            ),
            held,
        )
        return region(states, element)

    def _along(x: oir.Value) -> tuple[Dim, ...]:
        dims = list(shape_of(x))
        dims[number] = count
        return tuple(dims)

    trips = em.squeeze(em.extents.value(window.window), [0])
    return _loop(em, trips, initial, step)


def _loop(
    em: Emitter,
    trips: oir.Value,
    initial: Sequence[Parts],
    step: Callable[[oir.Value, list[Parts]], list[Parts]],
) -> list[Parts]:
    """A Loop of so many trips over tensors that keep their shapes."""
    states = [
        tuple(em.value("combined", dtype_of(part), shape_of(part)) for part in parts)
        for parts in initial
    ]
    trip, going_on = em.value("trip", _INT64, []), em.value("on", _BOOL, [])
    with em.subgraph([trip, going_on, *(x for parts in states for x in parts)], "windows") as body:
        results = step(trip, states)
        body.outputs.append(em.Identity(going_on))
        body.outputs.extend(part for parts in results for part in parts)
    flat = [part for parts in initial for part in parts]
    types = [(dtype_of(part), shape_of(part)) for part in flat]
    final = iter(em.node("Loop", [trips, em.const(np.array(True)), *flat], {"body": body}, types))
    return [tuple(next(final) for _ in parts) for parts in initial]


# -- regions without a name --------------------------------------------------------------------


def folded(
    em: Emitter,
    function: Combine,
    inits: Sequence[Parts],
    tensors: Sequence[Parts],
    windows: Mapping[int, Window],
) -> list[Parts]:
    """region(...region(region(init, first), second)..., last) of every window; cumulative ones are
    taken to be of an associative region.

    Raises:
        UnsupportedOp: A window is neither cumulative nor small.
    """
    if len(windows) == 1:
        ((number, window),) = windows.items()
        if window.prefix is not None and not window.prefix.exclusive:
            reverse = window.prefix.reverse
            return function(inits, doubling_loop(em, function, tensors, number, reverse=reverse))
    sizes = [item.window for item in windows.values() if isinstance(item.window, int)]
    if len(sizes) < len(windows) or math.prod(sizes) > LONGEST_UNROLLED:
        raise UnsupportedOp(
            "large windows of a region without a name move along a symbolic axis",
            "lower the function with a static extent there",
        )
    zeros = [tuple(em.scalar_like(0, part) for part in parts) for parts in tensors]
    held = laid_out(em, tensors, zeros, windows)
    mask = _mask(em, tensors[0][0], windows)
    dims = list(shape_of(tensors[0][0]))
    for number, window in windows.items():
        dims[number] = window.count
    result = [tuple(em.expand(part, dims) for part in parts) for parts in inits]
    for index in np.ndindex(*sizes):
        places = dict(zip(windows, map(int, index), strict=True))
        element = [tuple(_at(em, part, windows, places) for part in parts) for parts in held]
        new = function(result, element)
        if mask is not None:
            here = _at(em, mask, windows, places)
            new = [
                tuple(em.Where(here, *pair) for pair in zip(*parts, strict=True))
                for parts in zip(new, result, strict=True)
            ]
        result = new
    return result


def _mask(em: Emitter, x: oir.Value, windows: Mapping[int, Window]) -> oir.Value | None:
    """Which positions hold an element; None for all of them."""
    if all(item.low == item.high == 0 and item.gap == 1 for item in windows.values()):
        return None
    dims = [dim if axis in windows else 1 for axis, dim in enumerate(shape_of(x))]
    ones = em.expand(em.scalar(1, oir.DataType.UINT8), dims)
    ((held,),) = laid_out(em, [(ones,)], [(em.scalar(0, oir.DataType.UINT8),)], windows)
    return em.cast(held, _BOOL)


def _at(
    em: Emitter, x: oir.Value, windows: Mapping[int, Window], places: Mapping[int, int]
) -> oir.Value:
    """The element at these places of every window."""
    starts = [place * windows[number].step for number, place in places.items()]
    limits = [
        _of(start + windows[number].reach) for start, number in zip(starts, places, strict=True)
    ]
    strides = [windows[number].stride for number in places]
    return em.slice(x, starts, limits, strides, list(places))


def region_of(em: Emitter, function: Callable[..., Any]) -> Combine:
    """A region over tuples of tensors."""
    return lambda lhs, rhs: combine(em, function, lhs, rhs)

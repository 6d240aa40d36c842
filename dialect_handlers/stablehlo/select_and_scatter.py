"""select_and_scatter: the gradient of pooling by selection."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import Function
from dialect_handlers.common.scatter_updates import region_of, scatter_in_order, scatter_rows
from dialect_handlers.common.window_selection import selected_places
from hlo2onnx.ir.dims import is_static, product
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.mlir.types import parts_of

BOOL, INT64 = oir.DataType.BOOL, oir.DataType.INT64

LONGEST_UNROLLED = 64
"""Elements of the largest window that is not a Loop's."""
CONSTANT_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Windows:
    """The windows over an operand, one for each element of the source.

    Attributes:
        dims: Extents of the operand.
        counts: Windows along each axis.
        sizes: Extents of a window.
        steps: Elements from one window to the next.
        edges: Padding before and behind each axis; what it holds is never selected.
    """

    dims: Sequence[int]
    counts: Sequence[int]
    sizes: Sequence[int]
    steps: Sequence[int]
    edges: Sequence[tuple[int, int]]

    @property
    def overlap(self) -> bool:
        """Whether two windows can select the same element."""
        axes = zip(self.counts, self.sizes, self.steps, strict=True)
        return any(count > 1 and size > step for count, size, step in axes)

    @property
    def strides(self) -> list[int]:
        """Elements from one index to the next along each axis of the operand."""
        return [math.prod(self.dims[axis + 1 :]) for axis in range(len(self.dims))]

    @property
    def reaches(self) -> list[int]:
        """Positions from the first window's start to the last one's, both counted."""
        axes = zip(self.counts, self.steps, strict=True)
        return [(count - 1) * step + 1 for count, step in axes]

    def inside(self, place: Sequence[int]) -> np.ndarray:
        """Which windows hold an element of the operand, not padding, at this place of theirs; of
        extent 1 along axes where all do."""
        masks = []
        for axis, index in enumerate(place):
            at = np.arange(self.counts[axis]) * self.steps[axis] + index - self.edges[axis][0]
            mask = (at >= 0) & (at < self.dims[axis])
            masks.append(mask[:1] if mask.all() else mask)
        grid: np.ndarray = np.logical_and.reduce(np.meshgrid(*masks, indexing="ij"))
        return grid

    def first(self) -> list[np.ndarray]:
        """What each axis adds to the linear index of a window's first position."""
        grids = []
        for axis, stride in enumerate(self.strides):
            at = np.arange(self.counts[axis], dtype=np.int64) * self.steps[axis]
            column = [-1 if axis == other else 1 for other in range(len(self.dims))]
            grids.append(((at - self.edges[axis][0]) * stride).reshape(column))
        return grids

    def offset(self, place: Sequence[int]) -> int:
        """From a window's first position to this place, in the linear index."""
        return sum(index * stride for index, stride in zip(place, self.strides, strict=True))


@handles("stablehlo.select_and_scatter", form="real")
@handles("stablehlo.select_and_scatter", form="complex")
def select_and_scatter(
    em: Emitter,
    op: Op,
    *,
    window_dimensions: Sequence[int] | None = None,
    window_strides: Sequence[int] | None = None,
    padding: Any = None,
) -> list[Parts]:
    """select_and_scatter(x, source, init) -> init everywhere, and each element of the source
    combined into the place of the element of x that its window selects."""
    x, source, init = (em.parts(operand) for operand in op.operands)
    dims, counts = shape_of(x[0]), shape_of(source[0])
    ones = [1] * len(dims)
    edges = [(0, 0)] * len(dims) if padding is None else np.asarray(padding).tolist()
    geometry = (window_dimensions or ones, window_strides or ones, edges)
    source, init = (
        tuple(em.cast(part, kind.dtype) for part, kind in zip(parts, kinds, strict=True))
        for parts, kinds in zip((source, init), map(_types, op.block(1).arguments), strict=True)
    )
    if 0 in (*dims, *counts):
        return [tuple(em.expand(part, dims) for part in init)]
    function = em.scalar_function(op.block(0))
    valid: oir.Value | None
    if is_static((*dims, *counts)):
        windows = Windows(dims, counts, *geometry)  # type: ignore[arg-type]
        places, held = Selector(em, function, windows)(x)
        valid, overlap = None if held is None else em.const(held.reshape(-1)), windows.overlap
    else:
        places, valid = selected_places(em, function, x, counts, *geometry)
        overlap = any(size > step for size, step in zip(*geometry[:2], strict=True))
    total, many = product(dims), product(counts)
    targets = [tuple(em.expand(part, [total]) for part in init)]
    region = region_of(em, op.block(1))
    index = em.reshape(places, [many])
    updates = [tuple(em.reshape(part, [many]) for part in source)]
    if valid is not None:
        valid = em.reshape(valid, [many])
    if overlap:
        results = scatter_in_order(em, region, targets, index, updates, valid, many)
    else:
        rows = em.unsqueeze(index, [1])
        results = scatter_rows(em, region, targets, rows, updates, valid)
    return [tuple(em.reshape(part, dims) for part in parts) for parts in results]


def _types(argument: Any) -> Any:
    return parts_of(argument.type)


class Selector:
    """Finds what each window selects, in row-major order: a selected element stays while the
    function holds for it and the next one."""

    def __init__(self, em: Emitter, function: Function, windows: Windows) -> None:
        self.em = em
        self.function = function
        self.windows = windows

    def __call__(self, x: Parts) -> tuple[oir.Value, np.ndarray | None]:
        """The linear index into x for each window, and which windows hold any element of x; None
        for all of them."""
        w = self.windows
        held = np.zeros([1] * len(w.dims), bool)
        for place in np.ndindex(*w.sizes):
            held = held | w.inside(place)
            if held.all():
                break
        padded = tuple(self._padded(part) for part in x)
        size = math.prod(w.sizes)
        offset = self._unrolled(padded) if size <= LONGEST_UNROLLED else self._looped(padded)
        index = offset
        for first in self._firsts():
            index = self.em.Add(index, self.em.const(first))
        index = self.em.expand(index, w.counts)
        if held.all():
            return index, None
        full = np.ascontiguousarray(np.broadcast_to(held, w.counts))
        return self.em.Where(self.em.const(full), index, self.em.i64(0)), full

    def _firsts(self) -> Iterator[np.ndarray]:
        firsts = self.windows.first()
        if math.prod(self.windows.counts) <= CONSTANT_ELEMENTS:
            firsts = [sum(firsts[1:], start=firsts[0])] if firsts else []
        return (first for first in firsts if first.any())

    def _padded(self, x: oir.Value) -> oir.Value:
        w = self.windows
        starts = [max(-low, 0) for low, _ in w.edges]
        limits = [dim + min(high, 0) for dim, (_, high) in zip(w.dims, w.edges, strict=True)]
        x = self.em.slice(x, starts, limits)
        pads = [max(low, 0) for low, _ in w.edges] + [max(high, 0) for _, high in w.edges]
        return self.em.Pad(x, self.em.i64(pads), self.em.scalar_like(0, x)) if any(pads) else x

    def _unrolled(self, padded: Parts) -> oir.Value:
        em, w = self.em, self.windows
        selected: Parts | None = None
        offset = em.const(np.zeros([1] * len(w.dims), np.int64))
        started = np.zeros([1] * len(w.dims), bool)
        for place in np.ndindex(*w.sizes):
            inside = w.inside(place)
            if not inside.any():
                continue
            limits = [index + reach for index, reach in zip(place, w.reaches, strict=True)]
            new = tuple(em.slice(part, list(place), limits, list(w.steps)) for part in padded)
            here = em.const(np.full([1] * len(w.dims), w.offset(place), np.int64))
            if selected is None:
                selected, offset = new, here
            else:
                take = em.Not(*self.function(selected, new))
                if not started.all():
                    take = em.Or(take, em.const(~started))
                if not inside.all():
                    take = em.And(take, em.const(inside))
                selected = tuple(em.Where(take, *pair) for pair in zip(new, selected, strict=True))
                offset = em.Where(take, here, offset)
            started = started | inside
        return offset

    def _looped(self, padded: Parts) -> oir.Value:
        """The same with one trip of a Loop for each place of a window."""
        em, w = self.em, self.windows
        counts = list(w.counts)
        positions = self._positions()
        initial = [
            *(em.expand(em.scalar_like(0, part), counts) for part in padded),
            em.expand(em.i64(0), counts),
            em.expand(em.const(np.array(False)), counts),
        ]
        states = [em.value("selected", dtype_of(part), shape_of(part)) for part in initial]
        trip, going_on = em.value("trip", INT64, []), em.value("on", BOOL, [])
        with em.subgraph([trip, going_on, *states], "places") as body:
            *selected, offset, started = states
            inner = em.i64([math.prod(w.sizes[axis + 1 :]) for axis in range(len(w.sizes))])
            place = em.Mod(em.Div(trip, inner), em.i64(list(w.sizes)))
            new = tuple(self._from(part, place) for part in padded)
            inside = self._from(em.const(positions), place)
            keep = em.And(started, *self.function(tuple(selected), new))
            take = em.And(inside, em.Not(keep))
            here = em.ReduceSum(em.Mul(place, em.i64(w.strides)), keepdims=0)
            body.outputs.extend(
                [
                    em.Identity(going_on),
                    *(em.Where(take, *pair) for pair in zip(new, selected, strict=True)),
                    em.Where(take, here, offset),
                    em.Or(started, inside),
                ]
            )
        types = [(dtype_of(part), shape_of(part)) for part in initial]
        outputs = em.outputs(
            "Loop", em.i64(math.prod(w.sizes)), em.const(np.array(True)), *initial,
            body=body, types=types, n_outputs=len(types),
        )  # fmt: skip
        found: oir.Value = outputs[len(padded)]
        return found

    def _positions(self) -> np.ndarray:
        """Which positions of the padded operand hold an element."""
        inside = np.ones(self.windows.dims, bool)
        edges = self.windows.edges
        crop = tuple(
            slice(max(-low, 0), dim + min(high, 0))
            for dim, (low, high) in zip(self.windows.dims, edges, strict=True)
        )
        return np.pad(inside[crop], [(max(low, 0), max(high, 0)) for low, high in edges])

    def _from(self, x: oir.Value, place: oir.Value) -> oir.Value:
        """What is at this place of every window."""
        em, w = self.em, self.windows
        limits = em.Add(place, em.i64(w.reaches))
        axes, steps = em.i64(list(range(len(w.dims)))), em.i64(list(w.steps))
        types = [(dtype_of(x), tuple(w.counts))]
        return em.op("Slice", x, place, limits, axes, steps, types=types)

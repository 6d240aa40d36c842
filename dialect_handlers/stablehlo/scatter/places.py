"""Where the windows of a scatter start, and where in the operand each update goes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.stablehlo.scatter.numbers import Axis, Batch, Numbers, Window
from hlo2onnx.analysis.ranges import Range, range_of_type
from hlo2onnx.graph.values import rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter

INT64 = oir.DataType.INT64

CONSTANT_ELEMENTS = 1 << 16
"""Offsets of more elements are counted along each axis; the runtime adds the counts up."""


class Places:
    """The windows' starts, of which those outside the operand are told apart and clamped.

    Args:
        indices: The scatter indices as the program has them.
        vector: The axis of `indices` that holds the index vector; its rank where it holds one
            index, not a vector.

    Attributes:
        axes: Operand axes along which windows start anywhere, in the order of the index vector.
        constant: The starts, of shape (*batch, axes), where they are known.
    """

    def __init__(self, em: Emitter, n: Numbers, indices: oir.Value, vector: int) -> None:
        self._em = em
        self._n = n
        self.axes = sorted(n.columns, key=lambda axis: n.columns[axis])
        self._limits = [n.dims[axis] - n.sizes[axis] for axis in self.axes]
        known = em.facts.elements(indices)
        if known is not None:
            columns = np.moveaxis(known, vector, -1) if vector < known.ndim else known[..., None]
            self.constant: np.ndarray | None = columns.astype(np.int64)
        else:
            self.constant = None
        self._indices = indices
        self._vector = vector

    @cached_property
    def _range(self) -> Range:
        return self._em.facts.int_range(self.starts) or range_of_type(INT64)

    @cached_property
    def starts(self) -> oir.Value:
        """The starts as i64, of shape (*batch, axes). What no i64 holds wraps to below 0, which is
        as far outside as it was."""
        em, shape = self._em, [*self._n.batch, len(self.axes)]
        if self.constant is not None:
            return em.const(self.constant)
        moved = em.cast(self._indices, INT64)
        if self._vector < rank_of(moved):
            order = [axis for axis in range(rank_of(moved)) if axis != self._vector]
            moved = em.transpose(moved, [*order, self._vector])
        return em.reshape(moved, shape)

    @cached_property
    def clamped(self) -> oir.Value:
        """The starts clamped to where a window lies inside."""
        em = self._em
        if self.constant is not None:
            return em.const(np.clip(self.constant, 0, np.array(self._limits, np.int64)))
        starts = self.starts
        if self._range.low < 0:
            starts = em.Max(starts, em.i64(0))
        if any(self._range.high > limit for limit in self._limits):
            starts = em.Min(starts, em.i64(self._limits))
        return starts

    @cached_property
    def rows(self) -> oir.Value:
        """The clamped starts with their columns in the order of the operand's axes."""
        order = [self.axes.index(axis) for axis in sorted(self.axes)]
        if order == sorted(order):
            return self.clamped
        picked: oir.Value = self._em.Gather(
            self.clamped, self._em.i64(order), axis=len(self._n.batch)
        )
        return picked

    @cached_property
    def valid(self) -> oir.Value | None:
        """Which windows lie inside the operand, of shape (*batch); None for all of them."""
        em = self._em
        if not self.axes:
            return None
        if self.constant is not None:
            limits = np.array(self._limits, np.int64)
            inside = ((self.constant >= 0) & (self.constant <= limits)).all(-1)
            return None if inside.all() else em.const(inside)
        if all(self._range.within(0, limit) for limit in self._limits):
            return None
        equal = em.Equal(self.clamped, self.starts)
        if len(self.axes) == 1:
            return em.reshape(equal, self._n.batch)
        return reduce_axes(em, Combiner.AND, equal, [len(self._n.batch)])

    def are_distinct(self) -> bool:
        """Whether no two windows provably share an element."""
        if self._n.is_alone:
            return True
        if self._n.overlaps_shifted or not self._n.partial or self._n.batching:
            return self._known_distinct()
        # Windows of extent 1 along every partial axis: it takes two equal starts for them to meet.
        return self._em.facts.distinct_rows(self.starts)

    def _known_distinct(self) -> bool:
        """Whether the places are known, and no two are equal."""
        n = self._n
        if self.constant is None or math.prod(n.extents(n.updates)) > CONSTANT_ELEMENTS:
            return False
        grid = self._arranged_constant(n.updates, 1) + functools.reduce(
            np.add, self._offsets(n.updates, 1)
        )
        return bool(np.unique(grid).size == grid.size)

    def index(
        self, layout: Sequence[Axis], depth: int, first: oir.Value | None = None
    ) -> oir.Value:
        """The linear index, over the operand's first `depth` axes, that each element goes to.

        Args:
            layout: The axes of the result: all that the place depends on, in any order.
            first: What `first` gives for this layout, or some of its rows.
        """
        em, n = self._em, self._n
        rest = math.prod(n.dims[depth:])
        extents = n.extents(layout)
        offsets = self._offsets(layout, rest)
        if math.prod(extents) <= CONSTANT_ELEMENTS:
            offsets = [functools.reduce(np.add, offsets)]
            if self.constant is not None:
                grid = self._arranged_constant(layout, rest) + offsets[0]
                return em.const(np.ascontiguousarray(np.broadcast_to(grid, extents)))
        if first is None:
            first = self.first(layout, depth)
        else:
            extents[0] = int(shape_of(first)[0])  # type: ignore[arg-type]
        for offset in offsets:
            if offset.any():
                first = em.Add(first, em.const(offset))
        return em.expand(first, extents)

    def reach(self, layout: Sequence[Axis], depth: int) -> int:
        """What is added to the linear index of a window's first element at most."""
        offsets = self._offsets(layout, math.prod(self._n.dims[depth:]))
        return sum(int(offset.max()) for offset in offsets)

    def spread(self, value: oir.Value, layout: Sequence[Axis]) -> oir.Value:
        """A value of shape (*batch) with the batch's axes where `layout` has them, 1 elsewhere."""
        order = [axis.axis for axis in layout if isinstance(axis, Batch)]
        dims = [self._n.batch[a.axis] if isinstance(a, Batch) else 1 for a in layout]
        return self._em.reshape(self._em.transpose(value, order), dims)

    def first(self, layout: Sequence[Axis], depth: int) -> oir.Value:
        """The linear index of each window's first element, batching axes apart, with the batch's
        axes where `layout` has them, 1 elsewhere."""
        em, n = self._em, self._n
        rest = math.prod(n.dims[depth:])
        if self.constant is not None:
            return em.const(self._arranged_constant(layout, rest))
        columns = [column for column, axis in enumerate(self.axes) if axis in n.partial]
        if not columns:
            return em.const(np.zeros([1] * len(layout), np.int64))
        picked = self.clamped
        if len(columns) < len(self.axes):
            picked = em.Gather(picked, em.i64(columns), axis=len(n.batch))
        strides = [n.strides[self.axes[column]] // rest for column in columns]
        if set(strides) != {1}:
            picked = em.Mul(picked, em.i64(strides))
        if len(columns) == 1:
            return self.spread(em.reshape(picked, n.batch), layout)
        return self.spread(em.ReduceSum(picked, em.i64([-1]), keepdims=0), layout)

    def _arranged_constant(self, layout: Sequence[Axis], rest: int) -> np.ndarray:
        n = self._n
        assert self.constant is not None
        strides = [n.strides[axis] // rest for axis in self.axes]
        clipped = np.clip(self.constant, 0, np.array(self._limits, np.int64))
        linear = (clipped * np.array(strides, np.int64)).sum(-1)
        order = [axis.axis for axis in layout if isinstance(axis, Batch)]
        dims = [n.batch[a.axis] if isinstance(a, Batch) else 1 for a in layout]
        arranged: np.ndarray = linear.transpose(order).reshape(dims)
        return arranged

    def _offsets(self, layout: Sequence[Axis], rest: int) -> list[np.ndarray]:
        """What each axis of the layout adds to the linear index."""
        n = self._n
        along = {run: axis for axis, run in n.batching.items()}
        offsets = [np.zeros([1] * len(layout), np.int64)]
        for place, axis in enumerate(layout):
            source = axis.axis if isinstance(axis, Window) else along.get(axis.axis)
            if source is not None:
                column = [-1 if place == other else 1 for other in range(len(layout))]
                count = np.arange(n.extent(axis), dtype=np.int64)
                offsets.append((count * (n.strides[source] // rest)).reshape(column))
        return offsets

"""Where the windows of a scatter start, and where in the operand each update goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
import onnx_ir as oir
import sympy

from dialect_handlers.common.dimension_numbers import Axis, Batch, ScatterDimensions
from dialect_handlers.common.reductions import reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.tensors import CONSTANT_ELEMENTS, plus, progression
from hlo2onnx.ir.dims import (
    at_most,
    difference,
    dim_of,
    fixed,
    product,
    quotient,
    total,
)
from hlo2onnx.ir.ranges import Range, range_of_type
from hlo2onnx.ir.values import Dim, dtype_of, rank_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import contents_of

INT32, INT64 = oir.DataType.INT32, oir.DataType.INT64


class Places:
    """The starts of the windows: as given, clamped, and which of them lie inside the operand.

    Args:
        indices: The scatter indices as the program has them.
        vector: The axis of `indices` that holds the index vector; its rank where it holds one
            index, not a vector.

    Attributes:
        axes: Operand axes along which windows start anywhere, in the order of the index vector.
        indices: The scatter indices as the program has them.
        constant: The starts, of shape (*batch, axes), where they are known.
        is_narrow: Whether indices are computed in i32.
    """

    def __init__(self, em: Emitter, n: ScatterDimensions, indices: oir.Value, vector: int) -> None:
        self._em = em
        self._n = n
        self.axes = sorted(n.columns, key=lambda axis: n.columns[axis])
        self._limits = [difference(n.dims[axis], n.sizes[axis]) for axis in self.axes]
        known = em.facts.elements(indices) if n.is_static else None
        if known is not None:
            columns = np.moveaxis(known, vector, -1) if vector < known.ndim else known[..., None]
            self.constant: np.ndarray | None = columns.astype(np.int64)
        else:
            self.constant = None
        self.indices = indices
        self._vector = vector
        self.is_narrow = self._fits_i32()
        self._dtype = INT32 if self.is_narrow else INT64

    def _fits_i32(self) -> bool:
        """Whether the arithmetic of indices is faster in i32, which holds them all."""
        n, dtype = self._n, dtype_of(self.indices)
        if self.constant is not None or not n.is_static:
            return False
        if math.prod(fixed(n.batch)) < self._em.costs.many_elements:
            return False
        given, most = range_of_type(dtype), range_of_type(INT32)
        held = most.low <= given.low and given.high <= most.high
        return held and 2 * math.prod(fixed(n.dims)) <= most.high

    @cached_property
    def _limit_array(self) -> np.ndarray:
        """The last start along each axis where a window lies inside, all extents being static."""
        return np.array(self._limits, np.int64)

    @cached_property
    def _contents(self) -> list[Dim] | None:
        """The starts of a single window, by axis, where they follow from shapes."""
        contents = contents_of(self.indices)
        if contents is None or contents.size != len(self.axes):
            return None
        return [dim_of(sympy.sympify(item)) for item in contents.reshape(-1)]

    @cached_property
    def are_inside(self) -> bool:
        """Whether all windows provably lie inside."""
        if self._contents is not None:
            pairs = zip(self._contents, self._limits, strict=True)
            return all(at_most(0, start) and at_most(start, limit) for start, limit in pairs)
        low, high = self._range.low, self._range.high
        return low >= 0 and all(at_most(high, limit) for limit in self._limits)

    @property
    def may_miss(self) -> bool:
        """Whether windows with starts that are not known may lie outside the operand."""
        return bool(self.axes) and self.constant is None and not self.are_inside

    @property
    def columns(self) -> dict[int, oir.Value]:
        """The starts of the windows along each axis, as i32 or i64, if the operand's batches have
        one window each. They have the operand's batching axes, and extent 1 along the others; that
        of a single window has the shape (1,)."""
        em, n, starts = self._em, self._n, self.indices
        if dtype_of(starts) != oir.DataType.INT32:
            starts = em.cast(starts, INT64)
        if not n.batching:
            starts = em.reshape(starts, [len(self.axes)])
            return {axis: em.slice(starts, [k], [k + 1]) for k, axis in enumerate(self.axes)}
        found = {}
        for k, axis in enumerate(self.axes):
            column = starts
            if self._vector < rank_of(starts):
                column = em.slice(starts, [k], [k + 1], axes=[self._vector])
            if n.batch_order != sorted(n.batch_order):
                column = em.transpose(em.reshape(column, n.batch), n.batch_order)
            found[axis] = em.reshape(column, n.batch_dims)
        return found

    @cached_property
    def _range(self) -> Range:
        return self._em.facts.int_range(self.starts) or range_of_type(INT64)

    @cached_property
    def starts(self) -> oir.Value:
        """The starts as i32 or i64, of shape (*batch, axes). Numbers above the range of i64 wrap to
        negative ones, which are outside as well."""
        em, shape = self._em, [*self._n.batch, len(self.axes)]
        if self.constant is not None:
            return em.const(self.constant)
        moved = em.cast(self.indices, self._dtype)
        if self._vector < rank_of(moved):
            order = [axis for axis in range(rank_of(moved)) if axis != self._vector]
            moved = em.transpose(moved, [*order, self._vector])
        return em.reshape(moved, shape)

    @cached_property
    def clamped(self) -> oir.Value:
        """The starts clamped to where a window lies inside."""
        em = self._em
        if self.constant is not None:
            return em.const(np.clip(self.constant, 0, self._limit_array))
        if self.are_inside:
            return self.starts
        return self._clipped(self.starts, self._range, 0, self._limits)

    def _clipped(
        self, starts: oir.Value, known: Range, low: int, limits: Sequence[Dim]
    ) -> oir.Value:
        """Starts of a known range, not below `low` and not above the limits, one or one for each
        column."""
        em = self._em
        if known.low < low:
            starts = em.Max(starts, em.scalar_like(low, starts))
        if all(at_most(known.high, limit) for limit in limits):
            return starts
        return em.Min(starts, self._numbers(limits))

    def _numbers(self, dims: Sequence[Dim]) -> oir.Value:
        """Extents as a tensor of rank 1, in the type of the starts."""
        if self._dtype == INT64:
            return self._em.extents.vector(dims)
        return self._em.const(np.array(fixed(dims), np.int32))

    @cached_property
    def beyond(self) -> oir.Value:
        """The linear index of each window, in the order of the batch, if windows have one element
        along each of `axes`, in an operand with one more element along these.

        Where a window is outside, it is an element that the operand does not have, perhaps as a
        negative index.
        """
        limits = [total(limit, 1) for limit in self._limits]
        if len(self.axes) == 1:
            return self._clipped(self.starts, self._range, -1, limits)
        terms = []
        for (starts, known), limit, axis in zip(self._columns, limits, self.axes, strict=True):
            stride = product(total(self._n.dims[other], 1) for other in self.axes if other > axis)
            terms.append(self._times(self._clipped(starts, known, -1, [limit]), stride))
        return reduce(self._em.Add, terms)

    @cached_property
    def rows(self) -> oir.Value:
        """The clamped starts with their columns in the order of the operand's axes."""
        order = [self.axes.index(axis) for axis in sorted(self.axes)]
        if order == sorted(order):
            return self.clamped
        return self._em.Gather(self.clamped, self._em.i64(order), axis=len(self._n.batch))

    @cached_property
    def valid(self) -> oir.Value | None:
        """Which windows lie inside the operand, of shape (*batch); None for all of them."""
        em = self._em
        if not self.axes:
            return None
        if self.constant is not None:
            inside = ((self.constant >= 0) & (self.constant <= self._limit_array)).all(-1)
            return None if inside.all() else em.const(inside)
        if self.are_inside:
            return None
        if self._columns:
            pairs = zip(self._columns, self._clamped_columns, strict=True)
            return reduce(em.And, [em.Equal(clamped, starts) for (starts, _), clamped in pairs])
        equal = em.Equal(self.clamped, self.starts)
        if len(self.axes) == 1:
            return em.reshape(equal, self._n.batch)
        return reduce_axes(em, Combiner.AND, equal, [len(self._n.batch)])

    @cached_property
    def _columns(self) -> list[tuple[oir.Value, Range]]:
        """The starts along each of several axes, of shape (*batch), and their ranges; empty where
        all columns together are as fast."""
        em, found = self._em, list[tuple[oir.Value, Range]]()
        if not self.is_narrow or len(self.axes) == 1:
            return found
        for column in range(len(self.axes)):
            picked = em.slice(self.indices, [column], [column + 1], axes=[self._vector])
            starts = em.cast(em.reshape(picked, self._n.batch), INT32)
            found.append((starts, em.facts.int_range(starts) or range_of_type(INT32)))
        return found

    @cached_property
    def _clamped_columns(self) -> list[oir.Value]:
        """`_columns`, clamped."""
        columns = zip(self._columns, self._limits, strict=True)
        return [self._clipped(*column, 0, [limit]) for column, limit in columns]

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
        if self.constant is None or not at_most(product(n.extents(n.windows)), CONSTANT_ELEMENTS):
            return False
        grid = self._grid(n.windows, 1)
        return bool(np.unique(grid).size == grid.size)

    def index(self, layout: Sequence[Axis], depth: int) -> oir.Value:
        """The linear index, over the operand's first `depth` axes, that each element goes to.

        Args:
            layout: The axes of the result: all that the place depends on, in any order.
        """
        em, n = self._em, self._n
        rest, extents = product(n.dims[depth:]), n.extents(layout)
        if self.constant is not None and at_most(product(extents), CONSTANT_ELEMENTS):
            return em.const(np.broadcast_to(self._grid(layout, rest), fixed(extents)).copy())
        first = self._first(layout, depth)
        return em.expand(plus(em, first, self._offsets(layout, rest)), extents)

    def spread(self, value: oir.Value, layout: Sequence[Axis]) -> oir.Value:
        """A value of shape (*batch) with the batch's axes where `layout` has them, 1 elsewhere."""
        order = [axis.axis for axis in layout if isinstance(axis, Batch)]
        dims = [self._n.batch[a.axis] if isinstance(a, Batch) else 1 for a in layout]
        return self._em.reshape(self._em.transpose(value, order), dims)

    def _first(self, layout: Sequence[Axis], depth: int) -> oir.Value:
        """The linear index of each window's first element, without batching axes, with the batch
        axes at their places in `layout` and extent 1 elsewhere."""
        em, n = self._em, self._n
        rest = product(n.dims[depth:])
        if self.constant is not None:
            return em.const(self._arranged_constant(layout, rest))
        columns = [column for column, axis in enumerate(self.axes) if axis in n.partial]
        if not columns:
            return em.const(np.zeros([1] * len(layout), np.int64))
        strides = [quotient(n.strides[self.axes[column]], rest) for column in columns]
        if len(columns) > 1 and self._columns:
            clamped = [self._clamped_columns[column] for column in columns]
            terms = map(self._times, clamped, strides)
            return self.spread(reduce(em.Add, terms), layout)
        picked = self.clamped
        if len(columns) < len(self.axes):
            picked = em.Gather(picked, em.i64(columns), axis=len(n.batch))
        if any(stride != 1 for stride in strides):
            picked = em.Mul(picked, self._numbers(strides))
        if len(columns) == 1:
            return self.spread(em.reshape(picked, n.batch), layout)
        return self.spread(em.ReduceSum(picked, em.i64([-1]), keepdims=0), layout)

    def _times(self, starts: oir.Value, stride: Dim) -> oir.Value:
        return starts if stride == 1 else self._em.Mul(starts, self._numbers([stride]))

    def _arranged_constant(self, layout: Sequence[Axis], rest: Dim) -> np.ndarray:
        n = self._n
        assert self.constant is not None
        strides = [quotient(n.strides[axis], rest) for axis in self.axes]
        clipped = np.clip(self.constant, 0, self._limit_array)
        linear = (clipped * np.array(strides, np.int64)).sum(-1)
        order = [axis.axis for axis in layout if isinstance(axis, Batch)]
        dims = [n.batch[a.axis] if isinstance(a, Batch) else 1 for a in layout]
        arranged: np.ndarray = linear.transpose(order).reshape(fixed(dims))
        return arranged

    def _grid(self, layout: Sequence[Axis], rest: Dim) -> np.ndarray:
        """The linear index of every element, of extent 1 along axes that it does not depend on."""
        offsets = [o for o in self._offsets(layout, rest) if isinstance(o, np.ndarray)]
        return sum(offsets, start=self._arranged_constant(layout, rest))

    def _offsets(self, layout: Sequence[Axis], rest: Dim) -> list[np.ndarray | oir.Value]:
        """What each axis of the layout adds to the linear index."""
        n = self._n
        extents = n.extents(layout)
        return [
            progression(self._em, extents, place, quotient(n.strides[n.runs_along(axis)], rest))
            for place, axis in enumerate(layout)
            if n.runs_along(axis) >= 0 and n.extent(axis) != 1
        ]

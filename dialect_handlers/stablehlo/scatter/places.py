"""Where the windows of a scatter start, and where in the operand each update goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
import onnx_ir as oir
import sympy

from dialect_handlers.common.dimension_numbers import Axis, Batch, ScatterDimensions
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
        return all(
            self._range(start).low >= 0 and at_most(self._range(start).high, limit)
            for start, limit in zip(self.starts, self._limits, strict=True)
        )

    @property
    def may_miss(self) -> bool:
        """Whether windows with starts that are not known may lie outside the operand."""
        return bool(self.axes) and self.constant is None and not self.are_inside

    def columns(self) -> dict[int, oir.Value]:
        """The starts of the windows along each axis, as i32 or i64, if the operand's batches have
        one window each. They have the operand's batching axes, and extent 1 along the others; that
        of a single window has the shape (1,)."""
        em, n = self._em, self._n
        starts = self._columns(INT32 if dtype_of(self.indices) == INT32 else INT64)
        dims = n.batch_dims if n.batching else [1]
        placed = [em.reshape(em.transpose(start, n.batch_order), dims) for start in starts]
        return dict(zip(self.axes, placed, strict=True))

    @cached_property
    def starts(self) -> list[oir.Value]:
        """The starts along each of `axes`, as i32 or i64, of shape (*batch). Numbers above the
        range of i64 wrap to negative ones, which are outside as well."""
        return self._columns(INT32 if self.is_narrow else INT64)

    def _columns(self, dtype: oir.DataType) -> list[oir.Value]:
        em, vector, count = self._em, self._vector, len(self.axes)
        if self.constant is not None:
            return [em.const(self.constant[..., k].copy()) for k in range(count)]
        x = em.cast(self.indices, dtype)
        picked = [em.slice(x, [k], [k + 1], axes=[vector]) for k in range(count) if count > 1]
        return [em.reshape(column, self._n.batch) for column in picked or [x] * count]

    def _range(self, start: oir.Value) -> Range:
        return self._em.facts.int_range(start) or range_of_type(dtype_of(start))

    @cached_property
    def clamped(self) -> list[oir.Value]:
        """The starts clamped to where a window lies inside."""
        if self.are_inside:
            return self.starts
        pairs = zip(self.starts, self._limits, strict=True)
        return [self._clipped(start, 0, limit) for start, limit in pairs]

    @property
    def beyond(self) -> oir.Value:
        """The starts along a single axis with -1 or the axis' extent for all outside of it: both
        are the last row of an operand with one more."""
        return self._clipped(self.starts[0], -1, total(self._limits[0], 1))

    def _clipped(self, start: oir.Value, low: int, limit: Dim) -> oir.Value:
        em, known = self._em, self._range(start)
        if known.low < low:
            start = em.Max(start, em.scalar_like(low, start))
        return start if at_most(known.high, limit) else em.Min(start, self._number(limit, start))

    def _number(self, dim: Dim, like: oir.Value) -> oir.Value:
        """An extent in the type of the starts."""
        if isinstance(dim, int):
            return self._em.scalar_like(dim, like)
        return self._em.extents.scalar(dim)

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
        pairs = zip(self.clamped, self.starts, strict=True)
        return reduce(em.And, [em.Equal(*pair) for pair in pairs if pair[0] is not pair[1]])

    def are_distinct(self) -> bool:
        """Whether no two windows provably share an element."""
        if self._n.is_alone:
            return True
        if self._n.overlaps_shifted or not self._n.partial or self._n.batching:
            return self._known_distinct()
        # Windows of extent 1 along every partial axis: it takes two equal starts for them to meet.
        rows = self.indices
        if self._vector == rank_of(rows):
            rows = self._em.unsqueeze(rows, [self._vector])
        return self._vector == rank_of(rows) - 1 and self._em.facts.distinct_rows(rows)

    def _known_distinct(self) -> bool:
        """Whether the places are known, and no two are equal."""
        n = self._n
        if self.constant is None or not at_most(product(n.extents(n.windows)), CONSTANT_ELEMENTS):
            return False
        places = self._em.facts.elements(self.index(n.windows, len(n.dims)))
        return places is not None and bool(np.unique(places).size == places.size)

    def index(self, layout: Sequence[Axis], depth: int) -> oir.Value:
        """The linear index, over the operand's first `depth` axes, that each element goes to.

        Args:
            layout: The axes of the result: all that the place depends on, in any order.
        """
        em, n = self._em, self._n
        rest, extents = product(n.dims[depth:]), n.extents(layout)
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
        terms = []
        for start, axis in zip(self.clamped, self.axes, strict=True):
            stride = quotient(n.strides[axis], rest)
            if axis in n.partial:
                terms.append(start if stride == 1 else em.Mul(start, self._number(stride, start)))
        if not terms:
            return em.const(np.zeros([1] * len(layout), np.int64))
        return self.spread(reduce(em.Add, terms), layout)

    def _offsets(self, layout: Sequence[Axis], rest: Dim) -> list[np.ndarray | oir.Value]:
        """What each axis of the layout adds to the linear index."""
        n = self._n
        extents = n.extents(layout)
        return [
            progression(self._em, extents, place, quotient(n.strides[n.runs_along(axis)], rest))
            for place, axis in enumerate(layout)
            if n.runs_along(axis) >= 0 and n.extent(axis) != 1
        ]

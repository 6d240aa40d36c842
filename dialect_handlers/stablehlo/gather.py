"""gather and dynamic_gather: the slices of an operand at computed places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import (
    Axis,
    Batch,
    GatherDimensions,
    Window,
    gather_dimensions,
)
from dialect_handlers.common.slices import (
    clamped,
    clamped_constant,
    constant_starts,
    row_index,
    starts_inside,
    window,
)
from dialect_handlers.common.tensors import plus, progression
from hlo2onnx.ir.dims import canonical, fixed, is_static, product
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import contents_of, dims_of, holding

# -- the handler of gather --------------------------------------------------------------------


IGNORES = {"indices_are_sorted": "a hint that changes no result"}


@handles("stablehlo.gather", form="parts", ignores=IGNORES)
def gather(
    em: Emitter,
    op: Op,
    *,
    dimension_numbers: stablehlo.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
) -> oir.Value:
    """gather(x, starts) -> the slices of x that begin at the starts, by the cheapest strategy."""
    x, starts = em.operands(op)
    return _gathered(em, x, starts, dimension_numbers, slice_sizes)


@handles("stablehlo.dynamic_gather", form="parts", ignores=IGNORES)
def dynamic_gather(
    em: Emitter, op: Op, *, dimension_numbers: stablehlo.GatherDimensionNumbers
) -> oir.Value:
    """dynamic_gather(x, starts, sizes) -> gather with slice sizes that may be symbolic."""
    x, starts, sizes = em.operands(op)
    return _gathered(em, x, starts, dimension_numbers, dims_of(em, sizes))


def _gathered(
    em: Emitter,
    x: oir.Value,
    starts: oir.Value,
    numbers: stablehlo.GatherDimensionNumbers,
    sizes: Sequence[Dim],
) -> oir.Value:
    n = gather_dimensions(numbers, sizes, shape_of(x), shape_of(starts))
    dims = [n.extent(axis) for axis in n.windows]
    if 0 in dims:
        return em.expand(em.scalar_like(0, x), dims)
    reach = [n.sizes[axis] for axis in n.still]
    x = em.slice(x, [0] * len(reach), reach, axes=n.still)
    if not n.moving:
        return _arranged(em, n, dims, x, [_runs_over(n, axis) for axis in range(len(n.dims))])
    first = Starts(em, n, starts, numbers.index_vector_dim)
    made = next(filter(None, (strategy(em, n, x, first) for strategy in STRATEGIES)))
    return _arranged(em, n, dims, *made)


def _runs_over(n: GatherDimensions, axis: int) -> Axis:
    return Batch(n.batching[axis]) if axis in n.batching else Window(axis)


def _arranged(
    em: Emitter, n: GatherDimensions, dims: Sequence[Dim], x: oir.Value, axes: Sequence[Axis]
) -> oir.Value:
    """Brings the axes of x into the result's order; axes of the result that x lacks are 1, or run
    over a batch that all share one slice."""
    places = [n.windows.index(axis) if axis in n.windows else len(dims) for axis in axes]
    long = [place for place in places if place < len(dims) and dims[place] != 1]
    if long != sorted(long):
        x = em.transpose(x, sorted(range(len(places)), key=lambda axis: places[axis]))
    own = [n.extent(axis) if axis in axes else 1 for axis in n.windows]
    return em.expand(em.reshape(x, own), dims)


# -- the start indices of a gather, in the arrangement that a strategy wants ------------------


class Starts:
    """Where the slices start along the moving axes, clamped so that they lie inside.

    Args:
        value: The start indices as the program has them.
        vector: The axis of `value` that holds the index vector; its rank where it holds one
            index, not a vector.
    """

    def __init__(self, em: Emitter, n: GatherDimensions, value: oir.Value, vector: int) -> None:
        self._em = em
        self._n = n
        self._value = value
        self._vector = vector
        self.constant = self._known()

    def _known(self) -> np.ndarray | None:
        """The starts, of shape (*batch, moving axes), where they are known."""
        known = constant_starts(self._em, self._value)
        if known is None:
            return None
        has_vector = self._vector < known.ndim
        vectors = np.moveaxis(known, self._vector, -1) if has_vector else known[..., None]
        return clamped_constant(vectors[..., self._n.columns], self._n.limits)

    @property
    def extents(self) -> list[Dim] | None:
        """The starts of a single slice as extents, if they are known or follow from shapes."""
        if self.constant is not None:
            return list(self.constant.reshape(-1).tolist())
        if self._n.columns != tuple(range(self._width)):
            return None
        return starts_inside(self._value, self._n.limits)

    def scalars(self) -> oir.Value:
        """The starts along the one moving axis, of shape (*batch)."""
        if self.constant is not None:
            return self._em.const(self.constant[..., 0])
        column = self._one_column()
        if self._n.is_single and not rank_of(column):
            return row_index(self._em, column, *self._n.limits)
        return clamped(self._em, column, self._n.limits)

    def vectors(self) -> oir.Value:
        """The starts of shape (*batch, moving axes)."""
        if self.constant is not None:
            return self._em.const(self.constant)
        return clamped(self._em, self._columns(), self._n.limits)

    @property
    def _width(self) -> int:
        """Length of the index vector."""
        dims = shape_of(self._value)
        return fixed([dims[self._vector]])[0] if self._vector < len(dims) else 1

    def _one_column(self) -> oir.Value:
        if self._width == 1:
            known = contents_of(self._value)
            alone = self._em.reshape(self._value, self._n.batch)
            return alone if known is None else holding(alone, known.reshape(self._n.batch))
        (column,) = self._n.columns
        return self._em.Gather(self._value, self._em.i64(column), axis=self._vector)

    def _columns(self) -> oir.Value:
        em, columns = self._em, self._n.columns
        if self._width == 1:
            return em.reshape(self._value, [*self._n.batch, 1])
        picked = self._value
        if columns != tuple(range(self._width)):
            picked = em.Gather(picked, em.i64(columns), axis=self._vector)
        batch = [axis for axis in range(rank_of(picked)) if axis != self._vector]
        return em.transpose(picked, [*batch, self._vector])


# -- the ways to translate a gather, each with its conditions ---------------------------------
#
# A strategy takes the operand, cut to the slices' extents along the fixed axes, and the starts
# along at least one moving axis. It returns a tensor and the meaning of each of its axes, in any
# order, or None if it does not apply. Axes of extent 1 may be missing.


Gathered = tuple[oir.Value, list[Axis]]
Strategy = Callable[[Emitter, GatherDimensions, oir.Value, Starts], Gathered | None]

INT64 = oir.DataType.INT64


def constant_slice(
    em: Emitter, n: GatherDimensions, x: oir.Value, starts: Starts
) -> Gathered | None:
    """Slice: one slice with a known start, or several rows if the start follows from shapes."""
    is_known = starts.constant is not None and is_static(n.sizes)
    first = starts.extents if n.is_single and (n.windowed or is_known) else None
    if first is None:
        return None
    limits = [canonical(start + n.sizes[axis]) for start, axis in zip(first, n.moving, strict=True)]
    return em.slice(x, first, limits, axes=n.moving), _offsets(range(rank_of(x)))


def dynamic_slice(
    em: Emitter, n: GatherDimensions, x: oir.Value, starts: Starts
) -> Gathered | None:
    """Slice with computed starts: one slice, of more than one row or across several inner axes."""
    if not n.is_single or not (n.windowed or (len(n.moving) > 1 and not n.leads)):
        return None
    first = em.reshape(starts.vectors(), [len(n.moving)])
    sizes = [n.sizes[axis] for axis in n.moving]
    return window(em, x, n.moving, first, sizes), _offsets(range(rank_of(x)))


def elements(em: Emitter, n: GatherDimensions, x: oir.Value, starts: Starts) -> Gathered | None:
    """GatherElements: single elements along one axis while every other axis is a batching one,
    as `take_along_axis` has it."""
    if not n.batching or len(n.moving) > 1 or n.windowed:
        return None
    if any(n.sizes[axis] != 1 for axis in n.still):
        return None
    free = [along for along in range(len(n.batch)) if along not in n.batching.values()]
    runs = [[n.batching[axis]] if axis in n.batching else [] for axis in range(len(n.dims))]
    runs[n.moving[0]] = free
    order = [along for run in runs for along in run]
    aligned = [product(n.batch[along] for along in run) for run in runs]
    indices = em.reshape(em.transpose(starts.scalars(), order), aligned)
    found = em.GatherElements(x, indices, axis=n.moving[0])
    return em.reshape(found, [n.batch[along] for along in order]), _batches(order)


def rows(em: Emitter, n: GatherDimensions, x: oir.Value, starts: Starts) -> Gathered | None:
    """Gather: slices along one axis, or along neighbours that a Reshape makes one; no batching.

    Neighbours that lead are left to `tuples`, which needs no arithmetic on the indices.
    """
    if n.batching or not n.is_adjacent or (len(n.moving) > 1 and n.leads):
        return None
    first, last = n.moving[0], n.moving[-1]
    dims = [n.dims[axis] for axis in n.moving]
    if not is_static(dims[1:]):
        return None
    strides = fixed([product(dims[place + 1 :]) for place in range(len(dims))])
    if len(dims) == 1:
        indices = starts.scalars()
    else:
        shape = [n.dims[axis] if axis in n.moving else n.sizes[axis] for axis in range(len(n.dims))]
        x = em.reshape(x, [*shape[:first], product(dims), *shape[last + 1 :]])
        steps = em.Mul(em.cast(starts.vectors(), INT64), em.i64(strides))
        indices = em.ReduceSum(steps, em.i64([-1]), keepdims=0)
    indices = _spread(em, n, indices, dict(zip(n.moving, map(np.array, strides), strict=True)))
    axes = [
        *_offsets(range(first)),
        *_batches(range(len(n.batch))),
        *_offsets(n.windowed),
        *_offsets(range(last + 1, len(n.dims))),
    ]
    return em.Gather(x, indices, axis=first), axes


def tuples(em: Emitter, n: GatherDimensions, x: oir.Value, starts: Starts) -> Gathered:
    """GatherND: anything. Batching axes, then moving axes are brought to the front."""
    batching = list(n.batching)
    along = [n.batching[axis] for axis in batching]
    free = [axis for axis in range(len(n.batch)) if axis not in along]
    x = em.transpose(x, [*batching, *n.moving, *n.still])
    indices = em.transpose(em.cast(starts.vectors(), INT64), [*along, *free, len(n.batch)])
    columns = np.eye(len(n.moving), dtype=np.int64)
    indices = _spread(em, n, indices, dict(zip(n.moving, columns, strict=True)))
    axes = [*_batches(along), *_batches(free), *_offsets(n.windowed), *_offsets(n.still)]
    return em.GatherND(x, indices, batch_dims=len(batching) or None), axes


STRATEGIES: tuple[Strategy, ...] = (constant_slice, dynamic_slice, elements, rows, tuples)
"""Cheapest first; the last one always applies."""


def _batches(axes: Iterable[int]) -> list[Axis]:
    return [Batch(axis) for axis in axes]


def _offsets(axes: Iterable[int]) -> list[Axis]:
    return [Window(axis) for axis in axes]


def _spread(
    em: Emitter, n: GatherDimensions, starts: oir.Value, steps: Mapping[int, np.ndarray]
) -> oir.Value:
    """The indices of all elements of the windows that begin at `starts`.

    Args:
        starts: Of shape (batch, ...), where ... is the shape of a step.
        steps: What one step along an operand axis adds to an index.

    Returns:
        Indices of shape (batch, windowed axes, ...).
    """
    if not n.windowed:
        return starts
    sizes = [n.sizes[axis] for axis in n.windowed]
    offsets = [
        progression(em, sizes, place, steps[axis], dtype=dtype_of(starts))
        for place, axis in enumerate(n.windowed)
    ]
    axes = range(len(n.batch), len(n.batch) + len(n.windowed))
    return plus(em, em.unsqueeze(starts, axes), offsets)

"""The ways to translate a gather, each with its conditions.

A strategy takes the operand, cut to the slices' extents along the fixed axes, and the starts along
at least one moving axis. It returns a tensor and the meaning of each of its axes, in any order, or
None if it does not apply. Axes of extent 1 may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.dimension_numbers import Axis, Batch, Window
from dialect_handlers.common.iota import plus, progression
from dialect_handlers.common.start_indices import window
from dialect_handlers.stablehlo.gather.dimension_numbers import GatherDimensions
from dialect_handlers.stablehlo.gather.start_indices import Starts
from hlo2onnx.ir.dims import canonical, fixed, is_static, product
from hlo2onnx.ir.values import dtype_of, rank_of
from hlo2onnx.lowering.emitter import Emitter

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

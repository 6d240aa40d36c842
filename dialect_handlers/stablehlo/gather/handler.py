"""The handler of gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.stablehlo.gather.numbers import Axis, Batch, Numbers, Offset, read_numbers
from dialect_handlers.stablehlo.gather.starts import Starts
from dialect_handlers.stablehlo.gather.strategies import STRATEGIES
from hlo2onnx.graph.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.gather", form="parts", ignores={"indices_are_sorted": "a licence to be fast"})
def gather(em: Emitter, op: Op, *, dimension_numbers: Any, slice_sizes: Sequence[int]) -> oir.Value:
    """gather(x, starts) -> the slices of x that begin at the starts, by the cheapest strategy."""
    x, starts = em.operands(op)
    dims = em.result_dims(op)
    operand, indices = (em.static_dims(value.type) for value in op.operands)
    n = read_numbers(dimension_numbers, slice_sizes, operand, indices)
    if 0 in dims:
        return em.const(np.empty(dims), dtype_of(x))
    reach = [n.sizes[axis] for axis in n.still]
    x = em.slice(x, [0] * len(reach), reach, axes=n.still)
    if not n.moving:
        return _arranged(em, n, dims, x, [_runs_over(n, axis) for axis in range(len(n.dims))])
    first = Starts(em, n, starts, dimension_numbers.index_vector_dim)
    made = next(filter(None, (strategy(em, n, x, first) for strategy in STRATEGIES)))
    return _arranged(em, n, dims, *made)


def _runs_over(n: Numbers, axis: int) -> Axis:
    return Batch(n.batching[axis]) if axis in n.batching else Offset(axis)


def _arranged(
    em: Emitter, n: Numbers, dims: Sequence[int], x: oir.Value, axes: Sequence[Axis]
) -> oir.Value:
    """Brings the axes of x into the result's order; axes of the result that x lacks are 1, or run
    over a batch that all share one slice."""
    places = [n.result.index(axis) if axis in n.result else len(dims) for axis in axes]
    long = [place for place in places if place < len(dims) and dims[place] > 1]
    if long != sorted(long):
        x = em.transpose(x, sorted(range(len(places)), key=lambda axis: places[axis]))
    own = [n.extent(axis) if axis in axes else 1 for axis in n.result]
    return em.expand(em.reshape(x, own), dims)

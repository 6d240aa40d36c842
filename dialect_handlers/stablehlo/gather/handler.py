"""The handler of gather."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.dimension_numbers import Axis, Batch, Window
from dialect_handlers.stablehlo.gather.dimension_numbers import GatherDimensions, read_numbers
from dialect_handlers.stablehlo.gather.start_indices import Starts
from dialect_handlers.stablehlo.gather.strategies import STRATEGIES
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import dims_of

IGNORES = {"indices_are_sorted": "a licence to be fast"}


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
    n = read_numbers(numbers, sizes, shape_of(x), shape_of(starts))
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

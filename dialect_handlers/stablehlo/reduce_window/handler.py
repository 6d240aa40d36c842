"""reduce_window: the choice of a strategy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.reductions import combine
from dialect_handlers.common.regions import Combiner, is_neutral, neutral, promoted, recognise_each
from dialect_handlers.common.tensors import each
from dialect_handlers.common.windows import WindowAxis, window_axes
from dialect_handlers.stablehlo.reduce_window.pooling import can_pool, extreme_pool, sum_pool
from dialect_handlers.stablehlo.reduce_window.separable import (
    NAMED,
    Fold,
    Region,
    separable,
)
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dims import fixed, is_static
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall, Op
from hlo2onnx.lowering.registry import handles, handles_call
from hlo2onnx.lowering.shape_arithmetic import dims_of

# -- reduce_window: the choice of a strategy --------------------------------------------------


@handles("stablehlo.reduce_window", form="real")
@handles("stablehlo.reduce_window", form="complex")
def reduce_window(
    em: Emitter,
    op: Op,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    base_dilations: Sequence[int] | None = None,
    window_dilations: Sequence[int] | None = None,
    padding: np.ndarray | None = None,
) -> list[Parts]:
    """reduce_window(inputs, inits) -> region(inits, the region over each window)."""
    dims = shape_of(em.parts(op.operands[0])[0])
    steps = window_strides, padding, base_dilations, window_dilations
    return _windows(em, op.operands, op.block(0), window_axes(dims, window_dimensions, *steps))


@handles_call("stablehlo.dynamic_reduce_window", form="real")
@handles_call("stablehlo.dynamic_reduce_window", form="complex")
def dynamic_reduce_window(
    em: Emitter, op: CustomCall, *, called_computations: tuple[str, ...]
) -> list[Parts]:
    """dynamic_reduce_window(inputs, inits, window...) -> reduce_window; operands give the window.

    The operands are window_dimensions, window_strides, base_dilations, window_dilations, padding.
    """
    *values, sizes, strides, base, window, padding = (em.parts(value) for value in op.operands)
    dims, *columns, edges = (
        dims_of(em, value) for (value,) in (sizes, strides, base, window, padding)
    )
    if not all(map(is_static, columns)):
        raise UnsupportedOp("strides or dilations of windows are not constant")
    block = em.context.functions[called_computations[0]].regions[0].blocks[0]
    steps, base_dilations, dilations = map(fixed, columns)
    pairs = list(zip(edges[::2], edges[1::2], strict=True))
    axes = window_axes(shape_of(values[0][0]), dims, steps, pairs, base_dilations, dilations)
    return _windows(em, op.operands[:-5], block, axes)


def _windows(
    em: Emitter, operands: Sequence[MlirValue], block: ir.Block, axes: Sequence[WindowAxis]
) -> list[Parts]:
    """The choice of a strategy."""
    values = promoted(em, operands, block.arguments)
    inputs, inits = values[: len(values) // 2], values[len(values) // 2 :]
    dims = [axis.count for axis in axes]
    if 0 in dims or any(axis.never_holds for axis in axes):
        return each(lambda x: em.expand(x, dims), inits)
    function = em.scalar_function(block)
    combiners = _combiners(em, block, inputs)
    if combiners is None:
        return Fold(em, function, axes)(inits, inputs)
    holes = [
        tuple(_hole(em, combiner, init) for init in parts)
        for combiner, parts in zip(combiners, inits, strict=True)
    ]
    reduced = _pooled(em, combiners, inits, inputs, axes)
    if reduced is None:
        reduced = separable(Region(em, function, combiners, holes), inputs, axes)
    return reduced if holes == inits else combine(em, function, inits, reduced)


def _hole(em: Emitter, combiner: Combiner, init: oir.Value) -> oir.Value:
    """What to fill holes with: the init value where it is provably neutral."""
    if is_neutral(em, combiner, init):
        return init
    return em.scalar(neutral(combiner, dtype_of(init)), dtype_of(init))


def _combiners(em: Emitter, block: ir.Block, inputs: Sequence[Parts]) -> list[Combiner] | None:
    """The region's name on each operand; None unless all have one that re-association leaves
    intact. Of the combiners of complex numbers, the sum acts on re and im separately."""
    names: list[Combiner] = []
    for name, parts in zip(recognise_each(em, block), inputs, strict=True):
        if name not in NAMED or (len(parts) > 1 and name != Combiner.ADD):
            return None
        names.append(name)
    return names


def _pooled(
    em: Emitter,
    combiners: Sequence[Combiner],
    inits: Sequence[Parts],
    inputs: Sequence[Parts],
    axes: Sequence[WindowAxis],
) -> list[Parts] | None:
    """One pooling node for each part of a single operand; None if there is none for it."""
    if len(inputs) > 1 or not all(map(can_pool, axes)):
        return None
    pooled: list[oir.Value] = []
    for init, part in zip(inits[0], inputs[0], strict=True):
        node = _pool(em, combiners[0], init, part, axes)
        if node is None:
            return None
        pooled.append(node)
    return [tuple(pooled)]


def _pool(
    em: Emitter, combiner: Combiner, init: oir.Value, x: oir.Value, axes: Sequence[WindowAxis]
) -> oir.Value | None:
    if combiner == Combiner.ADD:
        counts = _counted(em, x, axes)
        return sum_pool(em, x, axes) if counts is None else counts
    return extreme_pool(em, x, axes, combiner, init)


def _counted(em: Emitter, x: oir.Value, axes: Sequence[WindowAxis]) -> oir.Value | None:
    """The sum of a constant 1: how many elements each window holds, by which average pooling
    divides."""
    elements = em.facts.constant(x)
    if elements is None or not (elements == 1).all() or not all(axis.is_static for axis in axes):
        return None
    counts = np.ones([1] * len(axes), np.int64)
    for number, axis in enumerate(axes):
        held = axis.held if (axis.held != axis.held[0]).any() else axis.held[:1]
        others = [other for other in range(len(axes)) if other != number]
        counts = counts * np.expand_dims(held, tuple(others))
    return em.expand(em.const(counts, dtype_of(x)), [axis.count for axis in axes])

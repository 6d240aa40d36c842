"""reduce_window: the choice of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import Function, combine
from dialect_handlers.common.regions import Combiner, is_neutral, neutral, recognise_each
from dialect_handlers.stablehlo.reduce_window.fold import Fold
from dialect_handlers.stablehlo.reduce_window.geometry import Axis, axes_of
from dialect_handlers.stablehlo.reduce_window.pooling import extreme_pool, suits_symbolic, sum_pool
from dialect_handlers.stablehlo.reduce_window.separable import NAMED, Region, separable
from dialect_handlers.stablehlo.reduce_window.symbolic import (
    Window,
    along_axis,
    folded,
    laid_out,
    region_of,
)
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import at_most, is_static, total
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall, Op
from hlo2onnx.lowering.registry import handles, handles_call
from hlo2onnx.lowering.shape_arithmetic import dims_of
from hlo2onnx.mlir.types import parts_of


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
    padding: Any = None,
) -> list[Parts]:
    """reduce_window(inputs, inits) -> region(inits, the region over each window's elements)."""
    ones = [1] * len(window_dimensions)
    edges = [(0, 0)] * len(ones) if padding is None else np.asarray(padding).tolist()
    steps = (window_strides or ones, base_dilations or ones, window_dilations or ones)
    return _windows(em, op.operands, op.block(0), window_dimensions, steps, edges)


@handles_call("stablehlo.dynamic_reduce_window", form="real")
@handles_call("stablehlo.dynamic_reduce_window", form="complex")
def dynamic_reduce_window(
    em: Emitter, op: CustomCall, *, called_computations: tuple[str, ...]
) -> list[Parts]:
    """@stablehlo.dynamic_reduce_window(inputs, inits, window_dimensions, window_strides,
    base_dilations, window_dilations, padding): reduce_window by operands."""
    *values, sizes, strides, base, window, padding = op.operands
    dims, *columns = (dims_of(em, em.parts(value)[0]) for value in (sizes, strides, base, window))
    edges = dims_of(em, em.parts(padding)[0])
    if not all(map(is_static, columns)):
        raise UnsupportedOp("strides or dilations of windows depend on shapes or data")
    block = em.context.functions[called_computations[0]].regions[0].blocks[0]
    pairs = list(zip(edges[::2], edges[1::2], strict=True))
    steps: list[list[int]] = columns  # type: ignore[assignment]
    return _windows(em, values, block, dims, steps, pairs)


def _windows(
    em: Emitter,
    operands: Sequence[Any],
    block: Any,
    sizes: Sequence[Dim],
    steps: Sequence[Sequence[int]],
    edges: Sequence[tuple[Dim, Dim]],
) -> list[Parts]:
    """Either op: the choice of a strategy.

    Args:
        steps: Strides, base dilations and window dilations.
    """
    inputs, inits = _operands(em, operands, block)
    x = inputs[0][0]
    windows = [
        Window(dim, size, stride, gap, step, low, high)
        for dim, size, stride, gap, step, (low, high) in zip(
            shape_of(x), sizes, *steps, edges, strict=True
        )
    ]
    function = em.scalar_function(block)
    combiners = _combiners(em, block, inputs)
    if not all(window.is_static or window.is_trivial for window in windows):
        return _symbolic(em, function, combiners, inits, inputs, windows)
    strides, base, dilations = steps
    axes = axes_of(shape_of(x), sizes, strides, base, dilations, edges)  # type: ignore[arg-type]
    dims = _result_dims(x, axes)
    if 0 in dims or not all(axis.elements.any() for axis in axes):
        return [tuple(em.expand(part, dims) for part in parts) for parts in inits]
    if combiners is None:
        if not is_static(dims):
            return folded(em, region_of(em, function), inits, inputs, _moving(windows))
        return Fold(em, function, axes)(inits, inputs)
    holes = _holes(em, combiners, inits)
    reduced = _pooled(em, combiners, inits, inputs, axes)
    if reduced is None:
        reduced = separable(Region(em, function, combiners, holes), inputs, axes)
    return reduced if holes == inits else combine(em, function, inits, reduced)


def _symbolic(
    em: Emitter,
    function: Function,
    combiners: Sequence[Combiner] | None,
    inits: Sequence[Parts],
    inputs: Sequence[Parts],
    windows: Sequence[Window],
) -> list[Parts]:
    """Windows along symbolic axes, or of symbolic padding or size."""
    dims = [window.count for window in windows]
    if 0 in dims:
        return [tuple(em.expand(part, dims) for part in parts) for parts in inits]
    moving = _moving(windows)
    if combiners is None:
        return folded(em, region_of(em, function), inits, inputs, moving)
    holes = _holes(em, combiners, inits)
    reduced = _pooled_symbolic(em, combiners, inits, holes, inputs, windows)
    if reduced is None:
        region, reduced = Region(em, function, combiners, holes), list(inputs)
        for number, window in moving.items():
            reduced = along_axis(region, reduced, number, window)
    return reduced if holes == inits else combine(em, function, inits, reduced)


def _pooled_symbolic(
    em: Emitter,
    combiners: Sequence[Combiner],
    inits: Sequence[Parts],
    holes: Sequence[Parts],
    inputs: Sequence[Parts],
    windows: Sequence[Window],
) -> list[Parts] | None:
    """A pooling node, after symbolic padding; None if none is what the windows compute."""
    padded = {
        number: window
        for number, window in enumerate(windows)
        if not is_static((window.low, window.high))
    }
    sizes = [window.window for window in windows]
    narrow = all(
        window.gap == 1 and at_most(total(edge, 1), window.window)
        for window in padded.values()
        for edge in (window.low, window.high)
    )
    if len(inputs) > 1 or not is_static(sizes) or not narrow:
        return None
    plain = [
        replace(window, low=0, high=0) if number in padded else window
        for number, window in enumerate(windows)
    ]
    rows = [(w.window, w.stride, w.gap, w.step, (w.low, w.high)) for w in plain]
    extents = [
        window.padded if number in padded else window.extent
        for number, window in enumerate(windows)
    ]
    axes = axes_of(extents, *map(list, zip(*rows, strict=True)))  # type: ignore[arg-type]
    symbolic = [axis for axis, window in zip(axes, windows, strict=True) if not window.is_static]
    if not all(axis.is_trivial or suits_symbolic(axis) for axis in symbolic):
        return None
    return _pooled(em, combiners, inits, laid_out(em, inputs, holes, padded), axes)


def _moving(windows: Sequence[Window]) -> dict[int, Window]:
    return {number: item for number, item in enumerate(windows) if not item.is_trivial}


def _holes(em: Emitter, combiners: Sequence[Combiner], inits: Sequence[Parts]) -> list[Parts]:
    return [
        tuple(_hole(em, combiner, init) for init in parts)
        for combiner, parts in zip(combiners, inits, strict=True)
    ]


def _result_dims(x: oir.Value, axes: Sequence[Axis]) -> list[Dim]:
    """Extents of the result; an axis that goes through as it is may be symbolic."""
    return [
        dim if axis.is_trivial else axis.count for dim, axis in zip(shape_of(x), axes, strict=True)
    ]


def _hole(em: Emitter, combiner: Combiner, init: oir.Value) -> oir.Value:
    """What to fill holes with: the init value where it is provably neutral."""
    if is_neutral(em, combiner, init):
        return init
    return em.scalar(neutral(combiner, dtype_of(init)), dtype_of(init))


def _operands(em: Emitter, operands: Sequence[Any], block: Any) -> tuple[list[Parts], list[Parts]]:
    """The inputs and the init values, promoted to the element types that the region takes."""
    types = [parts_of(argument.type) for argument in block.arguments]
    promoted = [
        tuple(em.cast(part, kind.dtype) for part, kind in zip(em.parts(value), kinds, strict=True))
        for value, kinds in zip(operands, types, strict=True)
    ]
    count = len(promoted) // 2
    return promoted[:count], promoted[count:]


def _combiners(em: Emitter, block: Any, inputs: Sequence[Parts]) -> list[Combiner] | None:
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
    axes: Sequence[Axis],
) -> list[Parts] | None:
    """One pooling node for each part of a single operand; None if there is none for it."""
    if len(inputs) > 1:
        return None
    pooled: list[oir.Value] = []
    for init, part in zip(inits[0], inputs[0], strict=True):
        node = _pool(em, combiners[0], init, part, axes)
        if node is None:
            return None
        pooled.append(node)
    return [tuple(pooled)]


def _pool(
    em: Emitter, combiner: Combiner, init: oir.Value, x: oir.Value, axes: Sequence[Axis]
) -> oir.Value | None:
    if combiner == Combiner.ADD:
        counts = _counted(em, x, axes)
        return sum_pool(em, x, axes) if counts is None else counts
    return extreme_pool(em, x, axes, combiner, init)


def _counted(em: Emitter, x: oir.Value, axes: Sequence[Axis]) -> oir.Value | None:
    """The sum of a constant 1: how many elements each window holds, by which average pooling
    divides."""
    elements = em.facts.constant(x)
    if elements is None or not (elements == 1).all() or not is_static(shape_of(x)):
        return None
    counts = np.ones([1] * len(axes), np.int64)
    for number, axis in enumerate(axes):
        held = axis.held if (axis.held != axis.held[0]).any() else axis.held[:1]
        others = [other for other in range(len(axes)) if other != number]
        counts = counts * np.expand_dims(held, tuple(others))
    return em.expand(em.const(counts, dtype_of(x)), _result_dims(x, axes))

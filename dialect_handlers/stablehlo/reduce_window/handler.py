"""reduce_window: the choice of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.reductions import combine
from dialect_handlers.common.regions import Combiner, is_neutral, neutral, recognise_each
from dialect_handlers.stablehlo.reduce_window.fold import Fold
from dialect_handlers.stablehlo.reduce_window.geometry import Axis, axes_of
from dialect_handlers.stablehlo.reduce_window.pooling import extreme_pool, suits_symbolic, sum_pool
from dialect_handlers.stablehlo.reduce_window.separable import NAMED, Region, separable
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.graph.dims import is_static
from hlo2onnx.graph.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
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
    inputs, inits = _operands(em, op)
    axes = axes_of(
        shape_of(inputs[0][0]),
        window_dimensions,
        window_strides,
        base_dilations,
        window_dilations,
        padding,
    )
    dims = _result_dims(inputs[0][0], axes)
    symbolic = [
        axis
        for axis, dim in zip(axes, shape_of(inputs[0][0]), strict=True)
        if not (axis.is_trivial or isinstance(dim, int))
    ]
    if 0 in dims or not all(axis.elements.any() for axis in axes):
        return [tuple(em.expand(part, dims) for part in parts) for parts in inits]
    function = em.scalar_function(op.block(0))
    combiners = _combiners(em, op, inputs)
    if combiners is None:
        if symbolic or not is_static(dims):
            raise UnsupportedOp(*_SYMBOLIC)
        return Fold(em, function, axes)(inits, inputs)
    holes = [
        tuple(_hole(em, combiner, init) for init in parts)
        for combiner, parts in zip(combiners, inits, strict=True)
    ]
    reduced = None
    if all(map(suits_symbolic, symbolic)):
        reduced = _pooled(em, combiners, inits, inputs, axes)
    if reduced is None and symbolic:
        raise UnsupportedOp(*_SYMBOLIC)
    if reduced is None:
        reduced = separable(Region(em, function, combiners, holes), inputs, axes)
    return reduced if holes == inits else combine(em, function, inits, reduced)


_SYMBOLIC = (
    "windows move along a dynamic axis, and no pooling operator is what they compute",
    "lower the function with a static extent there",
)


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


def _operands(em: Emitter, op: Op) -> tuple[list[Parts], list[Parts]]:
    """The inputs and the init values, promoted to the element types that the region takes."""
    types = [parts_of(argument.type) for argument in op.block(0).arguments]
    promoted = [
        tuple(em.cast(part, kind.dtype) for part, kind in zip(em.parts(value), kinds, strict=True))
        for value, kinds in zip(op.operands, types, strict=True)
    ]
    count = len(promoted) // 2
    return promoted[:count], promoted[count:]


def _combiners(em: Emitter, op: Op, inputs: Sequence[Parts]) -> list[Combiner] | None:
    """The region's name on each operand; None unless all have one that re-association leaves
    intact. Of the combiners of complex numbers, the sum acts on re and im separately."""
    names: list[Combiner] = []
    for name, parts in zip(recognise_each(em, op.block(0)), inputs, strict=True):
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

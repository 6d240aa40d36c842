"""Extremes and sums over small windows of floats: the pooling of convolutional networks.

ONNX pools the trailing axes of (N, C, spatial...). The axes that are not pooled become N and C, by
Transpose where they are not in front (NHWC); raising rules cancel such transposes between layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.regions import Combiner, neutral
from dialect_handlers.stablehlo.reduce_window.geometry import Axis
from dialect_handlers.stablehlo.reduce_window.padded_layout import lay_out
from hlo2onnx.ir.dims import canonical, is_positive, is_static, product, symbol
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter

MAX_POOL_TYPES = frozenset(
    {
        oir.DataType.FLOAT,
        oir.DataType.DOUBLE,
        oir.DataType.FLOAT16,
        oir.DataType.BFLOAT16,
        oir.DataType.INT8,
        oir.DataType.UINT8,
    }
)
"""Element types that ONNX defines MaxPool for."""

NEGATED_TYPES = MAX_POOL_TYPES - {oir.DataType.INT8, oir.DataType.UINT8}
"""Those in which -x is exact for every x, so that min(x) = -max(-x)."""

SUMMED_TYPES = NEGATED_TYPES - {oir.DataType.DOUBLE}
"""Element types of sums that go to Conv; runtimes convolve in single precision only."""

LARGEST_MAX_POOL = 256
LARGEST_CONV = 64
"""Elements of the largest window for one node. Both cost the product of the window's extents, the
separable way the logarithm of it; beyond these sizes the latter is faster (measured)."""

NAN_NOTE = (
    "MaxPool of the runtime ignores NaN, and gives the lowest finite number for a window that"
    " holds nothing but -inf; nan='xla' gives what XLA gives"
)


def extreme_pool(
    em: Emitter, x: oir.Value, axes: Sequence[Axis], combiner: Combiner, init: oir.Value
) -> oir.Value | None:
    """maximum -> MaxPool; minimum -> Neg, MaxPool, Neg. The init value is not part of it.

    Preconditions: an element type of MaxPool's (and exactly negatable, for minimum); one to three
    pooled axes without base dilation and none cumulative; every window holds an element, and
    padding is narrower than the window (ONNX asks for that); NaN and -inf cannot come, or the
    user lets the runtime's rule for them pass.
    """
    pooled = _pooled(axes)
    largest = combiner == Combiner.MAXIMUM
    fits = (
        (largest or combiner == Combiner.MINIMUM)
        and dtype_of(x) in (MAX_POOL_TYPES if largest else NEGATED_TYPES)
        and 1 <= len(pooled) <= 3
        and _size(axes) <= LARGEST_MAX_POOL
        and all(axis.gap == 1 and max(axis.low, axis.high) < axis.window for axis in axes)
        and all(axis.held.all() and not axis.accumulates for axis in axes)
    )
    if not fits or not _plain_pool_is_right(em, x, init, largest):
        return None
    if largest:
        return _pool(em, x, axes, combiner, "MaxPool")
    return em.Neg(_pool(em, em.Neg(x), axes, Combiner.MAXIMUM, "MaxPool"))


def sum_pool(em: Emitter, x: oir.Value, axes: Sequence[Axis]) -> oir.Value | None:
    """add -> Conv with a kernel of ones for each channel: exact where the sum is, which an
    AveragePool times the window's size is not, and as fast.

    Preconditions: an element type of SUMMED_TYPES; one to three pooled axes; more than one window
    (one is a reduction), and none cumulative.
    """
    pooled = _pooled(axes)
    if dtype_of(x) not in SUMMED_TYPES or not 1 <= len(pooled) <= 3:
        return None
    if _size(axes) > LARGEST_CONV or all(axes[number].count == 1 for number in pooled):
        return None
    if any(axis.accumulates for axis in axes):
        return None
    return _pool(em, x, axes, Combiner.ADD, "Conv")


def suits_symbolic(axis: Axis) -> bool:
    """Whether a pooling node can do all of what happens along an axis, whatever its extent."""
    return (
        axis.window > 1
        and axis.gap == axis.step == 1
        and min(axis.low, axis.high) >= 0
        and max(axis.low, axis.high) < axis.window
    )


def _pool(
    em: Emitter, x: oir.Value, axes: Sequence[Axis], combiner: Combiner, op_type: str
) -> oir.Value:
    """The pooling node over the pooled axes, its operand in the layout (N, C, spatial...)."""
    x = _prepared(em, x, axes, em.scalar(neutral(combiner, dtype_of(x)), dtype_of(x)))
    dims = list(shape_of(x))
    pooled = _pooled(axes)
    rest = [number for number in range(len(axes)) if number not in pooled]
    order = [*rest, *pooled]
    front = _batch_and_channels([dims[number] for number in rest], rest, pooled)
    x = em.reshape(em.transpose(x, order), [*front, *(dims[number] for number in pooled)])
    windows = [axes[number] for number in pooled]
    kernel = [axis.window for axis in windows]
    operands, attributes = [x], _geometry(windows)
    if op_type == "Conv":
        operands.append(em.const(np.ones([front[1], 1, *kernel]), dtype_of(x)))
        attributes["group"] = front[1]
    result = em.op(op_type, *operands, kernel_shape=kernel, **attributes)
    result = _whole_windows(em, result, x, windows)
    dims = [dims[number] for number in rest] + list(shape_of(result)[2:])
    return em.transpose(em.reshape(result, dims), [order.index(n) for n in range(len(order))])


def _whole_windows(
    em: Emitter, pooled: oir.Value, x: oir.Value, windows: Sequence[Axis]
) -> oir.Value:
    """The windows that lie within x, which ends a Slice at the last place where one can begin.

    The division of runtimes truncates: in an axis a little shorter than a window they find one, if
    windows are several positions apart.
    """
    rooms = {
        number: canonical(extent + (axis.low + axis.high - axis.span + 1))
        for number, (extent, axis) in enumerate(zip(shape_of(x)[2:], windows, strict=True), 2)
        if axis.stride > 1
    }
    loose = {number: room for number, room in rooms.items() if not is_positive(room)}
    if not loose or is_static(shape_of(x)):
        return pooled
    dims = shape_of(pooled)
    pooled.shape = oir.Shape(
        symbol(em.names.unique("windows"), positive=False) if number in loose else dim
        for number, dim in enumerate(dims)
    )
    limits = em.extents.vector(list(loose.values()))
    bounds = em.i64([0] * len(loose)), limits, em.i64(list(loose))
    return em.op("Slice", pooled, *bounds, types=[(dtype_of(pooled), dims)])


def _prepared(em: Emitter, x: oir.Value, axes: Sequence[Axis], fill: oir.Value) -> oir.Value:
    """What the node cannot do itself: gaps, negative padding, and axes with windows of 1. None of
    that is along a symbolic axis (see `suits_symbolic`)."""
    odd = {
        number: replace(axis, low=min(axis.low, 0), high=min(axis.high, 0))
        if axis.window > 1
        else axis
        for number, axis in enumerate(axes)
        if not axis.is_trivial and isinstance(shape_of(x)[number], int)
    }
    x = lay_out(em, x, odd, fill)
    single = [number for number in odd if axes[number].window == 1]
    reaches = [axes[number].reach for number in single]
    strides = [axes[number].stride for number in single]
    return em.slice(x, [0] * len(single), reaches, strides, single)


def _batch_and_channels(dims: list[Dim], rest: list[int], pooled: list[int]) -> tuple[Dim, int]:
    """Extents of N and C: the last axis that is not pooled is C, unless it is the only one and
    in front of the pooled ones, or symbolic."""
    if rest and (len(rest) > 1 or rest[0] > pooled[0]) and isinstance(dims[-1], int):
        return product(dims[:-1]), dims[-1]
    return product(dims), 1


def _geometry(windows: Sequence[Axis]) -> dict[str, Any]:
    """The attributes of the windows that are not at their default."""
    pads = [max(axis.low, 0) for axis in windows] + [max(axis.high, 0) for axis in windows]
    strides = [axis.stride for axis in windows]
    dilations = [axis.step for axis in windows]
    given = {"pads": (pads, 0), "strides": (strides, 1), "dilations": (dilations, 1)}
    return {name: items for name, (items, plain) in given.items() if set(items) != {plain}}


def _pooled(axes: Sequence[Axis]) -> list[int]:
    return [number for number, axis in enumerate(axes) if axis.window > 1]


def _size(axes: Sequence[Axis]) -> int:
    return math.prod(axis.window for axis in axes)


def _plain_pool_is_right(em: Emitter, x: oir.Value, init: oir.Value, largest: bool) -> bool:
    """Whether MaxPool gives XLA's result, or what it gives instead is the user's choice."""
    if em.options.nan == "runtime":
        return True
    start = em.facts.constant(init)
    bounded = start is not None and bool(np.isfinite(start.astype(np.float64)).all())
    if em.facts.nan_free(x) and (bounded or (largest and em.facts.above_minus_infinity(x))):
        return True
    if em.options.nan == "default":
        em.report.note(NAN_NOTE)
    return em.options.nan == "default"

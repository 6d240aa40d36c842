"""Extremes and sums over small windows of floats: the pooling of convolutional networks.

ONNX pools the trailing axes of (N, C, spatial...). The axes that are not pooled become N and C, by
Transpose where they are not in front (NHWC); raising rules cancel such transposes between layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.regions import Combiner, neutral
from dialect_handlers.common.windows import WindowAxis, lay_out
from hlo2onnx.ir.dims import fixed, is_positive, is_static, product, symbol
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
"""Types in which -x is exact for every x, so that min(x) = -max(-x)."""

SUMMED_TYPES = NEGATED_TYPES - {oir.DataType.DOUBLE}
"""Element types of sums that go to Conv; runtimes convolve in single precision only."""

NAN_NOTE = (
    "MaxPool of the runtime ignores NaN, and gives the lowest finite number for a window of -inf"
    " only; translate with nan='xla' for XLA's results"
)


def extreme_pool(
    em: Emitter, x: oir.Value, axes: Sequence[WindowAxis], combiner: Combiner, init: oir.Value
) -> oir.Value | None:
    """maximum -> MaxPool; minimum -> Neg, MaxPool, Neg. The init value is not part of it.

    Preconditions: an element type of MaxPool's (and exactly negatable, for minimum); one to three
    pooled axes without base dilation and none cumulative; every window holds an element, and
    padding is narrower than the window (ONNX asks for that); NaN and -inf cannot occur, or the user
    accepts the runtime's rule for them.
    """
    pooled = _pooled(axes)
    largest = combiner == Combiner.MAXIMUM
    fits = (
        (largest or combiner == Combiner.MINIMUM)
        and dtype_of(x) in (MAX_POOL_TYPES if largest else NEGATED_TYPES)
        and 1 <= len(pooled) <= 3
        and _size(axes) <= em.costs.max_pool_window
        and all(axis.gap == 1 and axis.is_narrow and axis.always_holds for axis in axes)
        and not any(map(_accumulates, axes))
    )
    if not fits or not _plain_pool_is_right(em, x, init, largest):
        return None
    if largest:
        return _pool(em, x, axes, combiner, "MaxPool")
    return em.Neg(_pool(em, em.Neg(x), axes, Combiner.MAXIMUM, "MaxPool"))


def sum_pool(em: Emitter, x: oir.Value, axes: Sequence[WindowAxis]) -> oir.Value | None:
    """add -> Conv with a kernel of ones for each channel: exact where the sum is, which an
    AveragePool times the window's size is not, and as fast.

    Preconditions: an element type of SUMMED_TYPES; one to three pooled axes; more than one window
    (one is a reduction), and none cumulative.
    """
    pooled = _pooled(axes)
    if dtype_of(x) not in SUMMED_TYPES or not 1 <= len(pooled) <= 3:
        return None
    if _size(axes) > em.costs.conv_pool_window or all(axes[number].count == 1 for number in pooled):
        return None
    if any(map(_accumulates, axes)):
        return None
    return _pool(em, x, axes, Combiner.ADD, "Conv")


def can_pool(axis: WindowAxis) -> bool:
    """Whether a pooling node can handle an axis without its padding, for any symbolic extent."""
    if axis.is_static or axis.is_trivial:
        return True
    edges = axis.low, axis.high
    return (
        isinstance(axis.window, int)
        and axis.window > 1
        and axis.gap == axis.step == 1
        and axis.is_narrow
        and (not is_static(edges) or min(fixed(edges)) >= 0)
    )


def _accumulates(axis: WindowAxis) -> bool:
    return axis.scan_reverse is not None and not axis.is_short


def _pool(
    em: Emitter, x: oir.Value, axes: Sequence[WindowAxis], combiner: Combiner, op_type: str
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
    kernel = fixed([axis.window for axis in windows])
    geometry = _geometry(windows)
    if op_type == "Conv":
        ones = em.const(np.ones([front[1], 1, *kernel]), dtype_of(x))
        result = em.Conv(x, ones, kernel_shape=kernel, **geometry, group=front[1])
    else:
        result = em.MaxPool(x, kernel_shape=kernel, **geometry)
    result = _whole_windows(em, result, windows)
    dims = [dims[number] for number in rest] + list(shape_of(result)[2:])
    return em.transpose(em.reshape(result, dims), [order.index(n) for n in range(len(order))])


def _whole_windows(em: Emitter, pooled: oir.Value, windows: Sequence[WindowAxis]) -> oir.Value:
    """The windows that lie within x: a Slice ends at the last place where one can begin.

    Division in runtimes truncates: in an axis a little shorter than a window they find a window, if
    the stride is larger than 1.
    """
    loose = {
        number: axis.room
        for number, axis in enumerate(windows, 2)
        if axis.stride > 1 and not axis.is_static and not is_positive(axis.room)
    }
    if not loose:
        return pooled
    dims = shape_of(pooled)
    pooled.shape = oir.Shape(
        symbol(em.names.unique("windows"), positive=False) if number in loose else dim
        for number, dim in enumerate(dims)
    )
    limits = em.extents.vector(list(loose.values()))
    bounds = em.i64([0] * len(loose)), limits, em.i64(list(loose))
    return em.op("Slice", pooled, *bounds, types=[(dtype_of(pooled), dims)])


def _prepared(em: Emitter, x: oir.Value, axes: Sequence[WindowAxis], fill: oir.Value) -> oir.Value:
    """The parts that the node cannot do itself: gaps, negative or symbolic padding, and axes with
    windows of 1."""
    x = lay_out(em, x, {number: _outside(axis) for number, axis in enumerate(axes)}, fill)
    single = [n for n, axis in enumerate(axes) if axis.window == 1 and not axis.is_trivial]
    reaches = [axes[number].reach for number in single]
    strides = [axes[number].stride for number in single]
    return em.slice(x, [0] * len(single), reaches, strides, single)


def _outside(axis: WindowAxis) -> WindowAxis:
    """The part of an axis that comes before the node."""
    low, high = axis.low, axis.high
    if axis.window == 1 or not isinstance(low, int) or not isinstance(high, int):
        return axis
    return replace(axis, low=min(low, 0), high=min(high, 0))


def _pads(axis: WindowAxis) -> tuple[int, int]:
    """The padding that the node does."""
    low, high = axis.low, axis.high
    if not isinstance(low, int) or not isinstance(high, int):
        return 0, 0
    return max(low, 0), max(high, 0)


def _batch_and_channels(dims: list[Dim], rest: list[int], pooled: list[int]) -> tuple[Dim, int]:
    """Extents of N and C: the last axis that is not pooled is C, unless it is the only one and
    in front of the pooled ones, or symbolic."""
    if rest and (len(rest) > 1 or rest[0] > pooled[0]) and isinstance(dims[-1], int):
        return product(dims[:-1]), dims[-1]
    return product(dims), 1


def _geometry(windows: Sequence[WindowAxis]) -> dict[str, list[int]]:
    """The attributes of the windows that are not at their default."""
    low, high = zip(*map(_pads, windows), strict=True)
    strides = [axis.stride for axis in windows]
    dilations = [axis.step for axis in windows]
    given = {"pads": ([*low, *high], 0), "strides": (strides, 1), "dilations": (dilations, 1)}
    return {name: items for name, (items, plain) in given.items() if set(items) != {plain}}


def _pooled(axes: Sequence[WindowAxis]) -> list[int]:
    return [number for number, axis in enumerate(axes) if axis.window != 1]


def _size(axes: Sequence[WindowAxis]) -> int:
    return math.prod(fixed([axis.window for axis in axes]))


def _plain_pool_is_right(em: Emitter, x: oir.Value, init: oir.Value, largest: bool) -> bool:
    """Whether MaxPool gives XLA's result, or the user has accepted its own."""
    if em.options.nan == "runtime":
        return True
    start = em.facts.constant(init)
    bounded = start is not None and bool(np.isfinite(start.astype(np.float64)).all())
    bounded = bounded or (largest and em.facts.float_range(x).low > -math.inf)
    if em.facts.nan_free(x) and bounded:
        return True
    if em.options.nan == "default":
        em.report.note(NAN_NOTE)
    return em.options.nan == "default"

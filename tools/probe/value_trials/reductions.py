"""Trials of reductions, cumulative sums, and what ranks elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    LIMITED,
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    i64,
    is_float,
    mixed,
    node,
    reference,
    spread,
    summands,
)

Values = Callable[..., Array]

_LAYOUTS = (
    ((VECTOR,), (0,)),
    ((5, VECTOR), (1,)),
    ((VECTOR, 5), (0,)),
    ((5, VECTOR), (0,)),
    ((3, 4, 9), (1,)),
    ((3, 4, 9), (0, 2)),
    ((3, 4, 9), (0, 1)),
    ((3, 4, 9), (1, 2)),
    ((3, 4, 9), None),
    ((2, 3), (1,)),
)
"""Shapes and axes: last, first, in the middle, several, all; long and short."""


def _reduction(op_type: str, values: Values, dtype: ir.DataType) -> list[Trial]:
    """All layouts, with and without the axes. The reference sums 32-bit integers in 64 bits."""
    found = []
    for number, (shape, axes) in enumerate(_LAYOUTS):
        x, keep = values(dtype, *shape, seed=number), number % 2
        inputs = (x,) if axes is None else (x, i64(*axes))
        (right,) = reference(op_type, inputs, 1, {"keepdims": keep})
        found.append(node(op_type, *inputs, right=(right.astype(x.dtype),), keepdims=keep))
    return found


def _factors(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to multiply: integers that overflow, floats that are exact."""
    if not is_float(dtype.numpy()):
        return mixed(dtype, *shape, seed=seed) | np.ones((), dtype.numpy())
    return spread(np.array([1, -1]), *shape, seed=seed).astype(dtype.numpy())


def _ordered(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to compare, with ties, the least and the largest not always among them."""
    values = edges(dtype)
    few = spread(values, max(len(values) // 4, 2), seed=seed)
    return spread(few, *shape, seed=seed + 1)


def _distinct(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to compare, all of them different. Those of INT32 need all bits."""
    count = int(np.prod(shape))
    numbers = np.random.default_rng(seed).permutation(count)
    if dtype == ir.DataType.INT32:
        near = np.where(numbers % 2, numbers, -numbers)  # next to both ends
        numbers = np.where(numbers % 2, 2**31 - 1 - near, -(2**31) - near)
    return numbers.astype(dtype.numpy()).reshape(shape)


def _cumulative(op_type: str, values: Values, dtype: ir.DataType) -> list[Trial]:
    layouts = (((VECTOR,), 0), ((5, VECTOR), 1), ((9, 4), 0))
    return [
        node(
            op_type,
            values(dtype, *shape, seed=number),
            np.asarray(axis),
            exclusive=exclusive,
            reverse=reverse,
        )
        for number, (shape, axis) in enumerate(layouts)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ]


_RANKED = (((VECTOR,), 0), ((5, VECTOR), 1), ((VECTOR, 5), 0), ((3, 9, 4), 1))


def _arg_extreme(op_type: str, last: int, dtype: ir.DataType) -> list[Trial]:
    return [
        node(
            op_type,
            _ordered(dtype, *shape, seed=number),
            axis=axis,
            keepdims=1,
            select_last_index=last,
        )
        for number, (shape, axis) in enumerate(_RANKED)
    ]


def _top_k(dtype: ir.DataType) -> list[Trial]:
    """Among equals the first comes first."""
    found = []
    for number, (shape, axis) in enumerate(_RANKED):
        x = (_distinct if LIMITED.get() else _ordered)(dtype, *shape, seed=number)
        if LIMITED.get() and len(np.unique(x)) < x.size:  # the type has too few numbers
            return []
        for largest in (0, 1):
            for k in (1, 4, shape[axis]):
                found.append(node("TopK", x, i64(k), outputs=2, axis=axis, largest=largest))
    return found


TRIALS: Mapping[str, Trials] = {
    **{op: partial(_arg_extreme, op, 0) for op in ("ArgMax", "ArgMin")},
    **{f"{op}[select_last_index=1]": partial(_arg_extreme, op, 1) for op in ("ArgMax", "ArgMin")},
    "CumProd": partial(_cumulative, "CumProd", _factors),
    "CumSum": partial(_cumulative, "CumSum", summands),
    **{op: partial(_reduction, op, _ordered) for op in ("ReduceMax", "ReduceMin")},
    **{
        op: partial(_reduction, op, summands) for op in ("ReduceL1", "ReduceSum", "ReduceSumSquare")
    },
    "ReduceProd": partial(_reduction, "ReduceProd", _factors),
    "TopK": _top_k,
}

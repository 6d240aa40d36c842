"""Trials of reductions, cumulative sums, and what ranks elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def _reduction(op_type: str, function: Callable[..., Array], values: Values) -> Trials:
    """`function(x, axis, keepdims)` over all layouts."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for number, (shape, axes) in enumerate(_LAYOUTS):
            x = values(dtype, *shape, seed=number)
            keep = number % 2
            with np.errstate(all="ignore"):
                right = np.asarray(function(x, axes, bool(keep)))
            inputs = (x,) if axes is None else (x, i64(*axes))
            found.append(Trial(op_type, inputs, (right.astype(x.dtype),), {"keepdims": keep}))
        return found

    return trials


def _fold(
    function: np.ufunc, prepare: Callable[[Array], Array] | None = None
) -> Callable[..., Array]:
    """A ufunc along axes, in the element type itself."""

    def fold(x: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        x = x if prepare is None else prepare(x)
        return np.asarray(function.reduce(x, axis=axes, keepdims=keepdims, dtype=x.dtype))

    return fold


def _extreme(function: np.ufunc) -> Callable[..., Array]:
    def fold(x: Array, axes: tuple[int, ...] | None, keepdims: bool) -> Array:
        return np.asarray(function.reduce(x, axis=axes, keepdims=keepdims))

    return fold


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


# -- cumulative ------------------------------------------------------------------------------------


def _cumulative(op_type: str, function: np.ufunc, values: Values) -> Trials:
    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for number, (shape, axis) in enumerate((((VECTOR,), 0), ((5, VECTOR), 1), ((9, 4), 0))):
            x = values(dtype, *shape, seed=number)
            for exclusive in (0, 1):
                for reverse in (0, 1):
                    right = _accumulated(function, x, axis, exclusive, reverse)
                    attributes = {"exclusive": exclusive, "reverse": reverse}
                    found.append(
                        Trial(op_type, (x, np.asarray(axis, np.int64)), (right,), attributes)
                    )
        return found

    return trials


def _accumulated(function: np.ufunc, x: Array, axis: int, exclusive: int, reverse: int) -> Array:
    if reverse:
        x = np.flip(x, axis)
    if exclusive:
        identity = np.full_like(x.take([0], axis), function.identity)
        x = np.concatenate([identity, x.take(range(x.shape[axis] - 1), axis)], axis)
    with np.errstate(all="ignore"):
        right = function.accumulate(x, axis, dtype=x.dtype)
    return np.ascontiguousarray(np.flip(right, axis) if reverse else right)


# -- ranks -----------------------------------------------------------------------------------------

_RANKED = (((VECTOR,), 0), ((5, VECTOR), 1), ((VECTOR, 5), 0), ((3, 9, 4), 1))


def _arg_extreme(op_type: str, last: bool) -> Trials:
    find = np.argmax if op_type == "ArgMax" else np.argmin

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for number, (shape, axis) in enumerate(_RANKED):
            x = _ordered(dtype, *shape, seed=number)
            right = find(np.flip(x, axis) if last else x, axis, keepdims=True)
            right = shape[axis] - 1 - right if last else right
            attributes = {"axis": axis, "keepdims": 1, "select_last_index": int(last)}
            found.append(Trial(op_type, (x,), (right,), attributes))
        return found

    return trials


def _top_k(dtype: ir.DataType) -> list[Trial]:
    """Among equals the first comes first."""
    found = []
    for number, (shape, axis) in enumerate(_RANKED):
        x = _ordered(dtype, *shape, seed=number)
        if LIMITED.get():
            x = _distinct(dtype, *shape, seed=number)
            if len(np.unique(x)) < x.size:  # the type has too few numbers
                return []
        for largest in (0, 1):
            keys = np.unique(x, return_inverse=True)[1].reshape(shape)
            order = np.argsort(-keys if largest else keys, axis, kind="stable")
            for k in (1, 4, shape[axis]):
                index = order.take(range(k), axis)
                right = (np.take_along_axis(x, index, axis), index.astype(np.int64))
                found.append(Trial("TopK", (x, i64(k)), right, {"axis": axis, "largest": largest}))
    return found


TRIALS: Mapping[str, Trials] = {
    **{
        key: _arg_extreme(op_type, last)
        for op_type in ("ArgMax", "ArgMin")
        for key, last in ((op_type, False), (f"{op_type}[select_last_index=1]", True))
    },
    "CumProd": _cumulative("CumProd", np.multiply, _factors),
    "CumSum": _cumulative("CumSum", np.add, summands),
    "ReduceL1": _reduction("ReduceL1", _fold(np.add, np.abs), summands),
    "ReduceMax": _reduction("ReduceMax", _extreme(np.maximum), _ordered),
    "ReduceMin": _reduction("ReduceMin", _extreme(np.minimum), _ordered),
    "ReduceProd": _reduction("ReduceProd", _fold(np.multiply), _factors),
    "ReduceSum": _reduction("ReduceSum", _fold(np.add), summands),
    "ReduceSumSquare": _reduction("ReduceSumSquare", _fold(np.add, np.square), summands),
    "TopK": _top_k,
}

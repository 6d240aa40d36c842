"""Reducing whole axes: by one ONNX node if the combiner has one, else by halving.

reduce_axes(em, combiner, x, axes)   named combiners, with StableHLO's NaN
first_extreme(em, combiner, x, axis) index of the first maximum or minimum
halve(em, function, tensors)         any associative function, over the leading axis
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.regions import ARG_EXTREMES, Combiner
from dialect_handlers.common.subgraphs import loop
from dialect_handlers.common.tensors import each, expanded_like, flat, regrouped
from hlo2onnx.ir.dims import canonical
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

Function = Callable[..., list[oir.Value]]
"""A region over whole tensors, as `Emitter.scalar_function` gives it."""

_REDUCERS = {
    Combiner.ADD: "ReduceSum",
    Combiner.MULTIPLY: "ReduceProd",
    Combiner.MINIMUM: "ReduceMin",
    Combiner.MAXIMUM: "ReduceMax",
}
_BOOLEAN_REDUCERS = {Combiner.AND: "ReduceMin", Combiner.OR: "ReduceMax", Combiner.XOR: "ReduceSum"}


def has_reducer(combiner: Combiner | None, dtype: oir.DataType) -> bool:
    """Whether `reduce_axes` knows the combiner for this element type."""
    return combiner in (_BOOLEAN_REDUCERS if dtype == oir.DataType.BOOL else _REDUCERS)


def reduce_axes(
    em: Emitter, combiner: Combiner, x: oir.Value, axes: Sequence[int], keepdims: bool = False
) -> oir.Value:
    """The combiner over these axes of x, none of which is empty; `has_reducer` must hold."""
    if dtype_of(x) == oir.DataType.BOOL:
        return _reduce_booleans(em, combiner, x, axes, keepdims)
    return _node(em, _REDUCERS[combiner], x, axes, keepdims)


def _reduce_booleans(
    em: Emitter, combiner: Combiner, x: oir.Value, axes: Sequence[int], keepdims: bool
) -> oir.Value:
    """all, any or parity, counted in integers: no opset before 20 reduces booleans."""
    parity = combiner == Combiner.XOR
    numbers = em.cast(x, oir.DataType.INT32 if parity else oir.DataType.UINT8)
    reduced = _node(em, _BOOLEAN_REDUCERS[combiner], numbers, axes, keepdims)
    if parity:
        reduced = em.BitwiseAnd(reduced, em.scalar_like(1, reduced))
    return em.cast(reduced, oir.DataType.BOOL)


def _node(
    em: Emitter, reducer: str, x: oir.Value, axes: Sequence[int], keepdims: bool
) -> oir.Value:
    return em.op(reducer, x, em.i64(sorted(axes)), keepdims=int(keepdims))


def first_extreme(em: Emitter, combiner: Combiner, x: oir.Value, axis: int) -> oir.Value:
    """The index (int64) of the first largest or smallest element; under ARGMAX and ARGMIN the
    first NaN beats every number."""
    bound = ARG_EXTREMES[combiner]
    arg_reducer = "ArgMax" if bound == Combiner.MAXIMUM else "ArgMin"
    if dtype_of(x) == oir.DataType.BOOL:
        x = em.cast(x, oir.DataType.UINT8)
    nan_wins = combiner in (Combiner.ARGMAX, Combiner.ARGMIN) and em.guards_nan
    if nan_wins and not em.facts.nan_free(x):
        x, arg_reducer = _ranks(em, bound, x, axis), "ArgMax"
    return em.op(arg_reducer, x, axis=axis, keepdims=0)


def _ranks(em: Emitter, bound: Combiner, x: oir.Value, axis: int) -> oir.Value:
    """2 for NaN, 1 for the extreme of the numbers, 0 for all else."""
    is_nan, neutral = em.IsNaN(x), np.inf if bound == Combiner.MINIMUM else -np.inf
    numbers = em.Where(is_nan, em.scalar_like(neutral, x), x)
    extreme = em.Equal(numbers, _node(em, _REDUCERS[bound], numbers, [axis], keepdims=True))
    rank = em.cast(extreme, oir.DataType.UINT8)
    return em.Where(is_nan, em.scalar_like(2, rank), rank)


def halve(em: Emitter, function: Function, tensors: Sequence[Parts]) -> list[Parts]:
    """Reduces the leading axis, of extent at least 1, to extent 1 in log2(rows) steps.

    Each step combines neighbours 0 and 1, 2 and 3, ..., so that lhs always holds the earlier
    elements. A row left over goes to the next step unchanged. Over a symbolic axis the steps are
    the trips of a Loop.
    """
    rows, *rest = shape_of(tensors[0][0])
    if isinstance(rows, int):
        tensors = list(tensors)
        while rows > 1:
            tensors, rows = _halved(em, function, tensors, rows), rows - rows // 2
        return tensors

    def step(_: oir.Value, states: list[Parts]) -> tuple[oir.Value, list[Parts]]:
        rows = em.extents.extent_of(states[0][0], 0)
        for part in flat(states):
            part.shape = oir.Shape((rows, *rest))
        results = _halved(em, function, states, rows)
        left = em.extents.value(canonical(rows - rows // 2))
        return em.squeeze(em.Greater(left, em.i64([1])), [0]), results

    some: list[Dim] = [oir.SymbolicDim(None), *rest]
    states = each(lambda part: em.value("halved", dtype_of(part), some), tensors)
    many = em.squeeze(em.Greater(em.extents.value(rows), em.i64([1])), [0])
    return loop(em, "halving", (None, many), tensors, states, step)


def _halved(em: Emitter, function: Function, tensors: Sequence[Parts], rows: Dim) -> list[Parts]:
    even = canonical(rows // 2 * 2)
    lhs, rhs = (
        each(lambda x, first=first: em.slice(x, [first], [even], [2], [0]), tensors)
        for first in (0, 1)
    )
    pairs = combine(em, function, lhs, rhs)
    if even == rows:
        return pairs
    left_over = each(lambda x: em.slice(x, [even], [rows], axes=[0]), tensors)
    return each(lambda *parts: em.concat(parts, axis=0), pairs, left_over)


def combine(
    em: Emitter, function: Function, lhs: Sequence[Parts], rhs: Sequence[Parts]
) -> list[Parts]:
    """function(lhs..., rhs...) with each result in the shape of its rhs."""
    results = regrouped(function(*lhs, *rhs), rhs)
    # A result that reads none of the tensors is still a scalar.
    return each(partial(expanded_like, em), results, rhs)

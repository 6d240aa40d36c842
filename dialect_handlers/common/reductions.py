"""Reducing whole axes: by one ONNX node where the combiner has one, by halving for any other.

reduce_axes(em, combiner, x, axes)   named combiners, NaN winning as in StableHLO
first_extreme(em, combiner, x, axis) index of the first maximum or minimum
halve(em, function, tensors)         any associative function, over the leading axis
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.regions import ARG_EXTREMES, Combiner
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


def halve(em: Emitter, function: Function, tensors: Sequence[Parts], rows: int) -> list[Parts]:
    """Reduces the leading axis, of extent `rows` >= 1, to extent 1 in log2(rows) steps.

    Neighbours 0 and 1, 2 and 3, ... are combined at once, so that lhs always stands for the
    earlier elements; a row left over goes to the next step as it is.
    """
    tensors = list(tensors)
    while rows > 1:
        even = rows // 2 * 2
        lhs, rhs = (
            [
                tuple(em.slice(part, [first], [even], [2], [0]) for part in parts)
                for parts in tensors
            ]
            for first in (0, 1)
        )
        pairs = combine(em, function, lhs, rhs)
        if even < rows:
            pairs = [
                tuple(
                    em.concat([pair, em.slice(part, [even], [rows], axes=[0])], axis=0)
                    for pair, part in zip(new, old, strict=True)
                )
                for new, old in zip(pairs, tensors, strict=True)
            ]
        tensors, rows = pairs, rows - even // 2
    return tensors


def halve_in_loop(em: Emitter, function: Function, tensors: Sequence[Parts]) -> list[Parts]:
    """`halve` of a leading axis of symbolic extent, which is at least 1."""
    rest = shape_of(tensors[0][0])[1:]
    states = [
        tuple(em.value("halved", dtype_of(part), (oir.SymbolicDim(None), *rest)) for part in parts)
        for parts in tensors
    ]
    trip = em.value("trip", oir.DataType.INT64, [])
    going_on = em.value("on", oir.DataType.BOOL, [])
    flat = [part for parts in states for part in parts]
    with em.subgraph([trip, going_on, *flat], "halving") as body:
        rows = em.extents.extent_of(flat[0], 0)
        for part in flat:
            part.shape = oir.Shape((rows, *rest))
        even: Dim = canonical(rows // 2 * 2)
        lhs, rhs = (
            [tuple(em.slice(x, [first], [even], [2], [0]) for x in parts) for parts in states]
            for first in (0, 1)
        )
        results = [
            em.concat([pair, em.slice(part, [even], [rows], axes=[0])], axis=0)
            for new, old in zip(combine(em, function, lhs, rhs), states, strict=True)
            for pair, part in zip(new, old, strict=True)
        ]
        left = em.extents.value(canonical(rows - rows // 2))
        body.outputs.append(em.squeeze(em.Greater(left, em.i64([1])), [0]))
        body.outputs.extend(results)
    initial = [part for parts in tensors for part in parts]
    many = em.Greater(em.extents.value(shape_of(initial[0])[0]), em.i64([1]))
    types = [(dtype_of(part), (oir.SymbolicDim(None), *rest)) for part in initial]
    operands = [None, em.squeeze(many, [0]), *initial]
    final = iter(em.node("Loop", operands, {"body": body}, types))
    return [tuple(next(final) for _ in parts) for parts in tensors]


def combine(
    em: Emitter, function: Function, lhs: Sequence[Parts], rhs: Sequence[Parts]
) -> list[Parts]:
    """function(lhs..., rhs...) with each result in the shape of its rhs."""
    flat = iter(function(*lhs, *rhs))
    return [tuple(_shaped_like(em, next(flat), part) for part in parts) for parts in rhs]


def _shaped_like(em: Emitter, x: oir.Value, like: oir.Value) -> oir.Value:
    """x itself unless it reads none of the tensors and so is a scalar still."""
    shape = shape_of(like)
    if shape_of(x) == shape:
        return x
    return em.op("Expand", x, em.Shape(like), types=[(dtype_of(x), shape)])

"""Sorting tensors together by a comparator, or the first k of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.sort_keys import (
    Key,
    Order,
    SortKey,
    keys_of,
    permutation,
    sort_keys,
    top_k,
)
from dialect_handlers.common.tensors import count_along, each
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.values import MlirValue, counts_along
from hlo2onnx.ir.values import Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

# -- sorting tensors together by a comparator region, or the first k of them ------------------


def sort_by_region(
    em: Emitter, block: ir.Block, operands: Sequence[MlirValue], axis: int, k: Dim | None = None
) -> list[Parts]:
    """MLIR values sorted together along the axis, stably; the first k elements, or all.

    The comparator takes (lhs_0, rhs_0, lhs_1, rhs_1, ...).
    """
    inputs = [em.parts(value) for value in operands]
    known = sort_keys(em, block)
    if known is None:
        indices, values = _by_comparing(em, block, inputs, axis, k), None
    else:
        keys = [key for name in known for key in _keys(em, block, name, inputs)]
        if len(keys) == 1:
            values, indices = top_k(em, keys[0], axis, k)
        else:
            indices, values = permutation(em, keys, axis, k), None
    results: list[Parts] = []
    for value, parts in zip(operands, inputs, strict=True):
        if counts_along(value, axis):
            results.append((em.cast(indices, dtype_of(parts[0])),))
        elif values is not None and parts[0] is keys[0].tensor:
            results.append((values,))
        else:
            results.append(tuple(em.GatherElements(part, indices, axis=axis) for part in parts))
    return results


def _keys(em: Emitter, block: ir.Block, key: SortKey, inputs: Sequence[Parts]) -> list[Key]:
    """The values that the comparator compares, for all elements: lhs and rhs are the same
    tensors."""
    function = em.scalar_function(block, [key.value])
    (tensor,) = function(*(parts for parts in inputs for _ in range(2)))
    return keys_of(em, tensor, key.order, key.descending)


def _by_comparing(
    em: Emitter, block: ir.Block, inputs: Sequence[Parts], axis: int, k: Dim | None
) -> oir.Value:
    dims = [dim for dim in shape_of(inputs[0][0]) if isinstance(dim, int)]
    if len(dims) != len(shape_of(inputs[0][0])):
        raise UnsupportedOp(
            "custom sort comparators need static shapes",
            "lower the function for static shapes",
        )
    indices = by_network(em, em.scalar_function(block), inputs, dims, axis)
    return indices if k is None else em.slice(indices, [0], [k], axes=[axis])


# -- the k largest or smallest elements of the last axis, in total order ----------------------


def largest_of(em: Emitter, x: oir.Value, k: Dim, largest: bool = True) -> list[oir.Value]:
    """The elements and their indices (i32); equal ones in the order of their indices."""
    axis = rank_of(x) - 1
    keys = keys_of(em, x, Order.TOTAL, descending=largest)
    if len(keys) == 1 and keys[0].tensor is x:
        values, indices = top_k(em, keys[0], axis, k)
    else:
        indices = permutation(em, keys, axis, k)
        values = em.GatherElements(x, indices, axis=axis)
    return [values, em.cast(indices, oir.DataType.INT32)]


# -- sorting by an arbitrary comparator, which is applied to whole tensors --------------------
#
# A sorting network of log2(n)² / 2 steps of n comparisons, in a Scan.


T = oir.DataType
Comparator = Callable[..., list[oir.Value]]
"""A comparator over whole tensors, as `Emitter.scalar_function` gives it."""


def _compare(comparator: Comparator, lhs: Sequence[Parts], rhs: Sequence[Parts]) -> oir.Value:
    pairs = (part for pair in zip(lhs, rhs, strict=True) for part in pair)
    (before,) = comparator(*pairs)
    return before


def by_network(
    em: Emitter, comparator: Comparator, operands: Sequence[Parts], dims: Sequence[int], axis: int
) -> oir.Value:
    """The stable permutation (i64) that sorts the operands, of shape `dims`, along the axis.

    Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2M), which takes any extent. Indices
    distinguish equal elements, so the sort is stable."""
    start = count_along(em, dims, axis, T.INT64)
    steps = em.const(np.array(_steps(dims[axis]), np.int64))
    state = em.value("permutation", T.INT64, dims)
    step = em.value("step", T.INT64, [3])
    with em.subgraph([state, step], "exchange") as body:
        body.outputs.append(_exchanged(em, comparator, operands, dims, axis, state, step))
    return em.Scan(start, steps, body=body, num_scan_inputs=1, types=[(T.INT64, tuple(dims))])


def _steps(extent: int) -> list[tuple[int, int, int]]:
    """(p, r, d) of each step: every i with (i & p) == r is compared with i + d."""
    steps = []
    top = 1 << max(extent - 1, 1).bit_length() - 1
    p = top
    while p:
        q, r, d = top, 0, p
        steps.append((p, r, d))
        while q != p:
            d, q, r = q - p, q // 2, p
            steps.append((p, r, d))
        p //= 2
    return steps


def _exchanged(
    em: Emitter,
    comparator: Comparator,
    operands: Sequence[Parts],
    dims: Sequence[int],
    axis: int,
    own: oir.Value,
    step: oir.Value,
) -> oir.Value:
    """One step: each element of the permutation, or its partner's element."""
    extent = dims[axis]
    place = em.const(np.arange(extent))
    p, r, d = (em.Gather(step, em.i64(index), axis=0) for index in range(3))
    above, below = em.Add(place, d), em.Sub(place, d)
    is_low = em.And(em.Equal(em.BitwiseAnd(place, p), r), em.Less(above, em.i64(extent)))
    is_high = em.And(em.Equal(em.BitwiseAnd(below, p), r), em.GreaterOrEqual(below, em.i64(0)))
    partner = em.Where(is_low, above, em.Where(is_high, below, place))
    other = em.Gather(own, partner, axis=axis)
    is_high = em.reshape(is_high, [extent if a == axis else 1 for a in range(len(dims))])
    first, second = em.Where(is_high, other, own), em.Where(is_high, own, other)
    lhs = each(lambda x: em.GatherElements(x, first, axis=axis), operands)
    rhs = each(lambda x: em.GatherElements(x, second, axis=axis), operands)
    came_later = em.Less(second, first)
    ties = em.And(came_later, em.Not(_compare(comparator, lhs, rhs)))
    exchanged = em.Or(_compare(comparator, rhs, lhs), ties)
    return em.Where(exchanged, other, own)

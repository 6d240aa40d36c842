"""Cumulative windows: window i holds everything up to element i, or from it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as oir

from dialect_handlers.common.parts import each
from dialect_handlers.common.subgraphs import loop, states_of
from dialect_handlers.common.windows import Prefix
from hlo2onnx.ir.dims import difference, product
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

Combine = Callable[[Sequence[Parts], Sequence[Parts]], list[Parts]]
"""combine(earlier, later): a region over tuples of tensors."""

CUMSUM_TYPES = frozenset(
    {
        oir.DataType.FLOAT,
        oir.DataType.DOUBLE,
        oir.DataType.FLOAT16,
        oir.DataType.BFLOAT16,
        oir.DataType.INT32,
        oir.DataType.INT64,
        oir.DataType.UINT32,
        oir.DataType.UINT64,
    }
)
"""Element types that ONNX defines CumSum for."""


def doubling_scan(
    em: Emitter, combine: Combine, tensors: Sequence[Parts], axis: int, *, reverse: bool
) -> list[Parts]:
    """Inclusive scan by any associative function in log2(n) steps: after the step of distance d
    element i holds the 2d elements that end (start, if reverse) with it. Over an axis of symbolic
    extent the steps are the trips of a Loop."""
    extent, distance = shape_of(tensors[0][0])[axis], 1
    if isinstance(extent, int):
        while distance < extent:
            tensors = _doubled(em, combine, tensors, axis, distance, reverse)
            distance *= 2
        return list(tensors)

    def step(_: oir.Value, states: list[Parts]) -> tuple[oir.Value, list[Parts]]:
        ((covered,), *scanned) = states
        distance = em.extents.held_by(em.reshape(covered, [1]))
        results = _doubled(em, combine, scanned, axis, distance, reverse)
        twice = em.Add(covered, covered)
        return em.Less(twice, length), [(twice,), *results]

    length, one = em.extents.scalar(extent), em.i64(1)
    initial = [(one,), *tensors]
    states = states_of(em, "scanned", initial)
    return loop(em, "doubling", (None, em.Less(one, length)), initial, states, step)[1:]


def _doubled(
    em: Emitter,
    combine: Combine,
    tensors: Sequence[Parts],
    axis: int,
    distance: Dim,
    reverse: bool,
) -> list[Parts]:
    """One step of a scan."""

    def cut(start: Dim, limit: Dim) -> list[Parts]:
        return each(lambda x: em.slice(x, [start], [limit], axes=[axis]), tensors)

    extent = shape_of(tensors[0][0])[axis]
    rest = difference(extent, distance)
    before, after = cut(0, rest), cut(distance, extent)
    done = cut(rest, extent) if reverse else cut(0, distance)
    pairs = combine(before, after)
    joined = (pairs, done) if reverse else (done, pairs)
    return each(lambda *parts: em.concat(parts, axis), *joined)


def cumulative_sum(em: Emitter, x: oir.Value, axis: int, prefix: Prefix) -> oir.Value:
    """CumSum; over long or symbolic axes of floats, CumSum in blocks of the same length plus the
    CumSum of the blocks' sums. Zeros fill the last block.

    Precondition: the element type is one of CUMSUM_TYPES.
    """
    dims = shape_of(x)
    extent, before, behind = dims[axis], dims[:axis], dims[axis + 1 :]
    fits = isinstance(extent, int) and extent <= em.costs.cumulative_sum_terms
    if fits or dtype_of(x) not in FLOATS or not em.target.flags.naive_sums:
        return _cum_sum(em, x, axis, prefix)
    blocks, length = _blocks(em, extent)
    room = product((blocks, length))
    if room != extent:
        pads = em.extents.vector([0, difference(room, extent)])
        types = [(dtype_of(x), (*before, room, *behind))]
        x = em.op("Pad", x, pads, em.scalar_like(0, x), em.i64([axis]), types=types)
    x = em.reshape(x, [*before, blocks, length, *behind])
    sums = em.ReduceSum(x, em.i64([axis + 1]), keepdims=1)
    others = _cum_sum(em, sums, axis, Prefix(prefix.reverse, exclusive=True))
    x = em.Add(_cum_sum(em, x, axis + 1, prefix), others)
    x = em.reshape(x, [*before, room, *behind])
    return em.slice(x, [0], [extent], axes=[axis])


def _blocks(em: Emitter, extent: Dim) -> tuple[Dim, Dim]:
    """The number of blocks and their length: about sqrt(n) both, or as many blocks as
    the target asks for where n is symbolic."""
    if isinstance(extent, int):
        static_length = 1 << (extent.bit_length() // 2)
        return -(-extent // static_length), static_length
    size, one = em.extents.value(extent), em.i64([1])
    blocks = em.Add(em.Div(size, em.i64([int(em.costs.cumulative_sum_terms)])), one)
    length = em.Div(em.Add(size, em.Sub(blocks, one)), blocks)
    return em.extents.held_by(blocks), em.extents.held_by(length)


def _cum_sum(em: Emitter, x: oir.Value, axis: int, prefix: Prefix) -> oir.Value:
    return em.CumSum(x, em.i64(axis), reverse=int(prefix.reverse), exclusive=int(prefix.exclusive))

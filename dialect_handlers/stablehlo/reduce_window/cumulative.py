"""Cumulative windows: window i holds everything up to element i, or from it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as oir

from dialect_handlers.stablehlo.reduce_window.geometry import Prefix
from hlo2onnx.ir.dims import canonical, difference
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

LONGEST_CUMSUM = 4096
"""Longest axis of floats for one CumSum. It adds one by one, so that its error grows with the
length: 0.5 of the f32 tolerance at 10,000 elements, 4 at 100,000. Sums of blocks of about sqrt(n)
stay below 0.4 up to 1,000,000 and take the same time."""


def doubling_scan(
    em: Emitter, combine: Combine, tensors: Sequence[Parts], axis: int, *, reverse: bool
) -> list[Parts]:
    """Inclusive scan by any associative function in log2(n) steps: after the step of distance d
    element i holds the 2d elements that end (start, if reverse) with it."""
    extent = _extent(tensors[0][0], axis)
    distance = 1
    while distance < extent:
        before = _cut(em, tensors, axis, 0, extent - distance)
        after = _cut(em, tensors, axis, distance, extent)
        pairs = combine(before, after)
        done = (
            _cut(em, tensors, axis, extent - distance, extent)
            if reverse
            else _cut(em, tensors, axis, 0, distance)
        )
        tensors = [
            tuple(
                em.concat([pair, rest] if reverse else [rest, pair], axis)
                for pair, rest in zip(new, old, strict=True)
            )
            for new, old in zip(pairs, done, strict=True)
        ]
        distance *= 2
    return list(tensors)


def doubling_loop(
    em: Emitter, combine: Combine, tensors: Sequence[Parts], axis: int, *, reverse: bool
) -> list[Parts]:
    """`doubling_scan` along an axis of symbolic extent: a Loop while the distance is smaller."""
    extent = em.squeeze(em.extents.value(shape_of(tensors[0][0])[axis]), [0])
    one = em.i64(1)
    states = [
        tuple(em.value("scanned", dtype_of(part), shape_of(part)) for part in parts)
        for parts in tensors
    ]
    trip = em.value("trip", oir.DataType.INT64, [])
    going_on = em.value("on", oir.DataType.BOOL, [])
    covered = em.value("distance", oir.DataType.INT64, [])
    flat = [part for parts in states for part in parts]
    with em.subgraph([trip, going_on, covered, *flat], "doubling") as body:
        distance = em.extents.held_by(em.reshape(covered, [1]))
        results = _doubled(em, combine, states, axis, distance, reverse)
        twice = em.Add(covered, covered)
        body.outputs.extend([em.Less(twice, extent), twice])
        body.outputs.extend(part for parts in results for part in parts)
    initial = [one, *(part for parts in tensors for part in parts)]
    types = [(dtype_of(part), shape_of(part)) for part in initial]
    operands = [None, em.Less(one, extent), *initial]
    _, *outputs = em.node("Loop", operands, {"body": body}, types)
    final = iter(outputs)
    return [tuple(next(final) for _ in parts) for parts in tensors]


def _doubled(
    em: Emitter,
    combine: Combine,
    tensors: Sequence[Parts],
    axis: int,
    distance: Dim,
    reverse: bool,
) -> list[Parts]:
    """One step of a scan."""
    extent = shape_of(tensors[0][0])[axis]
    rest = difference(extent, distance)
    before = _cut(em, tensors, axis, 0, rest)
    after = _cut(em, tensors, axis, distance, extent)
    done = (
        _cut(em, tensors, axis, rest, extent) if reverse else _cut(em, tensors, axis, 0, distance)
    )
    return [
        tuple(
            em.concat([pair, kept] if reverse else [kept, pair], axis)
            for pair, kept in zip(new, old, strict=True)
        )
        for new, old in zip(combine(before, after), done, strict=True)
    ]


def cumulative_sum_of_any_length(em: Emitter, x: oir.Value, axis: int, prefix: Prefix) -> oir.Value:
    """`cumulative_sum` along an axis of symbolic extent: as many blocks as LONGEST_CUMSUM asks for,
    all of the same length, behind zeros that fill the last one."""
    if dtype_of(x) not in FLOATS:
        return _cum_sum(em, x, axis, prefix)
    dims = shape_of(x)
    extent = em.extents.value(dims[axis])
    one = em.i64([1])
    blocks = em.Add(em.Div(extent, em.i64([LONGEST_CUMSUM])), one)
    length = em.Div(em.Add(extent, em.Sub(blocks, one)), blocks)
    rows, columns = em.extents.held_by(blocks), em.extents.held_by(length)
    missing = em.Sub(em.Mul(blocks, length), extent)
    filled = em.op(
        "Pad", x, em.concat([em.i64([0]), missing], 0), em.scalar_like(0, x), em.i64([axis]),
        types=[(dtype_of(x), (*dims[:axis], canonical(rows * columns), *dims[axis + 1 :]))],
    )  # fmt: skip
    x = em.reshape(filled, [*dims[:axis], rows, columns, *dims[axis + 1 :]])
    sums = em.ReduceSum(x, em.i64([axis + 1]), keepdims=1)
    others = _cum_sum(em, sums, axis, Prefix(prefix.reverse, exclusive=True))
    x = em.Add(_cum_sum(em, x, axis + 1, prefix), others)
    x = em.reshape(x, shape_of(filled))
    return em.slice(x, [0], [dims[axis]], axes=[axis])


def cumulative_sum(em: Emitter, x: oir.Value, axis: int, prefix: Prefix) -> oir.Value:
    """CumSum; over long axes of floats, CumSum in blocks plus the CumSum of the blocks' sums.

    Precondition: the element type is one of CUMSUM_TYPES.
    """
    dims, extent = shape_of(x), _extent(x, axis)
    if extent <= LONGEST_CUMSUM or dtype_of(x) not in FLOATS:
        return _cum_sum(em, x, axis, prefix)
    block = 1 << (extent.bit_length() // 2)
    blocks = -(-extent // block)
    if blocks * block > extent:
        x = em.Pad(x, em.i64([0, blocks * block - extent]), em.scalar_like(0, x), em.i64([axis]))
    x = em.reshape(x, [*dims[:axis], blocks, block, *dims[axis + 1 :]])
    sums = em.ReduceSum(x, em.i64([axis + 1]), keepdims=1)
    others = _cum_sum(em, sums, axis, Prefix(prefix.reverse, exclusive=True))
    x = em.Add(_cum_sum(em, x, axis + 1, prefix), others)
    x = em.reshape(x, [*dims[:axis], blocks * block, *dims[axis + 1 :]])
    return em.slice(x, [0], [extent], axes=[axis])


def _cum_sum(em: Emitter, x: oir.Value, axis: int, prefix: Prefix) -> oir.Value:
    return em.CumSum(x, em.i64(axis), reverse=int(prefix.reverse), exclusive=int(prefix.exclusive))


def _cut(em: Emitter, tensors: Sequence[Parts], axis: int, start: Dim, limit: Dim) -> list[Parts]:
    return [
        tuple(em.slice(part, [start], [limit], axes=[axis]) for part in parts) for parts in tensors
    ]


def _extent(x: oir.Value, axis: int) -> int:
    """The extent of the axis that windows move along, which is static."""
    dim = shape_of(x)[axis]
    assert isinstance(dim, int)
    return dim

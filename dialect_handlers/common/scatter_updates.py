"""Combining updates into rows of a tensor: the second half of scatter and select_and_scatter.

scatter_rows(...)      for updates with distinct targets
scatter_last(...)      for overwriting updates with equal targets, of which the last one stays
scatter_in_order(...)  for equal targets

A runtime's ScatterND may work on rows in parallel without locks, so equal indices reorder writes
and lose sums. Its ScatterElements processes the indices one by one, in order. A ScatterND of few
elements works in one thread, in order, if the target says so (`Costs.ordered_scatter_elements`):
more rows go through it in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.reductions import Function, combine
from dialect_handlers.common.regions import Combiner, neutral, recognise_each
from dialect_handlers.common.subgraphs import in_blocks, repeat, set_outputs
from dialect_handlers.common.tensors import count_along, each
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.dims import at_most, is_positive, product, quotient, total
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

T = oir.DataType

_EXTREMES = (Combiner.MINIMUM, Combiner.MAXIMUM)
_REDUCTIONS = {
    Combiner.ADD: "add",
    Combiner.MULTIPLY: "mul",
    Combiner.MINIMUM: "min",
    Combiner.MAXIMUM: "max",
}
_BOOLEAN = {
    Combiner.AND: Combiner.MINIMUM,
    Combiner.OR: Combiner.MAXIMUM,
    Combiner.XOR: Combiner.ADD,
}
"""The combiners of booleans on the numbers 0 and 1; a sum gives its parity."""
_ANY_PARTS = (Combiner.ADD, Combiner.LHS, Combiner.RHS)
"""The combiners that act on the parts of a complex number one by one."""


@dataclass(frozen=True)
class Region:
    """How an update is combined with the present element.

    Attributes:
        function: The region over whole tensors.
        combiners: Its name on each operand; None unless `scatter_in_order` has a node for it.
    """

    function: Function
    combiners: list[Combiner | None]

    @property
    def replaces(self) -> bool:
        """Whether it returns the update."""
        return all(name == Combiner.RHS for name in self.combiners)


def region_of(em: Emitter, block: ir.Block) -> Region:
    """The region of a scatter or of a select_and_scatter."""
    names: list[Combiner | None] = []
    for name, argument in zip(recognise_each(em, block), block.arguments, strict=False):
        parts = parts_of(argument.type)
        known = {*_REDUCTIONS, *_ANY_PARTS, *(_BOOLEAN if parts[0].dtype == T.BOOL else ())}
        fits = name in known and (len(parts) == 1 or name in _ANY_PARTS)
        names.append(name if fits else None)
    return Region(em.scalar_function(block), names)


# -- distinct rows ---------------------------------------------------------------------------


def scatter_rows(
    em: Emitter,
    region: Region,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
) -> list[Parts]:
    """ScatterND of whole rows. It takes the operands of `scatter_in_order`, but no two valid rows
    of the index are equal."""
    rows, before = shape_of(xs[0][0])[0], xs
    direct = all(_direct(name, parts) for name, parts in zip(region.combiners, xs, strict=True))
    if valid is not None:
        xs, index, updates = _counting(em, xs, index, updates, valid, drops=direct)
    index = em.unsqueeze(em.cast(index, T.INT64), [1])
    if not direct:
        old = each(lambda x: em.GatherND(x, index), xs)
        updates = combine(em, region.function, old, updates)
    names = [_REDUCTIONS.get(name) if name and direct else None for name in region.combiners]
    written = [
        tuple(
            em.ScatterND(part, index, row, reduction=name) for part, row in zip(x, new, strict=True)
        )
        for name, x, new in zip(names, xs, updates, strict=True)
    ]
    return _results(em, region, before, written, rows)


def _direct(name: Combiner | None, parts: Parts) -> bool:
    """Whether ScatterND itself combines: its extremes lose NaN and know no booleans."""
    if name in _EXTREMES:
        return dtype_of(parts[0]) not in FLOATS
    return name in (Combiner.ADD, Combiner.MULTIPLY, Combiner.LHS, Combiner.RHS)


def _results(
    em: Emitter, region: Region, before: Sequence[Parts], after: Sequence[Parts], rows: Dim
) -> list[Parts]:
    """The tensors without spare rows; those that the region returns are unchanged."""
    whole = each(lambda x: em.slice(x, [0], [rows], axes=[0]), after)
    names = zip(region.combiners, before, whole, strict=True)
    return [old if name == Combiner.LHS else new for name, old, new in names]


# -- the last row -----------------------------------------------------------------------------


UPDATES_PER_ROW = 4
"""Updates for each row of an operand from which on copying its rows once more is no cost."""


def scatter_last(
    em: Emitter,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
) -> list[Parts]:
    """The tensors with the last row of the updates for each of their rows, if there is one.

    Only one integer for each update goes through a scatter in order. It takes the operands of
    `scatter_in_order`.
    """
    rows, count = shape_of(xs[0][0])[0], shape_of(index)[0]
    limit = em.extents.scalar(rows)
    place = count_along(em, [rows if valid is None else total(rows, 1)], 0, T.INT64)
    if valid is not None:
        index = em.Where(valid, index, em.cast(limit, dtype_of(index)))
    behind = em.Add(count_along(em, [count], 0, T.INT64), limit)
    place = em.ScatterElements(place, index, behind, axis=0, reduction="max")
    place = em.slice(place, [0], [rows])
    if at_most(product((rows, UPDATES_PER_ROW)), count):
        # Only the rows that stay are read.
        last = em.Max(em.Sub(place, limit), em.i64(0))
        written = em.cast(em.GreaterOrEqual(place, limit), T.INT64)
        place = em.Add(count_along(em, [rows], 0, T.INT64), em.Mul(written, limit))
        updates = each(lambda x: em.Gather(x, last, axis=0), updates)
    # Where of the runtime may lose the sign of a zero.
    return each(lambda x, update: em.Gather(em.concat([x, update], 0), place, axis=0), xs, updates)


# -- rows in order ----------------------------------------------------------------------------


def scatter_in_order(
    em: Emitter,
    region: Region,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
    *,
    trips: Dim = 1,
    at_once: int = 0,
) -> list[Parts]:
    """The tensors, combined with one row of updates after the other.

    Args:
        xs: Tensors of shape (rows, ...).
        index: The row for each update, of shape (updates); inside also where not valid.
        updates: Tensors of shape (updates, ...).
        valid: Which updates count, of shape (updates); None for all of them.
        trips: Number of equal consecutive parts of the updates, each without equal targets. It is
            the length of the Loop for a region without names.
        at_once: Rows that a ScatterND takes in order; 0 for single elements, by ScatterElements.
    """
    rows, before = shape_of(xs[0][0])[0], xs
    block = 0 if at_once == shape_of(index)[0] else at_once
    is_named = None not in region.combiners
    if valid is not None and _REDUCTIONS.keys() >= set(region.combiners) and _are_few(updates, xs):
        updates = _neutralized(em, region, updates, valid)
    elif valid is not None:
        drops = is_named and not block
        xs, index, updates = _counting(em, xs, index, updates, valid, drops=drops)
    if at_once:
        index = em.unsqueeze(em.cast(index, T.INT64), [1])
    if is_named:
        done = [
            tuple(
                _accumulated(em, name, x, index, update, block)
                for x, update in zip(parts, news, strict=True)
            )
            for name, parts, news in zip(region.combiners, xs, updates, strict=True)
        ]
    else:
        done = _one_by_one(em, region.function, xs, index, updates, trips)
    return _results(em, region, before, done, rows)


def _accumulated(
    em: Emitter,
    name: Combiner | None,
    x: oir.Value,
    index: oir.Value,
    updates: oir.Value,
    block: int,
) -> oir.Value:
    """One tensor, combined with updates that all count.

    Args:
        index: Of shape (updates, 1) for ScatterND, (updates) for ScatterElements.
        block: Updates in a block; 0 for all at once.
    """
    assert name is not None
    dtype = dtype_of(x)
    if name == Combiner.LHS:
        return x
    if name == Combiner.RHS:
        return _scattered(em, x, index, updates, None, block)
    if dtype == T.BOOL:
        counts = em.cast(x, T.UINT8), index, em.cast(updates, T.UINT8)
        counted = _scattered(em, *counts, _REDUCTIONS[_BOOLEAN[name]], block)
        if name == Combiner.XOR:
            counted = em.BitwiseAnd(counted, em.scalar_like(1, counted))
        return em.cast(counted, T.BOOL)
    if block and dtype in FLOATS and dtype.bitwidth < T.FLOAT.bitwidth:
        # f32 through all blocks, so that the result is rounded once.
        x, updates = em.cast(x, T.FLOAT), em.cast(updates, T.FLOAT)
    end = _scattered(em, x, index, updates, _REDUCTIONS[name], block)
    if name in _EXTREMES and dtype in FLOATS and em.guards_nan:
        end = _keeping_nan(em, end, x, index, updates, block)
    return em.cast(end, dtype)


def _scattered(
    em: Emitter,
    x: oir.Value,
    index: oir.Value,
    updates: oir.Value,
    reduction: str | None,
    block: int,
) -> oir.Value:
    if rank_of(index) == 1:
        return em.ScatterElements(x, index, updates, axis=0, reduction=reduction)
    if not block:
        return em.ScatterND(x, index, updates, reduction=reduction)

    def step(states: Sequence[Parts], given: Sequence[oir.Value]) -> list[Parts]:
        return [(em.ScatterND(states[0][0], *given, reduction=reduction),)]

    ((end,),) = in_blocks(em, "rows", [(x,)], [index, updates], block, step)
    return end


def _keeping_nan(
    em: Emitter,
    end: oir.Value,
    x: oir.Value,
    index: oir.Value,
    updates: oir.Value,
    block: int,
) -> oir.Value:
    """The extremes with the NaN that the runtime loses.

    A sum of non-negative numbers is NaN only if one of them is. Of many updates it is computed only
    if the sum of all is NaN, as it also may be where infinities or large numbers cancel.
    """
    suspects = [part for part in (x, updates) if not em.facts.nan_free(part)]
    if not suspects:
        return end

    def kept() -> oir.Value:
        witness = _scattered(em, em.Relu(x), index, em.Relu(updates), "add", block)
        return em.Where(em.IsNaN(witness), witness, end)

    if not block:
        return kept()
    # A vector is added faster than rows of few elements.
    vectors = [em.reshape(part, [_size(part)]) for part in suspects]
    total = reduce(em.Add, [em.ReduceSum(part, keepdims=0) for part in vectors])
    graphs = []
    for branch, emit in (("nan", kept), ("numbers", lambda: end)):
        with em.subgraph([], f"{em.scope}/{branch}") as graph:
            set_outputs(em, graph, [emit()])
        graphs.append(graph)
    chosen: oir.Value = em.If(em.IsNaN(total), then_branch=graphs[0], else_branch=graphs[1])
    return chosen


def _one_by_one(
    em: Emitter,
    function: Function,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    trips: Dim,
) -> list[Parts]:
    """A Loop that combines one part of the updates, elements of vectors, after the other."""
    width = quotient(_size(index), trips)
    index = em.reshape(index, [trips, width])
    news = each(lambda x: em.reshape(x, [trips, width]), updates)

    def step(trip: oir.Value, states: list[Parts]) -> list[Parts]:
        where = em.Gather(index, trip, axis=0)
        old = each(lambda x: em.Gather(x, where, axis=0), states)
        new = each(lambda x: em.Gather(x, trip, axis=0), news)
        combined = combine(em, function, old, new)
        return each(lambda x, y: em.ScatterElements(x, where, y, axis=0), states, combined)

    return repeat(em, "updates", trips, xs, step)


# -- updates that do not count ----------------------------------------------------------------


def _counting(
    em: Emitter,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value,
    *,
    drops: bool,
) -> tuple[Sequence[Parts], oir.Value, Sequence[Parts]]:
    """Tensors, index and updates that all count: a spare row takes those that do not, or they are
    dropped if that is allowed and fewer elements than the tensors have are copied for it."""
    rows = shape_of(xs[0][0])[0]
    if drops and _are_few(updates, xs):
        count = oir.SymbolicDim(None)

        def kept(x: oir.Value) -> oir.Value:
            types = [(dtype_of(x), (count, *shape_of(x)[1:]))]
            return em.op("Compress", x, valid, axis=0, types=types)

        return xs, kept(index), each(kept, updates)
    spare = em.cast(em.extents.scalar(rows), dtype_of(index))
    return each(partial(with_spare_row, em), xs), em.Where(valid, index, spare), updates


def _are_few(updates: Sequence[Parts], xs: Sequence[Parts]) -> bool:
    """Whether a copy of the updates takes less time than one of the tensors, which have a row."""
    x, update = xs[0][0], updates[0][0]
    return is_positive(shape_of(x)[0]) and not at_most(_size(x), _size(update))


def _neutralized(
    em: Emitter, region: Region, updates: Sequence[Parts], valid: oir.Value
) -> list[Parts]:
    """The updates, with neutral elements in place of those that do not count."""

    def masked(name: Combiner, x: oir.Value) -> oir.Value:
        mask = em.unsqueeze(valid, range(1, rank_of(x)))
        return em.Where(mask, x, em.scalar(neutral(name, dtype_of(x)), dtype_of(x)))

    named = zip(region.combiners, updates, strict=True)
    return [tuple(masked(name, x) for x in parts) for name, parts in named if name]


def with_spare_row(em: Emitter, x: oir.Value) -> oir.Value:
    """x with one more row, for the updates that do not count."""
    rows, *others = shape_of(x)
    elements = em.facts.constant(x)
    if elements is not None and elements.size == 1:
        return em.expand(em.const(elements.reshape(())), [total(rows, 1), *others])
    return em.concat([x, em.expand(em.scalar_like(0, x), [1, *others])], axis=0)


def _size(x: oir.Value) -> Dim:
    return product(shape_of(x))

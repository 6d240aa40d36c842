"""Combining updates into elements of a tensor: the second half of scatter and select_and_scatter.

scatter_rows(...)      for updates with distinct targets, or with equal updates for equal targets
last_of_each(...)      makes updates of equal targets equal to the last one
scatter_in_order(...)  for equal targets

A runtime's ScatterND may work on rows in parallel without locks, so equal indices reorder writes
and lose sums. Its ScatterElements processes the indices one by one, in order. `ordered_rows` is for
rows with equal targets, where the target says how many elements ScatterND takes in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.iota import count_along
from dialect_handlers.common.parts import each
from dialect_handlers.common.reductions import Function, combine
from dialect_handlers.common.regions import Combiner, neutral, recognise_each
from dialect_handlers.common.subgraphs import repeat
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.dims import at_most, canonical, is_positive, product, quotient
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of, static_shape
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

BOOL, INT64, UINT8 = oir.DataType.BOOL, oir.DataType.INT64, oir.DataType.UINT8

REDUCTIONS = {
    Combiner.ADD: "add",
    Combiner.MULTIPLY: "mul",
    Combiner.MINIMUM: "min",
    Combiner.MAXIMUM: "max",
}
BOOLEAN = {
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
    def overwrites(self) -> bool:
        """Whether an update replaces the element, or leaves it."""
        return all(name in (Combiner.RHS, Combiner.LHS) for name in self.combiners)


def region_of(em: Emitter, block: ir.Block) -> Region:
    """The region of a scatter or of a select_and_scatter."""
    names: list[Combiner | None] = []
    for name, argument in zip(recognise_each(em, block), block.arguments, strict=False):
        parts = parts_of(argument.type)
        known = {*REDUCTIONS, *_ANY_PARTS, *(BOOLEAN if parts[0].dtype == BOOL else ())}
        fits = name in known and (len(parts) == 1 or name in _ANY_PARTS)
        names.append(name if fits else None)
    return Region(em.scalar_function(block), names)


# -- rows ------------------------------------------------------------------------------------


def scatter_rows(
    em: Emitter,
    region: Region,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
) -> list[Parts]:
    """ScatterND of whole rows.

    Args:
        xs: Tensors; their first axes, one per column of the index, count the rows.
        index: The row for each update, of shape (updates, columns). No two valid rows are equal,
            or the region only overwrites and equal rows have equal updates, in any order.
        updates: Tensors of shape (updates, ...).
        valid: Which updates count, of shape (updates); None for all of them, which it must be
            where an index has more than one column, unless rows are dropped.
    """
    rows = shape_of(xs[0][0])[0]
    direct = [_direct(name, parts) for name, parts in zip(region.combiners, xs, strict=True)]
    if valid is not None and drops_rows(region, xs, updates):
        index = compressed(em, index, valid)
        updates = each(partial(compressed, em, valid=valid), updates)
        valid = None
    if valid is not None:
        index = em.Where(em.unsqueeze(valid, [1]), index, em.extents.scalar(rows))
        xs = each(partial(with_spare_rows, em), xs)
    if not all(direct):
        old = each(lambda x: em.GatherND(x, index), xs)
        updates = combine(em, region.function, old, updates)
    results: list[Parts] = []
    for name, before, parts in zip(region.combiners, xs, updates, strict=True):
        if name == Combiner.LHS:
            written = before
        else:
            reduction = REDUCTIONS.get(name) if name and all(direct) else None
            written = tuple(
                em.ScatterND(part, index, new, reduction=reduction)
                for part, new in zip(before, parts, strict=True)
            )
        results.append(tuple(em.slice(part, [0], [rows], axes=[0]) for part in written))
    return results


def drops_rows(region: Region, xs: Sequence[Parts], updates: Sequence[Parts]) -> bool:
    """Whether `scatter_rows` drops updates that do not count. Else these go to spare rows."""
    direct = all(_direct(name, parts) for name, parts in zip(region.combiners, xs, strict=True))
    return direct and not at_most(_size(xs[0][0]), _size(updates[0][0]))


def last_of_each(
    em: Emitter,
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
    rows: Dim,
) -> list[Parts]:
    """Each update replaced by the last valid one with the same target.

    Only one integer per update goes through the scatter in order, not each element.

    Args:
        index: The row for each update, of shape (updates, 1); inside also where not valid.
        updates: Tensors of shape (updates, ...).
        valid: Which updates count, of shape (updates); None for all of them.
        rows: How many there are.
    """
    count = shape_of(index)[0]
    flat = em.reshape(index, [count])
    position = count_along(em, [count], 0, INT64)
    if valid is not None:
        position = em.Where(valid, position, em.i64(0))
        if not is_positive(rows):
            flat, rows = em.Where(valid, flat, em.extents.scalar(rows)), canonical(rows + 1)
    last = em.expand(em.i64(0), [rows])
    last = em.ScatterElements(last, flat, position, axis=0, reduction="max")
    winner = em.Gather(last, flat, axis=0)
    return each(lambda x: em.Gather(x, winner, axis=0), updates)


def _direct(name: Combiner | None, parts: Parts) -> bool:
    """Whether ScatterND itself combines: its extremes lose NaN and know no booleans."""
    if name in (Combiner.MINIMUM, Combiner.MAXIMUM):
        return dtype_of(parts[0]) not in FLOATS
    return name in (Combiner.ADD, Combiner.MULTIPLY, Combiner.LHS, Combiner.RHS)


# -- elements, in order ----------------------------------------------------------------------


def scatter_in_order(
    em: Emitter,
    region: Region,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
    trips: Dim,
) -> list[Parts]:
    """ScatterElements for combiners that it has, else a Loop.

    Args:
        xs: Tensors of one axis.
        index: The element for each update, of the updates' shape; inside also where not valid.
        updates: In row-major order they are applied.
        valid: Which updates count, of a shape that broadcasts to theirs; None for all of them.
        trips: Number of equal consecutive parts of the updates, each without equal targets.
    """
    if None in region.combiners:
        return _one_by_one(em, region.function, xs, index, updates, valid, trips)
    return [
        tuple(
            _accumulated(em, name, x, index, update, valid)
            for x, update in zip(parts, news, strict=True)
        )
        for name, parts, news in zip(region.combiners, xs, updates, strict=True)
        if name
    ]


def _accumulated(
    em: Emitter,
    combiner: Combiner,
    x: oir.Value,
    index: oir.Value,
    updates: oir.Value,
    valid: oir.Value | None,
) -> oir.Value:
    if combiner == Combiner.LHS:
        return x
    if combiner == Combiner.RHS:
        return _overwritten(em, x, index, updates, valid)
    if dtype_of(x) == BOOL:
        x, updates = em.cast(x, UINT8), em.cast(updates, UINT8)
        counted = _accumulated(em, BOOLEAN[combiner], x, index, updates, valid)
        if combiner == Combiner.XOR:
            counted = em.BitwiseAnd(counted, em.scalar_like(1, counted))
        return em.cast(counted, BOOL)
    if valid is not None and not is_positive(_size(x)):
        return _with_room(em, combiner, x, index, updates, valid)
    if valid is not None:
        # A neutral update changes nothing.
        nothing = em.scalar(neutral(combiner, dtype_of(x)), dtype_of(x))
        updates = em.Where(valid, updates, nothing)
    result = _elements(em, x, index, updates, REDUCTIONS[combiner])
    if combiner in (Combiner.ADD, Combiner.MULTIPLY) or not em.guards_nan:
        return result
    if em.facts.nan_free(x) and em.facts.nan_free(updates):
        return result
    # The runtime's extremes lose NaN. A sum of non-negative numbers is NaN only if one of them is.
    witness = _elements(em, em.Relu(x), index, em.Relu(updates), "add")
    return em.Where(em.IsNaN(witness), witness, result)


def _with_room(
    em: Emitter,
    combiner: Combiner,
    x: oir.Value,
    index: oir.Value,
    updates: oir.Value,
    valid: oir.Value,
) -> oir.Value:
    """`_accumulated` with a spare element for the updates that do not count: x may be empty."""
    size = _size(x)
    index = em.Where(valid, index, extent_like(em, size, index))
    combined = _accumulated(em, combiner, with_spare_rows(em, x), index, updates, None)
    return em.slice(combined, [0], [size])


def _overwritten(
    em: Emitter, x: oir.Value, index: oir.Value, updates: oir.Value, valid: oir.Value | None
) -> oir.Value:
    """The last update of each element."""
    if valid is None:
        return _elements(em, x, index, updates, None)
    if at_most(_size(x), _size(updates)):
        index = em.Where(valid, index, extent_like(em, _size(x), index))
        written = _elements(em, with_spare_rows(em, x), index, updates, None)
        return em.slice(written, [0], [_size(x)])
    mask = _flat(em, em.expand(valid, shape_of(updates)))
    kept = [compressed(em, _flat(em, part), mask) for part in (index, updates)]
    return _elements(em, x, kept[0], kept[1], None)


def _elements(
    em: Emitter, x: oir.Value, index: oir.Value, updates: oir.Value, reduction: str | None
) -> oir.Value:
    flat = (index, updates)
    if len(shape_of(updates)) != 1:
        flat = (_flat(em, index), _flat(em, updates))
    return em.ScatterElements(x, *flat, axis=0, reduction=reduction)


def _one_by_one(
    em: Emitter,
    function: Function,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    valid: oir.Value | None,
    trips: Dim,
) -> list[Parts]:
    """A Loop that combines one part of the updates after the other."""
    size = _size(xs[0][0])
    if valid is not None:
        index = em.Where(valid, index, extent_like(em, size, index))
        xs = each(partial(with_spare_rows, em), xs)
    width = quotient(_size(index), trips)
    index = em.reshape(index, [trips, width])
    news = each(lambda x: em.reshape(x, [trips, width]), updates)

    def step(trip: oir.Value, states: list[Parts]) -> list[Parts]:
        where = em.Gather(index, trip, axis=0)
        old = each(lambda x: em.Gather(x, where, axis=0), states)
        new = each(lambda x: em.Gather(x, trip, axis=0), news)
        combined = combine(em, function, old, new)
        return each(lambda x, y: em.ScatterElements(x, where, y, axis=0), states, combined)

    return each(lambda x: em.slice(x, [0], [size]), repeat(em, "updates", trips, xs, step))


# -- dropping updates -------------------------------------------------------------------------


def with_spare_rows(em: Emitter, x: oir.Value, count: int = 1) -> oir.Value:
    """x with more rows, which take the updates that do not count."""
    rows, *rest = shape_of(x)
    elements = em.facts.constant(x)
    if elements is not None and elements.size == 1:
        return em.expand(em.const(elements.reshape(())), [canonical(rows + count), *rest])
    return em.concat([x, em.expand(em.scalar_like(0, x), [count, *rest])], axis=0)


def extent_like(em: Emitter, dim: Dim, index: oir.Value) -> oir.Value:
    """An extent as a scalar of the type of an index."""
    if isinstance(dim, int):
        return em.scalar_like(dim, index)
    return em.cast(em.extents.scalar(dim), dtype_of(index))


def compressed(em: Emitter, x: oir.Value, valid: oir.Value) -> oir.Value:
    """The rows of x that count."""
    count = oir.SymbolicDim(None)
    return em.op("Compress", x, valid, axis=0, types=[(dtype_of(x), (count, *shape_of(x)[1:]))])


def _flat(em: Emitter, x: oir.Value) -> oir.Value:
    """x as one axis; the runtime computes the extent if the shape is static."""
    return em.reshape(x, [-1] if static_shape(x) is not None else [_size(x)])


def _size(x: oir.Value) -> Dim:
    return product(shape_of(x))

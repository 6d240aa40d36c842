"""Rows of updates with equal targets, combined in order by ScatterND.

A ScatterND of few elements works in one thread, in order, if the target says so: see
`Costs.ordered_scatter_elements`. More updates go through it in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import onnx_ir as oir

from dialect_handlers.common.iota import count_along
from dialect_handlers.common.parts import each
from dialect_handlers.common.regions import Combiner, neutral
from dialect_handlers.common.scatter_updates import (
    BOOLEAN,
    REDUCTIONS,
    Region,
    compressed,
    extent_like,
    with_spare_rows,
)
from dialect_handlers.common.subgraphs import set_outputs
from dialect_handlers.common.update_blocks import in_blocks
from hlo2onnx.errors import InternalError
from hlo2onnx.ir.dims import at_most, fixed, is_static, product
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.targets.costs import Costs

T = oir.DataType
_EXTREMES = (Combiner.MINIMUM, Combiner.MAXIMUM)
_MORE_BLOCKS = 4
"""Blocks of equal size are faster than a smaller one at the end. There may be more of them than the
fewest possible: by one part in this many, or by two."""
_UPDATES_PER_ROW = 4
"""Updates for each row of an operand from which on copying its rows once more is no cost."""


@dataclass(frozen=True)
class Targets:
    """Where the rows of updates go.

    Attributes:
        index: Makes the target row of each update, of shape (updates, 1). It is a valid row for
            updates that do not count, too.
        valid: Makes the mask of the updates that count, of shape (updates); None if all count.
        beyond: Makes `index` with -1 or the number of rows for updates that do not count; None if
            that takes more nodes.
        at_once: The result of `rows_at_once`.
    """

    index: Callable[[], oir.Value]
    valid: Callable[[], oir.Value] | None
    beyond: Callable[[], oir.Value] | None
    at_once: int


def rows_at_once(costs: Costs, region: Region, rows: Dim, count: Dim, width: Dim) -> int:
    """How many rows of updates one ScatterND takes; 0 if another way is better.

    Args:
        rows: Count of rows of the operand.
        count: Count of rows of the updates.
        width: Elements of a row. Rows of one element are left to ScatterElements.
    """
    if None in region.combiners or not isinstance(width, int) or width < 2:
        return 0
    most = int(costs.ordered_scatter_elements) // width
    if isinstance(count, int) and count <= most:
        return count
    if not most or not at_most(rows, int(costs.ordered_scatter_copies) * most):
        return 0
    if not isinstance(count, int):
        return most
    fewest = -(-count // most)
    blocks = range(fewest, fewest + max(fewest // _MORE_BLOCKS, 2) + 1)
    return next((count // n for n in blocks if count % n == 0), most)


def scatter_rows_in_order(
    em: Emitter, region: Region, xs: Sequence[Parts], targets: Targets, updates: Sequence[Parts]
) -> list[Parts]:
    """The tensors, combined with one row of updates after the other.

    Args:
        xs: Tensors of shape (rows, ...).
        updates: Tensors of shape (updates, ...).
    """
    if _keeps_few(em.costs, region, xs, updates):
        return _last_written(em, xs, targets, updates)
    x, update = xs[0][0], updates[0][0]
    rows, valid = shape_of(x)[0], targets.valid
    is_one_block = targets.at_once == shape_of(update)[0]
    is_larger = not at_most(product(shape_of(x)), product(shape_of(update)))
    if valid is None:
        index = targets.index()
    elif is_larger and Combiner.RHS not in region.combiners:
        index, counts = targets.index(), valid()
        updates = [
            each(partial(_neutralized, em, name, counts), [parts])[0]
            for name, parts in zip(region.combiners, updates, strict=True)
        ]
    elif is_larger and is_one_block:
        counts = valid()
        index = compressed(em, targets.index(), counts)
        updates = each(partial(compressed, em, valid=counts), updates)
    else:
        index = _with_spare(em, targets, rows)
        xs = each(partial(with_spare_rows, em), xs)
    at_once = 0 if is_one_block else targets.at_once
    done = _combined(em, region, xs, em.cast(index, T.INT64), updates, at_once)
    return each(lambda x: em.slice(x, [0], [rows], axes=[0]), done)


def _keeps_few(costs: Costs, region: Region, xs: Sequence[Parts], updates: Sequence[Parts]) -> bool:
    """Whether most of very many rows are overwritten by later ones."""
    if any(name != Combiner.RHS for name in region.combiners):
        return False
    rows, dims = shape_of(xs[0][0])[0], shape_of(updates[0][0])
    if not is_static([rows, *dims]):
        return False
    count, *row = fixed(dims)
    width = math.prod(row)
    is_large = count * width > costs.ordered_scatter_elements
    return is_large and width >= costs.last_row_elements and at_most(rows * _UPDATES_PER_ROW, count)


def _last_written(
    em: Emitter, xs: Sequence[Parts], targets: Targets, updates: Sequence[Parts]
) -> list[Parts]:
    """The tensors with the last row of the updates for each of their rows, if there is one. An
    integer for each update is scattered, and no other row of the updates is read."""
    rows, count = shape_of(xs[0][0])[0], shape_of(updates[0][0])[0]
    index = targets.index() if targets.valid is None else _with_spare(em, targets, rows)
    position = count_along(em, [count], 0, T.INT32)
    none = em.expand(em.scalar(-1, T.INT32), [rows if targets.valid is None else rows + 1])
    last = em.ScatterElements(none, em.reshape(index, [count]), position, axis=0, reduction="max")
    last = em.slice(last, [0], [rows])
    is_written = em.cast(em.GreaterOrEqual(last, em.scalar(0, T.INT32)), T.INT32)
    # Old rows and, behind them, new ones. Where of the runtime may lose the sign of a zero.
    place = em.Add(
        count_along(em, [rows], 0, T.INT32), em.Mul(is_written, em.scalar(rows, T.INT32))
    )

    def chosen(x: oir.Value, update: oir.Value) -> oir.Value:
        found = em.Gather(update, last, axis=0)
        result: oir.Value = em.Gather(em.concat([x, found], 0), place, axis=0)
        return result

    return each(chosen, xs, updates)


def _with_spare(em: Emitter, targets: Targets, rows: Dim) -> oir.Value:
    """The index of each update; a spare row behind the operand for those that do not count."""
    assert targets.valid is not None
    return (
        targets.beyond() if targets.beyond else _spared(em, targets.index(), targets.valid(), rows)
    )


def _spared(em: Emitter, index: oir.Value, valid: oir.Value, rows: Dim) -> oir.Value:
    """The index; for updates that do not count, the row after the last one."""
    return em.Where(em.unsqueeze(valid, [1]), index, extent_like(em, rows, index))


def _neutralized(
    em: Emitter, name: Combiner | None, valid: oir.Value, update: oir.Value
) -> oir.Value:
    """The updates, with the neutral element in place of those that do not count."""
    if name is None or name == Combiner.LHS:
        return update
    axes = range(1, len(shape_of(update)))
    nothing = em.scalar(neutral(name, dtype_of(update)), dtype_of(update))
    return em.Where(em.unsqueeze(valid, axes), update, nothing)


@dataclass(frozen=True)
class _State:
    """A tensor that updates are scattered into.

    Attributes:
        reduction: Of ScatterND.
        clips: Whether negative numbers count as 0.
    """

    reduction: str | None
    initial: oir.Value
    updates: oir.Value
    clips: bool = False

    def start(self, em: Emitter) -> oir.Value:
        return em.Relu(self.initial) if self.clips else self.initial

    def scattered(
        self, em: Emitter, state: oir.Value, index: oir.Value, updates: oir.Value
    ) -> oir.Value:
        updates = em.Relu(updates) if self.clips else updates
        return em.ScatterND(state, index, updates, reduction=self.reduction)


def _combined(
    em: Emitter,
    region: Region,
    xs: Sequence[Parts],
    index: oir.Value,
    updates: Sequence[Parts],
    at_once: int,
) -> list[Parts]:
    """The tensors, combined with rows of updates whose index is valid.

    Args:
        at_once: Rows in a block; 0 for a single ScatterND.
    """
    made = [
        [_state(em, name, x, update) for x, update in zip(parts, news, strict=True)]
        for name, parts, news in zip(region.combiners, xs, updates, strict=True)
    ]
    states = [state for part in made for state in part if state is not None]
    rest = iter(_scattered(em, index, states, at_once))
    ends = [[None if state is None else (state, next(rest)) for state in part] for part in made]
    return [
        tuple(
            x if end is None else _result(em, name, x, _keeping_nan(em, name, *end, index, at_once))
            for x, end in zip(parts, part, strict=True)
        )
        for name, parts, part in zip(region.combiners, xs, ends, strict=True)
    ]


def _scattered(
    em: Emitter, index: oir.Value, states: Sequence[_State], at_once: int
) -> list[oir.Value]:
    """The states after all updates."""
    if not at_once:
        return [item.scattered(em, item.start(em), index, item.updates) for item in states]
    tensors = list(dict.fromkeys(state.updates for state in states))

    def step(now: Sequence[Parts], given: Sequence[oir.Value]) -> list[Parts]:
        news = dict(zip(tensors, given[1:], strict=True))
        return [
            (item.scattered(em, state, given[0], news[item.updates]),)
            for item, (state,) in zip(states, now, strict=True)
        ]

    initial = [(item.start(em),) for item in states]
    return [end for (end,) in in_blocks(em, "rows", initial, [index, *tensors], at_once, step)]


def _state(em: Emitter, name: Combiner | None, x: oir.Value, updates: oir.Value) -> _State | None:
    """The state for one tensor; None if the tensor stays as it is."""
    if name is None:
        raise InternalError("a region without a name is not scattered in rows")
    if name == Combiner.LHS:
        return None
    if name == Combiner.RHS:
        return _State(None, x, updates)
    dtype = dtype_of(x)
    if dtype == T.BOOL:
        name = BOOLEAN[name]
        return _State(REDUCTIONS[name], em.cast(x, T.UINT8), em.cast(updates, T.UINT8))
    if dtype in FLOATS and dtype.bitwidth < T.FLOAT.bitwidth:
        # f32 through all blocks, so that the result is rounded once.
        x, updates = em.cast(x, T.FLOAT), em.cast(updates, T.FLOAT)
    return _State(REDUCTIONS[name], x, updates)


def _keeping_nan(
    em: Emitter,
    name: Combiner | None,
    state: _State,
    end: oir.Value,
    index: oir.Value,
    at_once: int,
) -> oir.Value:
    """The last state, with the NaN that Max and Min of the runtime lose.

    A sum of non-negative numbers is NaN only if one of them is. Of many updates it is computed only
    if the sum of all is NaN, as it also may be where infinities or large numbers cancel.
    """
    dtype = dtype_of(end)
    if name not in _EXTREMES or dtype not in FLOATS or not em.guards_nan:
        return end
    suspects = [x for x in (state.initial, state.updates) if not em.facts.nan_free(x)]
    if not suspects:
        return end

    def kept() -> oir.Value:
        witness = _State("add", state.initial, state.updates, clips=True)
        (total,) = _scattered(em, index, [witness], at_once)
        return em.Where(em.IsNaN(total), total, end)

    if not at_once:
        return kept()
    # A vector is added faster than rows of few elements.
    flat = [em.reshape(x, [product(shape_of(x))]) for x in suspects]
    total = reduce(em.Add, [em.ReduceSum(x, keepdims=0) for x in flat])
    graphs = []
    for branch, emit in (("nan", kept), ("numbers", lambda: end)):
        with em.subgraph([], f"{em.scope}/{branch}") as graph:
            set_outputs(em, graph, [emit()])
        graphs.append(graph)
    chosen: oir.Value = em.If(em.IsNaN(total), then_branch=graphs[0], else_branch=graphs[1])
    return chosen


def _result(em: Emitter, name: Combiner | None, x: oir.Value, end: oir.Value) -> oir.Value:
    """The result for a tensor, from the last value of its state."""
    if dtype_of(x) == T.BOOL and name == Combiner.XOR:
        end = em.BitwiseAnd(end, em.scalar_like(1, end))
    return em.cast(end, dtype_of(x))

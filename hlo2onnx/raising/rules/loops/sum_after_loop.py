"""States that only sum up what each trip computes are summed after the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.ir.dims import is_static
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import Trips, counted, rebuilt, separate
from hlo2onnx.raising.match.views import RESHAPES
from hlo2onnx.raising.vectorize.trip_rows import row_bytes
from hlo2onnx.rewrite.large_graphs import use_count
from hlo2onnx.rewrite.replace import remove_makers

_NEW_NODES = 5
"""Nodes that sum up the stack."""

_STACKED_BYTES = 1 << 14
"""Larger stacks take longer to write and to read than small sums in the loop."""


class SumAfterLoop(Rule):
    """Loop(s = s + f(x)) -> s = the last of CumSum(Concat(s, the stack of f(x)))

    Legal if only the sum reads the state, nothing reads the sums in between, and the number of
    trips is known and not 0. CumSum adds one term after the other, as the loop does. What only the
    terms need is then computed for all trips at once. Done for small sums of many trips. Filters
    sum up log-likelihoods like this, and environments sum up rewards.
    """

    name = "sum-after-loop"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        need(trips.count <= b.costs.cumulative_sum_terms, "it makes too many trips", node)
        sums = [found for k in range(len(trips.states)) if (found := _sum(b, trips, k))]
        need(sums, "no state is a sum of what the trips compute", node)
        count = len(trips.rows)
        old = {one.k: trips.after[one.k] for one in sums}
        kept = [k for k in range(len(trips.states)) if k not in old]
        initial, outputs = trips.initial, list(node.outputs)
        final, stacks = rebuilt(b, trips, [*trips.rows, *(one.term for one in sums)], kept)
        remove_makers(old.values(), within=trips.body)
        results = dict(zip(kept, final, strict=True))
        for one, stack in zip(sums, stacks[count:], strict=True):
            total = _total(b, initial[one.k], stack, trips.count)
            results[one.k] = separate(b, outputs[one.k], total)
        return [*(results[k] for k in sorted(results)), *stacks[:count]]


class _Sum(NamedTuple):
    """State k becomes itself and a term of the same number of elements."""

    k: int
    term: oir.Value


def _sum(b: Rewriter, trips: Trips, k: int) -> _Sum | None:
    state, after = trips.states[k], trips.after[k]
    if not b.supports("CumSum", dtype_of(state)) or not is_static(shape_of(state)):
        return None
    x, saved = state, 1
    while True:
        readers = list(x.consumers())
        if use_count(x) != 1 or len(readers) != 1 or x.is_graph_output():
            return None
        reader = readers[0]
        if reader.graph is not trips.body:
            return None
        if reader.op_type == "Add":
            break
        if reader.op_type not in RESHAPES or reader.inputs[0] is not x:
            return None
        x, saved = reader.outputs[0], saved + 1
    left, right = reader.inputs
    term = right if left is x else left
    if term is None or not _is_stacked(trips, term, state, b):
        return None
    more = _reshapes_until(reader.outputs[0], after)
    return _Sum(k, term) if more is not None and trips.count * (saved + more) > _NEW_NODES else None


def _is_stacked(trips: Trips, term: oir.Value, state: oir.Value, b: Rewriter) -> bool:
    """Whether the term of a sum is computed in the body, and small enough to be stacked."""
    dims = shape_of(term)
    if trips.is_outer(term) or not is_static(dims) or dtype_of(term) != dtype_of(state):
        return False
    if math.prod(dims) != math.prod(shape_of(state)):  # one of them is broadcast
        return False
    return row_bytes(term) * trips.count <= _STACKED_BYTES


def _reshapes_until(x: oir.Value, after: oir.Value) -> int | None:
    """How many Reshapes lead from a value to a state, if nothing else reads the values."""
    passed = 0
    while x is not after:
        if use_count(x) != 1 or x.is_graph_output():
            return None
        (reader,) = x.consumers()
        if reader.op_type not in RESHAPES or reader.inputs[0] is not x:
            return None
        x, passed = reader.outputs[0], passed + 1
    outputs = after.graph.outputs if after.graph is not None else []
    is_alone = not after.consumers() and sum(one is after for one in outputs) <= 1
    return passed if is_alone else None


def _total(b: Rewriter, initial: oir.Value, stack: oir.Value, count: int) -> oir.Value:
    """The sum of an initial value and of the rows of a stack, added in order."""
    dims = shape_of(initial)
    terms = [b.reshape(initial, (1, *dims)), b.reshape(stack, (count, *dims))]
    sums = b.CumSum(b.concat(terms, axis=0), b.i64(0))
    types = [(dtype_of(initial), dims)]
    return b.op("Gather", sums, b.i64(count), axis=0, types=types)

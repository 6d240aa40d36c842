"""A Loop keeps only the work that depends on its states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.traversal import replace_uses, subgraphs
from hlo2onnx.ir.values import const_of, origin, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import Trips, counted, rebuilt, separate
from hlo2onnx.raising.match.views import operands
from hlo2onnx.raising.vectorize.chains import chain_apart
from hlo2onnx.raising.vectorize.constant_states import constant_states
from hlo2onnx.raising.vectorize.early import early_values
from hlo2onnx.raising.vectorize.late import late_values


class Partition(Rule):
    """Loop(s = g(s, f(x[i])); h(s)) -> y = f(x); Loop(s = g(s, y[i]); s); h(stack of s)

    Each value of the body is of one kind:

    - fixed: a state that no trip changes. Its first value replaces it.
    - constant: a state that follows from constants alone. It becomes a row of a constant table. If
      the condition follows from these states, the trip count is known.
    - early: a value that depends only on the trip number and on values made before the loop,
      through operators that work on each row (elementwise ones, MatMul, reductions, moves). It is
      computed for all trips before the loop. So a loop without states (`lax.map`) vanishes, and
      random numbers of scanned keys are drawn at once.
    - late: a value that only stacks need. It is computed from stacks after the loop.
    - chained: a state that depends on itself alone. It gets a loop of its own, if much of the rest
      is early then: numbers are drawn at once from keys that are split in each trip.

    All others stay. Legal if the trip count is known and not 0. What is stacked must have the same
    shape in every trip.
    """

    name = "partition-loop"
    formerly = ("batch-scanned", "constant-state", "constant-trips", "loop-fission",
                "loop-vectorize", "postpone-stacked", "separate-chain", "sink-stacked-outputs",
                "trip-table")  # fmt: skip
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        refused: tuple[Any, ...] = ()
        for part in _PARTS:
            try:
                return part(node, b)
            except Refusal as refusal:
                refused = refusal.args
        raise Refusal(*refused)


def fixed_states(node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
    """The loop without the states that never change."""
    trips = Trips(node, 0, node.attributes["body"].as_graph())
    states = list(zip(trips.states, trips.after, trips.initial, strict=True))
    fixed = [k for k, each in enumerate(states) if _is_kept(*each)]
    need(fixed, "a trip may change each of its states", node)
    for k in fixed:
        replace_uses(trips.states[k], trips.initial[k])
    kept = [k for k in range(len(states)) if k not in fixed]
    given = {k: trips.initial[k] for k in fixed}
    final, stacks = rebuilt(b, trips, trips.rows, kept)
    given.update(zip(kept, final, strict=True))
    values = [*(given[k] for k in range(len(states))), *stacks]
    return [separate(b, old, new) for old, new in zip(node.outputs, values, strict=True)]


def _is_kept(state: oir.Value, after: oir.Value, start: oir.Value) -> bool:
    """Whether a state, which has had its first value so far, keeps it through branches and
    selections."""
    pending, seen = [after], set[oir.Value]()
    while pending:
        value = origin(pending.pop())
        if value in seen or value is state or _are_same(value, start):
            continue
        seen.add(value)
        maker = value.producer()
        if maker is None or maker.domain or shape_of(value) != shape_of(start):
            return False
        if maker.op_type == "If":
            place = value.index()
            assert place is not None
            pending += [branch.outputs[place] for branch in subgraphs(maker)]
        elif maker.op_type == "Where":
            pending += operands(maker)[1:]
        else:
            return False
    return not state.is_graph_output()


def _are_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are copies of one value, or constants with the same bits."""
    if origin(x) is origin(y):
        return True
    one, other = const_of(x), const_of(y)
    if one is None or other is None or (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.tobytes() == other.tobytes()


def _by_trips(node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
    """The loop without early or late values, or without a chain."""
    trips = counted(node)
    early = early_values(b, trips)
    results = (
        early.moved() or late_values(b, trips, early.rows) or chain_apart(b, trips, early.rows)
    )
    if results is None:
        raise Refusal("all values depend on a state, or few would leave the loop", node)
    return results


_PARTS: tuple[Callable[[oir.Node, Rewriter], Sequence[oir.Value]], ...] = (
    fixed_states, constant_states, _by_trips
)  # fmt: skip

"""States that follow from constants alone are computed for all trips at translation time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import Unknown
from hlo2onnx.ir.traversal import replace_uses
from hlo2onnx.ir.values import const_ints, const_of, dtype_of, origin, present, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.constant_values import (
    Arrays,
    Evaluation,
    array_of,
    following,
    is_known,
)
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.counted_loop import Trips, release, separate

# Limits on translation time and on the model's size, no costs:
_MOST_EVALUATED = 1 << 15
"""Nodes that are evaluated, over all trips, which takes 0.1 s."""
_MOST_ELEMENTS = 16
"""Elements of a value in a table."""


class ConstantTrips(Rule):
    """Loop(while t < 1: t = f(t)) -> Loop(n: t[i]) with a constant table t

    Legal if states start from constants, and a trip computes them and the condition only from each
    other, from the number of the trip and from constants, by operators that `fold-constants` folds.
    The condition must become false within the trips that are evaluated; without a condition, the
    number of trips must be known. Solvers of differential equations with steps of one length
    compute the time and the end of the loop like this. What depends on the time is then computed
    for all trips at once.
    """

    name = "constant-trips"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        closed = _closed(node)
        starts = node.inputs[1] is None or b.facts.truth(node.inputs[1])
        need(starts and (closed.limit is None or closed.limit > 0), "it may make no trip", node)
        history = _evaluated(closed)
        trips = Trips(node, len(history) - 1, closed.body)
        body = trips.body
        with b.before(body[0]) if len(body) else b.at_end(body):
            for x in (*closed.after, *closed.chosen):
                table = b.const(np.stack([arrays[x] for arrays in history[:-1]]))
                types = [(dtype_of(x), shape_of(x))]
                replace_uses(x, b.op("Gather", table, trips.number, axis=0, types=types))
        return _rebuilt(b, trips, history[-1])


@dataclass(frozen=True)
class _Closed:
    """The part of a Loop that depends on nothing that is computed at run time.

    Attributes:
        limit: The number of trips that the Loop makes at most; None for any number.
        after: States that start from constants, with their values at the end of a trip.
        chosen: Results of branches that follow from these states.
        condition: Whether another trip follows; None if nothing but the limit ends the loop.
    """

    loop: oir.Node
    limit: int | None
    after: dict[oir.Value, oir.Value]
    chosen: list[oir.Value]
    condition: oir.Value | None

    @property
    def body(self) -> oir.Graph:
        return self.loop.attributes["body"].as_graph()


def _closed(loop: oir.Node) -> _Closed:
    """The part of a Loop that follows from constants.

    Raises:
        Refusal: The number of trips does not follow from it, or there is none.
    """
    given, body = const_ints(loop.inputs[0]), loop.attributes["body"].as_graph()
    need(loop.inputs[0] is None or given, "the number of its trips is computed", loop)
    trips = Trips(loop, 0, body)
    after = {
        state: x
        for state, x, start in zip(trips.states, trips.after, trips.initial, strict=True)
        if const_of(start) is not None and _is_small(start)
    }
    condition = None if origin(body.outputs[0]) is body.inputs[1] else body.outputs[0]
    if condition is not None:  # of most loops, which saves a walk through the body
        is_computed = _is_computed(condition, body, {trips.number, *after})
        need(not is_computed, "its condition is computed at run time", loop)
    while True:
        known = following(body, [trips.number, *after])
        left = {state: x for state, x in after.items() if is_known(x, known)}
        if len(left) == len(after):
            break
        after = left
    if condition is None:
        need(given and after, "no state follows from constants, or it is endless", loop)
    else:
        need(is_known(condition, known), "its condition is computed at run time", loop)
    results = [x for node in body if node.op_type == "If" for x in node.outputs if x in known]
    chosen = [x for x in results if _is_small(x) and x.consumers()]
    return _Closed(loop, given[0] if given else None, after, chosen, condition)


def _is_computed(x: oir.Value, body: oir.Graph, given: Collection[oir.Value]) -> bool:
    """Whether a value of a body depends on others than given ones and constants, as far as is known
    without a look into branches."""
    pending, seen = [x], set[oir.Value]()
    while pending:
        value = pending.pop()
        if value in seen or is_known(value, given):
            continue
        seen.add(value)
        node = value.producer()
        if node is None or node.graph is not body:
            return True
        if node.op_type != "If":
            pending += present(node.inputs)
    return False


def _is_small(x: oir.Value) -> bool:
    size = size_of(x)
    return size is not None and size <= _MOST_ELEMENTS


def _evaluated(closed: _Closed) -> list[Arrays]:
    """The known values of each trip, and the states after the last one.

    Raises:
        Refusal: There are too many trips, or numbers that depend on the runtime.
    """
    loop, body, condition = closed.loop, closed.body, closed.condition
    evaluation = Evaluation([*closed.after.values(), *closed.chosen, *present([condition])])
    most = _MOST_EVALUATED // (evaluation.count + 1)
    least = 1 if condition is not None else closed.limit or 0
    need(least <= most, "it makes many trips, or large ones", loop)
    starts = zip(body.inputs[2:], present(loop.inputs[2:]), strict=True)
    states = {state: array_of(x, {}) for state, x in starts if state in closed.after}
    history: list[Arrays] = []
    for trip in count(1):
        arrays = {body.inputs[0]: np.asarray(trip - 1), **states}
        try:
            evaluation.run(body, arrays)
        except Unknown as unknown:
            raise Refusal(str(unknown), loop) from None
        history.append({x: arrays[x] for x in (*states, *closed.chosen)})
        states = {state: array_of(x, arrays) for state, x in closed.after.items()}
        is_over = condition is not None and not array_of(condition, arrays).all()
        if is_over or trip == closed.limit:
            break
        need(trip < most, "it makes many trips", loop)
    return [*history, states]


def _rebuilt(b: Rewriter, trips: Trips, final: Arrays) -> list[oir.Value]:
    """A Loop without these states and without a condition."""
    body, states = trips.body, trips.states
    kept = [k for k, state in enumerate(states) if state not in final]
    inputs = [trips.initial[k] for k in kept]
    read = [trips.final[k] for k in kept] + trips.stacks
    outputs = [trips.after[k] for k in kept] + trips.rows
    with b.at_end(body):
        going = output_of(b, body, body.inputs[1])
    body.outputs.clear()
    body.outputs.extend([going, *outputs])
    for k in reversed(range(len(states))):
        if k not in kept:
            body.inputs.pop(2 + k)
    if not read:
        release(body)
    types = [(dtype_of(x), shape_of(x)) for x in read]
    given = [b.i64(trips.count), None, *inputs]
    made = iter(b.node("Loop", given, {"body": body}, types) if read else ())
    results = [b.const(final[x]) if x in final else next(made) for x in states]
    return [
        separate(b, old, new)
        for old, new in zip(trips.loop.outputs, [*results, *made], strict=True)
    ]

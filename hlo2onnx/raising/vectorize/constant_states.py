"""States of a Loop that follow from constants alone, for all trips at translation time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import count

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import OPERATORS, Unknown, evaluate
from hlo2onnx.ir.traversal import nodes_in, replace_uses, subgraphs
from hlo2onnx.ir.values import const_ints, const_of, origin, present, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, need
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.counted_loop import Trips, rebuilt, separate
from hlo2onnx.raising.vectorize.early import row_of

# Limits on translation time and on the model's size, not costs:
_MOST_EVALUATED = 1 << 15
"""Nodes that are evaluated, over all trips, which takes 0.1 s."""
_ELEMENTS = 512
"""Elements that are evaluated in the time that a node takes on its own."""
_MOST_ELEMENTS = 16
"""Elements of a value in a table."""

Arrays = dict[oir.Value, np.ndarray]
Makers = dict[oir.Node, set[int]]
"""Nodes, with the positions of the results that are needed."""


def constant_states(loop: oir.Node, b: Rewriter) -> list[oir.Value]:
    """The results of the Loop without such states, and without a condition.

    A trip computes them and the condition only from each other, from the trip number and from
    constants, by operators that `fold-constants` folds. The condition becomes false within the
    trips that are evaluated; without a condition, the trip count is known. Solvers of differential
    equations with steps of one length compute the time and the end of the loop like this.

    Raises:
        Refusal: There are no such states, the trip count does not follow from them or is too large,
            or numbers depend on the runtime.
    """
    closed = _closed(loop)
    starts = loop.inputs[1] is None or b.facts.truth(loop.inputs[1])
    need(starts and (closed.limit is None or closed.limit > 0), "it may make no trip", loop)
    history = _evaluated(closed)
    trips, final = Trips(loop, len(history) - 1, closed.body), history[-1]
    body, states = trips.body, trips.states
    with b.before(body[0]) if len(body) else b.at_end(body):
        for x in (*closed.after, *closed.chosen):
            table = b.const(np.stack([arrays[x] for arrays in history[:-1]]))
            replace_uses(x, row_of(b, trips, x, table))
    with b.at_end(body):
        body.outputs[0] = output_of(b, body, body.inputs[1])
    loop.replace_input_with(0, b.i64(trips.count))
    loop.replace_input_with(1, None)
    kept = [k for k, state in enumerate(states) if state not in final]
    left, stacks = rebuilt(b, trips, trips.rows, kept)
    made = iter(left)
    results = [b.const(final[x]) if x in final else next(made) for x in states]
    pairs = zip(loop.outputs, [*results, *stacks], strict=True)
    return [separate(b, old, new) for old, new in pairs]


@dataclass(frozen=True)
class _Closed:
    """The part of a Loop that depends on nothing that is computed at run time.

    Attributes:
        limit: The most trips that the Loop makes; None for any number.
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
        Refusal: The trip count does not follow from it, or there is no such part.
    """
    given, body = const_ints(loop.inputs[0]), loop.attributes["body"].as_graph()
    need(loop.inputs[0] is None or given, "its trip count is computed", loop)
    trips = Trips(loop, 0, body)
    after = {
        state: x
        for state, x, start in zip(trips.states, trips.after, trips.initial, strict=True)
        if const_of(start) is not None and _is_small(start)
    }
    condition = None if origin(body.outputs[0]) is body.inputs[1] else body.outputs[0]
    need(after or condition is not None, "no state starts from a constant", loop)
    while True:
        known = _following(body, {trips.number, *after})
        left = {state: x for state, x in after.items() if _is_known(x, known)}
        if len(left) == len(after):
            break
        after = left
    if condition is None:
        need(given and after, "no state follows from constants, or the loop has no end", loop)
    else:
        need(_is_known(condition, known), "its condition is computed at run time", loop)
    branches = [node for node in nodes_in(body) if node.op_type == "If"]
    results = [x for node in branches for x in node.outputs if x in known]
    chosen = [x for x in results if _is_small(x) and x.consumers()]
    return _Closed(loop, given[0] if given else None, after, chosen, condition)


def _following(graph: oir.Graph, known: set[oir.Value]) -> set[oir.Value]:
    """The values that the evaluator computes from known ones and from constants, with these.

    A result of an If is among them if its condition is, and both branches give it.
    """
    for node in nodes_in(graph):
        if node.domain or not all(x is not None and _is_known(x, known) for x in node.inputs):
            continue
        if node.op_type in OPERATORS:
            known.update(x for x in node.outputs if size_of(x) is not None)
        elif node.op_type == "If":
            branches = subgraphs(node)
            for branch in branches:
                _following(branch, known)
            results = zip(*(branch.outputs for branch in branches), strict=True)
            for output, both in zip(node.outputs, results, strict=True):
                if all(_is_known(x, known) for x in both):
                    known.add(output)
    return known


def _is_known(x: oir.Value, known: Collection[oir.Value]) -> bool:
    return x in known or const_of(x) is not None


def _is_small(x: oir.Value) -> bool:
    size = size_of(x)
    return size is not None and size <= _MOST_ELEMENTS


def _array_of(x: oir.Value, arrays: Arrays) -> np.ndarray:
    """What a value holds that is among these, or is a constant."""
    array = arrays[x] if x in arrays else const_of(x)
    assert array is not None
    return array


def _evaluated(closed: _Closed) -> list[Arrays]:
    """What is known in each trip, and the states after the last one.

    Raises:
        Refusal: There are too many trips, or numbers that depend on the runtime.
    """
    loop, body, condition = closed.loop, closed.body, closed.condition
    makers = _makers([*closed.after.values(), *closed.chosen, *present([condition])])
    most = _MOST_EVALUATED // (sum(map(_work, makers)) + 1)
    least = 1 if condition is not None else closed.limit or 0
    need(least <= most, "it makes many trips, or its values are large", loop)
    starts = zip(body.inputs[2:], present(loop.inputs[2:]), strict=True)
    states = {state: _array_of(x, {}) for state, x in starts if state in closed.after}
    history: list[Arrays] = []
    for trip in count(1):
        arrays = {body.inputs[0]: np.asarray(trip - 1), **states}
        _run(body, makers, arrays)
        history.append({x: arrays[x] for x in (*states, *closed.chosen)})
        states = {state: _array_of(x, arrays) for state, x in closed.after.items()}
        is_over = condition is not None and not _array_of(condition, arrays).all()
        if is_over or trip == closed.limit:
            break
        need(trip < most, "it makes many trips", loop)
    return [*history, states]


def _work(node: oir.Node) -> int:
    """The number of small nodes that take as long to evaluate."""
    return 1 + sum(size_of(x) or 0 for x in (*node.inputs, *node.outputs)) // _ELEMENTS


def _makers(wanted: Iterable[oir.Value]) -> Makers:
    """What computes these values, in a body and in its branches."""
    makers: Makers = {}
    pending = list(wanted)
    while pending:
        x = pending.pop()
        node, place = x.producer(), x.index()
        if node is None or place is None or const_of(x) is not None:
            continue
        places = makers.setdefault(node, set())
        if place not in places:
            places.add(place)
            pending += present(node.inputs)
            pending += [branch.outputs[place] for branch in subgraphs(node)]
    return makers


def _run(graph: oir.Graph, makers: Makers, arrays: Arrays) -> None:
    """Adds the results of nodes to the arrays, in the branches that are taken."""
    for node in graph:
        places = makers.get(node)
        if not places:
            continue
        inputs = [_array_of(x, arrays) for x in present(node.inputs)]
        if node.op_type == "If":
            name = "then_branch" if inputs[0].all() else "else_branch"
            branch = node.attributes[name].as_graph()
            _run(branch, makers, arrays)
            for place in places:
                arrays[node.outputs[place]] = _array_of(branch.outputs[place], arrays)
        elif node.outputs[0] not in arrays:
            try:
                arrays[node.outputs[0]] = np.asarray(evaluate(node, inputs))
            except Unknown as unknown:
                raise Refusal(str(unknown), node) from None

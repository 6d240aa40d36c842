"""The first trip of a Loop runs in front of it where it differs from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.evaluator import known_array
from hlo2onnx.ir.notes import LATER_TRIPS, hold_trip
from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import all_nodes, replace_uses, subgraphs
from hlo2onnx.ir.values import const_ints, const_of, dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import copy_nodes, makes_a_trip, output_of
from hlo2onnx.raising.match.counted_loop import release
from hlo2onnx.raising.match.views import first


class LoopPeel(Rule):
    """Loop(s, while c: s = f(s)) -> If(c, t = f(s), Loop(t, while c: t = f(t)), s)

    Legal if the body stacks no rows. The others count their trips from one. If the first trip is
    certain, it needs no branch, but the others do. Done for conditions that are computed and trips
    of few nodes, if the first one is special: a state starts from one constant and is another one
    in all later trips; or, in the body of a loop or branch, the first states decide a branch, or
    it makes two trips at most and a state starts from a constant. Then there is no Loop left.
    Solvers mark their first step like this. Line searches first look for an interval, and often end
    with this step.
    """

    name = "loop-peel"
    anchors = frozenset({"Loop"})
    # Rules for loops match their bodies as they are.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        need(body.doc_string != LATER_TRIPS, "its first trip runs in front of it", node)
        limit = const_ints(node.inputs[0])
        need(node.inputs[0] is None or limit, "the number of its trips is computed", node)
        need(not limit or limit[0] > 1, "it makes one trip at most", node)
        going = origin(body.outputs[0])
        need(going not in body.inputs and const_of(going) is None, "it never ends", node)
        need(len(node.outputs) == len(body.inputs) - 2, "each trip stacks a row", node)
        need(all(map(is_repeatable, all_nodes(body))), "its body has random numbers", node)
        flags = b.target.flags
        runs = not (
            flags.no_if
            or flags.no_nested_loops
            or flags.no_zero_trips
            or flags.no_outer_values_in_branches
        )
        need(runs, "the target runs no loop in a branch", node)
        numbers = _first_numbers(node)
        special = any(_changes_once(body.outputs[k - 1], x) for k, x in numbers.items())
        first_values = {body.inputs[k]: x for k, x in numbers.items()}
        taken = _taken(body, {body.inputs[0]: np.array(0), **first_values})
        need(special or node.graph is not b.main_graph, "it runs once", node)
        is_pair = bool(limit and limit[0] == 2 and numbers)
        need(special or taken or is_pair, "the first trip takes no known branch", node)
        need(_size(body, taken) <= b.costs.peeled_nodes, "its body has many nodes", node)
        return (_certain if makes_a_trip(node) else _guarded)(b, node)


def _first_numbers(loop: oir.Node) -> dict[int, np.ndarray]:
    """The constants that states start from, by their places among the operands."""
    found = {k: const_of(x) for k, x in enumerate(loop.inputs) if k >= 2 and x is not None}
    return {k: number for k, number in found.items() if number is not None}


def _changes_once(after: oir.Value, start: np.ndarray) -> bool:
    """Whether a state is another constant after each trip."""
    number = const_of(origin(after))
    return number is not None and number.tobytes() != start.tobytes()


def _taken(body: oir.Graph, numbers: Mapping[oir.Value, np.ndarray]) -> dict[oir.Node, oir.Graph]:
    """The branches that a trip surely takes if the states are these numbers."""
    found: dict[oir.Node, oir.Graph] = {}
    for node in body if numbers else ():
        if node.op_type == "If" and not node.domain:
            truth = known_array(first(node), given=numbers)
            if truth is not None:
                name = "then_branch" if truth.item() else "else_branch"
                found[node] = node.attributes[name].as_graph()
    return found


def _size(graph: oir.Graph, taken: Mapping[oir.Node, oir.Graph]) -> int:
    """How many nodes a graph has, without the branches that are not taken."""
    count = 0
    for node in graph:
        count += WRITTEN_NODES if node.op_type == THREEFRY else 1
        graphs = [taken[node]] if node in taken else subgraphs(node)
        count += sum(_size(each, taken) for each in graphs)
    return count


def _certain(b: Rewriter, loop: oir.Node) -> Sequence[oir.Value]:
    """The first trip, and a branch with the others."""
    going, states = _trip(b, loop, 0, present(loop.inputs[2:]))
    with b.subgraph([], f"{b.scope}/others") as others:
        for x in _others(b, loop, None, states):
            others.outputs.append(output_of(b, others, x))
    return _choice(b, loop, going, others, states)


def _guarded(b: Rewriter, loop: oir.Node) -> Sequence[oir.Value]:
    """A branch with the first trip and the others."""
    start = needed(loop.inputs[1], "it has no first condition", loop)
    with b.subgraph([], f"{b.scope}/trips") as trips:
        going, states = _trip(b, loop, 0, present(loop.inputs[2:]))
        trips.outputs.extend(_others(b, loop, going, states))
    return _choice(b, loop, start, trips, present(loop.inputs[2:]))


def _trip(
    b: Rewriter, loop: oir.Node, number: int, given: Sequence[oir.Value]
) -> tuple[oir.Value, list[oir.Value]]:
    """Whether there is another trip, and its states."""
    body = loop.attributes["body"].as_graph()
    values = dict(zip(body.inputs[2:], given, strict=True))
    values[body.inputs[0]], values[body.inputs[1]] = b.i64(number), b.const(np.array(True))
    around = b.scope, b.metadata
    for node in list(body):
        b.scope, b.metadata = node.name or "", node.metadata_props
        copy_nodes(b, [node], values)
    b.scope, b.metadata = around
    for old, new in values.items():
        hold_trip(body.inputs[0], number, old, new)
    going, *states = (values.get(x, x) for x in body.outputs)
    return b.reshape(going, []), states


def _others(
    b: Rewriter, loop: oir.Node, going: oir.Value | None, states: Sequence[oir.Value]
) -> Sequence[oir.Value]:
    """The Loop without its first trip."""
    limit = const_ints(loop.inputs[0])
    if limit and limit[0] == 2:
        return _second(b, loop, going, states)
    most = b.i64(limit[0] - 1) if limit else None
    types = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    body = loop.attributes["body"].as_graph()
    body.doc_string = LATER_TRIPS
    if body.inputs[0].uses():
        _count_from_one(b, body)
    graphs = {"body": body}
    return b.node("Loop", [most, going, *states], graphs, types)


def _second(
    b: Rewriter, loop: oir.Node, going: oir.Value | None, states: Sequence[oir.Value]
) -> Sequence[oir.Value]:
    """The second trip, if there is one, in place of a Loop."""
    if going is None:
        results = _trip(b, loop, 1, states)[1]
        release(loop.attributes["body"].as_graph())
        return results
    with b.subgraph([], f"{b.scope}/second") as second:
        for x in _second(b, loop, None, states):
            second.outputs.append(output_of(b, second, x))
    return _choice(b, loop, going, second, states)


def _count_from_one(b: Rewriter, body: oir.Graph) -> None:
    """Makes a body read the number of the next trip."""
    old = body.inputs[0]
    new = body.inputs[0] = b.value(old.name or "trip", oir.DataType.INT64, [])
    new.meta.update(old.meta)
    with b.before(next(iter(body))):
        replace_uses(old, b.Add(new, b.i64(1)))


def _choice(
    b: Rewriter,
    loop: oir.Node,
    condition: oir.Value,
    trips: oir.Graph,
    states: Sequence[oir.Value],
) -> Sequence[oir.Value]:
    """The results of trips, or these states if there are none."""
    with b.subgraph([], f"{b.scope}/ended") as ended:
        for x in states:
            ended.outputs.append(output_of(b, ended, x))
    types = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    branches = {"then_branch": trips, "else_branch": ended}
    return b.node("If", [b.reshape(condition, [])], branches, types)

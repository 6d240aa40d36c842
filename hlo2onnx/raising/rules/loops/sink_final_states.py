"""States that only the last trip matters for are computed after the loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import all_nodes, reads, subgraphs
from hlo2onnx.ir.values import const_ints, origin
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import copy_nodes, makers_within, makes_a_trip
from hlo2onnx.raising.match.counted_loop import has_condition, separate
from hlo2onnx.rewrite.large_graphs import use_count
from hlo2onnx.rewrite.licm import is_repeatable

_MOST_NODES = 64
"""Nodes that may be there twice: a limit on the model's size, no cost."""


class SinkFinalStates(Rule):
    """Loop(s = f(s), t = g(f(s))) -> s = Loop(s = f(s)), t = g(s)

    Legal if no trip reads the state t, the loop makes at least one trip, and a trip computes t from
    the states that it passes on, from its number, if the number of trips is known, and from values
    made before the loop. The last trip's values of these are results of the loop. Done if fewer
    nodes run, with two trips where their number is not known. Samplers keep the density of the last
    step like this.
    """

    name = "sink-final-states"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(makes_a_trip(node), "it may make no trip", node)
        body = node.attributes["body"].as_graph()
        states = list(body.inputs)[2:]
        alone = [
            k for k, state in enumerate(states) if _is_used(node.outputs[k]) and not _is_used(state)
        ]
        need(alone, "each trip reads the states, or nothing reads them after the loop", node)
        for k in alone:
            last = _last_values(node, k)
            late = _computed_late(node, k, last)
            if late is not None:
                return _sunk(b, node, k, late, last)
        raise Refusal("a trip computes the states from what only it knows, or they are few", node)


def _is_used(x: oir.Value) -> bool:
    return use_count(x) > 0 or x.is_graph_output()


def _last_values(loop: oir.Node, k: int) -> dict[oir.Value, int | None]:
    """What is known after the loop of the values in its last trip.

    Returns:
        The positions of the other states that hold these values, None for the number of the trip.
    """
    body = loop.attributes["body"].as_graph()
    known: dict[oir.Value, int | None] = {}
    if not has_condition(loop) and const_ints(loop.inputs[0]):
        known[body.inputs[0]] = None
    for place in range(len(body.inputs) - 2):
        for x in (body.outputs[1 + place], origin(body.outputs[1 + place])):
            if place != k and _is_inside(x, body):
                known.setdefault(x, place)
    return known


def _computed_late(
    loop: oir.Node, k: int, last: Mapping[oir.Value, int | None]
) -> list[oir.Node] | None:
    """The nodes that compute a state after the last trip; None if the loop has to."""
    body = loop.attributes["body"].as_graph()
    end = body.outputs[1 + k]
    found: set[oir.Node] = set()
    pending = [end]
    while pending:
        x = pending.pop()
        maker = x.producer()
        if maker is None or maker.graph is not body or not is_repeatable(maker):
            return None  # a state as it was before the trip
        if maker not in found:
            found.add(maker)
            pending += [x for x in reads(maker) if x not in last and _is_inside(x, body)]
        if len(found) > _MOST_NODES:
            return None
    late = [node for node in makers_within(body, [end]) if node in found]
    freed = _freed(late, end)
    if any(subgraphs(node) for node in late if node not in freed):
        return None
    known = None if has_condition(loop) else const_ints(loop.inputs[0])
    return late if _work(freed) * (known[0] if known else 2) > _work(late) else None


def _is_inside(x: oir.Value, body: oir.Graph) -> bool:
    """Whether a value is made in a body, or is one of its inputs."""
    maker = x.producer()
    return maker.graph is body if maker is not None else x.graph is body and x.is_graph_input()


def _freed(late: Sequence[oir.Node], end: oir.Value) -> set[oir.Node]:
    """The nodes that a trip then does not need."""
    freed: set[oir.Node] = set()
    for node in reversed(late):
        is_free = all(
            (x is end or not x.is_graph_output()) and freed.issuperset(x.consumers())
            for x in node.outputs
        )
        if is_free:
            freed.add(node)
    return freed


def _work(nodes: Iterable[oir.Node]) -> int:
    """How many nodes run."""
    inner = (each for node in nodes for each in (node, *_inside(node)))
    return sum(WRITTEN_NODES if each.op_type == THREEFRY else 1 for each in inner)


def _inside(node: oir.Node) -> Iterator[oir.Node]:
    for graph in subgraphs(node):
        yield from all_nodes(graph)


def _sunk(
    b: Rewriter,
    loop: oir.Node,
    k: int,
    late: Sequence[oir.Node],
    last: Mapping[oir.Value, int | None],
) -> list[oir.Value]:
    """The results of a Loop, one of them computed after it."""
    counts = const_ints(loop.inputs[0])
    end = loop.attributes["body"].as_graph().outputs[1 + k]
    made = b.copy_of(loop)
    values: dict[oir.Value, oir.Value] = {}
    for x, place in last.items():
        if place is not None:
            values[x] = made[place]
        elif counts:
            values[x] = b.i64(counts[0] - 1)
    copy_nodes(b, late, values)
    made[k] = separate(b, loop.outputs[k], values[end])
    return made

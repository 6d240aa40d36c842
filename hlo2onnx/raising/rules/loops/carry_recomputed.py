"""What a body computes from the states of the next trip becomes a state."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.code_motion import have_equal_bodies, is_repeatable, node_key
from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.traversal import all_nodes, nodes_in, reads, replace_uses, subgraphs
from hlo2onnx.ir.values import dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.copies import (
    copy_nodes,
    is_speculatable,
    makers_within,
    makes_a_trip,
    output_of,
)
from hlo2onnx.raising.match.counted_loop import has_one_shape

Following = dict[oir.Value, oir.Value]


class CarryRecomputed(Rule):
    """Loop(while p(h(s)): s = f(s, h(s))) -> Loop(t = h(s), while p(t): s = f(s, t), t = h(s))

    A condition is computed from the states of the next trip, which computes the same values once
    more. Legal if these depend only on states and on values made before the loop, and keep their
    shape. The first ones are computed before the loop: they must not fail, or the first trip must
    be certain. Done if fewer nodes run in a trip.
    """

    name = "carry-recomputed"
    anchors = frozenset({"Loop"})
    # Rules for loops with a known number of trips match their bodies as they are.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        has_condition = origin(body.outputs[0]) is not body.inputs[1]
        need(has_condition, "it has no condition that is computed in the body", node)
        following = _following(body, makes_a_trip(node))
        dead = _replaceable(body, following)
        owners = {inner: one for one in dead for inner in _inner_nodes(one)}
        read = [
            x
            for one in dead
            for x in one.outputs
            if any(owners.get(reader, reader) not in dead for reader in x.consumers())
        ]
        need(read, "no trip computes again what the trip before has computed", node)
        copied = sum(following[x].is_graph_output() for x in read)
        need(copied < len(dead), "as many values would be copied", node)
        need(all(has_one_shape(b, x) for x in read), "a value changes its shape", node)
        return _carried(b, node, {x: following[x] for x in read})


def _following(body: oir.Graph, makes_a_trip: bool) -> Following:
    """For values of a trip the same values of the next trip, where the body computes these, too."""
    states = body.inputs[2:]
    pairs = zip(states, map(origin, body.outputs[1:]), strict=False)
    following = {state: after for state, after in pairs if after is not state}
    nodes = nodes_in(body)
    inner = {*body.inputs, *(x for node in nodes for x in node.outputs)}
    known: dict[Hashable, list[oir.Node]] = {}
    later: set[oir.Value] = set()
    for node in nodes:
        given = reads(node) if node.attributes.data else present(node.inputs)
        if following.keys().isdisjoint(given) or not later.isdisjoint(node.outputs):
            continue
        if any(x in inner and x not in following for x in given):
            continue
        if not (is_speculatable(node) or (makes_a_trip and is_repeatable(node))):
            continue
        if not known:  # few bodies have such a node
            for each in nodes:
                known.setdefault(node_key(each, each.inputs), []).append(each)
        inputs = [x if x is None else following.get(x, x) for x in node.inputs]
        for again in known.get(node_key(node, inputs), ()):
            is_new = again is not node and following.keys().isdisjoint(again.outputs)
            if is_new and have_equal_bodies(node, again, following):
                following.update(zip(node.outputs, again.outputs, strict=True))
                later.update(again.outputs)
                break
    return following


def _replaceable(body: oir.Graph, following: Following) -> dict[oir.Node, None]:
    """The nodes that are not needed if their results are states, in the order of the body."""
    return dict.fromkeys(
        node
        for node in body
        if node.outputs[0] in following and not any(x.is_graph_output() for x in node.outputs)
    )


def _inner_nodes(node: oir.Node) -> Iterator[oir.Node]:
    return (inner for body in subgraphs(node) for inner in all_nodes(body))


def _carried(
    b: Rewriter, loop: oir.Node, following: Mapping[oir.Value, oir.Value]
) -> list[oir.Value]:
    """A Loop with a state for each of these values, which has the value of the next trip at the
    end."""
    body = loop.attributes["body"].as_graph()
    values: Following = dict(zip(body.inputs[2:], present(loop.inputs[2:]), strict=True))
    count = len(values)
    copy_nodes(b, makers_within(body, following), values)
    start = [values[x] for x in following]
    types = [(dtype_of(x), shape_of(x)) for x in following]
    states = [b.value(f"{x.name}/carried", *each) for x, each in zip(following, types, strict=True)]
    with b.at_end(body):
        for place, x in enumerate(following.values()):
            body.outputs.insert(1 + count + place, output_of(b, body, x))
    for old, new in zip(following, states, strict=True):
        replace_uses(old, new)
    remove_makers(list(following), within=body)
    body.inputs.extend(states)
    kept = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    kept[count:count] = types
    made = b.node("Loop", [*loop.inputs, *start], {"body": body}, kept)
    return [*made[:count], *made[count + len(types) :]]

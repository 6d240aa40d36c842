"""What a body computes from the states of the next trip becomes a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, origin, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.copies import (
    copy_nodes,
    is_speculatable,
    makers_within,
    output_of,
)
from hlo2onnx.raising.match.counted_loop import has_one_shape
from hlo2onnx.rewrite.cse import node_key
from hlo2onnx.rewrite.large_graphs import replace_uses
from hlo2onnx.rewrite.licm import is_repeatable
from hlo2onnx.rewrite.replace import remove_makers

Following = dict[oir.Value, oir.Value]


class CarryRecomputed(Rule):
    """Loop(while p(h(s)): s = f(s, h(s))) -> Loop(t = h(s), while p(t): s = f(s, t), t = h(s))

    A condition is computed from the states of the next trip, which computes the same values once
    more. Legal if these depend only on states and on values made before the loop, keep their shape,
    and do not fail, as the first ones are computed before the loop. Done if fewer nodes run in a
    trip.
    """

    name = "carry-recomputed"
    anchors = frozenset({"Loop"})
    # Rules for loops with a known number of trips match their bodies as they are.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        has_condition = origin(body.outputs[0]) is not body.inputs[1]
        need(has_condition, "it has no condition that is computed in the body", node)
        following = _following(body)
        dead = _replaceable(body, following)
        read = [
            x
            for one in dead
            for x in one.outputs
            if any(reader not in dead for reader in x.consumers())
        ]
        need(read, "no trip computes again what the trip before has computed", node)
        copied = sum(following[x].is_graph_output() for x in read)
        need(copied < len(dead), "as many values would be copied", node)
        need(all(has_one_shape(b, x) for x in read), "a value changes its shape", node)
        return _carried(b, node, {x: following[x] for x in read})


def _following(body: oir.Graph) -> Following:
    """For values of a trip the same values of the next trip, where the body computes these, too."""
    states = body.inputs[2:]
    pairs = zip(states, map(origin, body.outputs[1:]), strict=False)
    following = {state: after for state, after in pairs if after is not state}
    inner = {*body.inputs, *(x for node in body for x in node.outputs)}
    plain = [node for node in body if _is_plain(node)]
    known = {node_key(node, node.inputs): node for node in plain}
    later: set[oir.Value] = set()
    for node in plain:
        given = present(node.inputs)
        if following.keys().isdisjoint(given) or not is_speculatable(node):
            continue
        if node.outputs[0] in later or any(x in inner and x not in following for x in given):
            continue
        inputs = [x if x is None else following.get(x, x) for x in node.inputs]
        again = known.get(node_key(node, inputs))
        if again is not None and again is not node and again.outputs[0] not in following:
            following[node.outputs[0]] = again.outputs[0]
            later.add(again.outputs[0])
    return following


def _is_plain(node: oir.Node) -> bool:
    return len(node.outputs) == 1 and not subgraphs(node) and is_repeatable(node)


def _replaceable(body: oir.Graph, following: Following) -> dict[oir.Node, None]:
    """The nodes that are not needed if their results are states, in the order of the body."""
    return dict.fromkeys(
        node
        for node in body
        if len(node.outputs) == 1
        and node.outputs[0] in following
        and not node.outputs[0].is_graph_output()
    )


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

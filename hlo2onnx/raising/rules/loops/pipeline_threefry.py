"""Keys for the next trip are split in the trip before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import replace_uses
from hlo2onnx.ir.values import dtype_of, present, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.threefry import (
    chain_to,
    copied_chain,
    pairs_of_words,
    threefry_levels,
)


class PipelineThreefry(Rule):
    """Loop(w = split(k), k = w[0], x = draw(w[1])) -> Loop(x = draw(w[1]), w = split(w[0]))

    Legal if what is split depends on states alone, by nodes that do not fail on any state. The
    first words are made before the loop, those of the next trip at the end of a trip, where
    `batch-threefry` makes them together with others; those after the last trip are not used. Done
    if fewer uses of Threefry then wait for others.
    """

    name = "pipeline-threefry"
    anchors = frozenset({"Loop"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        uses = b.nodes_of(body, THREEFRY)
        need(uses, "no use of Threefry is in its body", node)
        levels = threefry_levels(body)
        depth = max(levels.values(), default=0)
        need(depth > 1, "no use of Threefry waits for another", node)
        firsts = [x for x in uses if levels[x.outputs[0]] == 1]
        need(len(firsts) == 1, "several uses of Threefry wait for none", node)
        (first,) = firsts
        most = b.costs.threefry_written_elements
        need(0 < pairs_of_words(first) <= most, "it draws many numbers", first)
        chain = chain_to(first)
        is_numbered = any(x in body.inputs[:2] for each in chain for x in each.inputs)
        need(not is_numbered, "its key depends on the number of the trip", first)
        pairs = _after(body)
        given = {x for each in chain for x in each.inputs if x in pairs}
        left = threefry_levels(body, without=[first])
        last = 1 + max((left.get(pairs[x], 0) for x in given), default=0)
        need(max(last, *left.values()) < depth, "as many would wait for others", node)
        return _pipelined(b, node, first, chain, pairs)


def _after(body: oir.Graph) -> dict[oir.Value, oir.Value]:
    """The states after a trip, by the states before it."""
    return dict(zip(body.inputs[2:], body.outputs[1:], strict=False))


def _pipelined(
    b: Rewriter,
    loop: oir.Node,
    first: oir.Node,
    chain: Sequence[oir.Node],
    pairs: Mapping[oir.Value, oir.Value],
) -> Sequence[oir.Value]:
    body = loop.attributes["body"].as_graph()
    initial = dict(zip(body.inputs[2:], present(loop.inputs[2:]), strict=True))
    start = copied_chain(b, chain, initial)
    types = [(dtype_of(x), shape_of(x)) for x in first.outputs]
    words = [b.value(f"{first.name}/words", *each) for each in types]
    with b.at_end(body):
        following = copied_chain(b, chain, pairs)
    for old, new in zip(first.outputs, words, strict=True):
        replace_uses(old, new)
    remove_makers(first.outputs, within=body)
    states = len(initial)
    body.inputs.extend(words)
    for place, x in enumerate(following):
        body.outputs.insert(1 + states + place, x)
    given = [*loop.inputs, *start]
    kept = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    made = b.node("Loop", given, {"body": body}, [*kept[:states], *types, *kept[states:]])
    return [*made[:states], *made[states + len(types) :]]

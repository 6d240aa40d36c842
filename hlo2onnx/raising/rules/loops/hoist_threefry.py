"""Random bits of a branch are made in front of it, with others."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.threefry import (
    chain_to,
    copied_chain,
    pairs_of_words,
    threefry_levels,
)


class HoistThreefry(Rule):
    """Threefry2x32(k, i), If(c, f(Threefry2x32(l, j))) -> both Threefry2x32 before If(c, f(w))

    Legal if the branch computes the key and the counters from values around it, by few nodes that
    do not fail on any numbers. Done for few numbers, if a use of Threefry around the branch waits
    for equally many others: `batch-threefry` makes the words of both in about the time of one.
    """

    name = "hoist-threefry"
    anchors = frozenset({"If"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        assert node.graph is not None
        reason = "no use of Threefry around it can take place at the same time"
        need(any(each.op_type == THREEFRY for g in subgraphs(node) for each in g), reason, node)
        around = b.nodes_of(node.graph, THREEFRY)
        need(around, reason, node)
        levels = threefry_levels(node.graph)
        for branch in subgraphs(node):
            own = threefry_levels(branch, (), levels)
            for inner in branch:
                if inner.op_type != THREEFRY or not pairs_of_words(inner):
                    continue
                room = b.costs.threefry_written_elements - pairs_of_words(inner)
                for other in around:
                    alike = levels[other.outputs[0]] == own[inner.outputs[0]]
                    if alike and 0 < pairs_of_words(other) <= room:
                        return _hoisted(b, node, inner)
        raise Refusal(reason, node)


def _hoisted(b: Rewriter, branching: oir.Node, inner: oir.Node) -> Sequence[oir.Value]:
    replace(inner, copied_chain(b, chain_to(inner), {}))
    return b.copy_of(branching)

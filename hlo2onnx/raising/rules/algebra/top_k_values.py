"""Elements that are gathered in the order that a sort of them found."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import maker_of, operands


class TopKValues(Rule):
    """GatherElements(x, places of TopK(x, k)) -> values of TopK(x, k)

    Legal along the same axis: TopK gives the elements at these places. Gather of a vector x is the
    same.
    """

    name = "top-k-values"
    anchors = frozenset({"Gather", "GatherElements"})
    sources = frozenset({"TopK"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, indices = operands(node)
        top_k = needed(maker_of(indices, "TopK"), "its indices are not those of a TopK", node)
        need(top_k.inputs[0] is x, "the TopK orders another value", node)
        need(indices is top_k.outputs[1], "its indices are values", node)
        rank = rank_of(x)
        need(rank == 1 or node.op_type == "GatherElements", "it gathers whole rows", node)
        axis = node.attributes.get_int("axis", 0) % rank
        need(axis == top_k.attributes.get_int("axis", -1) % rank, "the axes differ", node)
        return top_k.outputs[0]

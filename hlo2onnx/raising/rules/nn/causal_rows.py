"""Rows of masks of attention."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.dims import at_most, difference
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.causal import causal_mask
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import first, maker_of


class CausalRows(Rule):
    """ReduceMax(Cast(mask)) -> 1, ReduceMin(Cast(Not(mask))) -> 0

    Legal along the keys of a mask that hides nothing but the keys that follow a query, and those
    outside of a window: each query sees itself. There must be as many keys as queries: the others
    are an extent of an input. keras-hub asks whether a query sees any key. Positions may be floats,
    which count to 2^24, so it is done with attention="gqa" only.
    """

    name = "causal-rows"
    anchors = frozenset({"ReduceMax", "ReduceMin"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        mask, sees = first(node), node.op_type == "ReduceMax"
        last = rank_of(mask) - 1
        need(last > 0 and reduced_axes(node) == (last,), "it does not reduce the keys", node)
        new, total = shape_of(mask)[-2:]
        while (made := maker_of(mask, "Cast", "Expand", "Unsqueeze", "Not")) is not None:
            need(shape_of(mask)[-2:] == (new, total), "it moves the keys", made)
            sees ^= made.op_type == "Not"
            mask = first(made)
        need(sees, "it asks whether a query sees all keys", node)
        causal = needed(causal_mask(mask, new, total), "the mask may hide all keys", mask)
        need(causal.is_all, "the mask may hide all keys", mask)
        past, result = difference(total, new), node.outputs[0]
        is_past = at_most(0, past) or any(past in shape_of(x) for x in b.main_graph.inputs)
        need(is_past, "there may be fewer keys than queries", mask)
        number = b.scalar(int(node.op_type == "ReduceMax"), dtype_of(result))
        return b.expand(number, shape_of(result))

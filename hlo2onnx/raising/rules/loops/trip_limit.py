"""Loops whose condition counts their trips."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.trip_bounds import conjuncts, limit_by


class TripLimit(Rule):
    """Loop(while c and k + 1 < n: k = k + 1) -> Loop(n, while c: k = k + 1)

    Legal for a counter that starts from a constant and is compared with a constant, if an int64
    holds the trip count, and a float counts whole numbers without rounding. The trip count then
    follows without the counter, which often has no other use.
    """

    name = "trip-limit"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        body = node.attributes["body"].as_graph()
        given = const_ints(node.inputs[0])
        need(node.inputs[0] is None or given, "its trip count is computed", node)
        parts = conjuncts(body.outputs[0])
        limits = [limit_by(node, part) for part in parts]
        limit = needed(
            next((limit for limit in limits if limit is not None), None),
            "no part of its condition counts trips",
            node,
        )
        start = node.inputs[1]
        left = [part for k, part in enumerate(parts) if k != limits.index(limit)]
        if not left and start is not None and b.facts.truth(start):
            start = None
        with b.at_end(body):
            going = b.reshape(left[0], []) if left else body.inputs[1]
            for part in left[1:]:
                going = b.And(going, b.reshape(part, []))
            body.outputs[0] = output_of(b, body, going)
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        most = b.i64(min([limit, *(given or ())]))
        return b.node("Loop", [most, start, *node.inputs[2:]], {"body": body}, types)

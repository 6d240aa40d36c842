"""Loops whose condition counts their trips."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.trip_bounds import conjuncts, implied_limit, limit_by


class TripLimit(Rule):
    """Loop(while c and k + 1 < n: k = k + 1) -> Loop(n, while c: k = k + 1)

    Legal for a counter that starts from a constant and is compared with a constant, if an int64
    holds the number of trips, and a float counts whole numbers without rounding. The number then
    follows without the counter, which is often needed for nothing else.

    The comparison may also follow from the condition: a table of the truth values of all
    comparisons that the condition reads, ten at most, has no row where the condition holds and the
    counter is at its limit. Solvers stop like this, with one of several status codes, when they may
    ask for convergence. The condition then stays.
    """

    name = "trip-limit"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(not b.target.flags.no_loop, "the target runs no Loop with a condition", node)
        body = node.attributes["body"].as_graph()
        given = const_ints(node.inputs[0])
        need(node.inputs[0] is None or given, "the number of its trips is computed", node)
        parts = conjuncts(body.outputs[0])
        limits = [limit_by(node, part) for part in parts]
        found = next((k for k, limit in enumerate(limits) if limit is not None), None)
        if found is None:
            return _limited(b, node, given)
        start = node.inputs[1]
        left = [part for k, part in enumerate(parts) if k != found]
        if not left and start is not None and b.facts.truth(start):
            start = None
        with b.at_end(body):
            going = b.reshape(left[0], []) if left else body.inputs[1]
            for part in left[1:]:
                going = b.And(going, b.reshape(part, []))
            body.outputs[0] = output_of(b, body, going)
        limit = limits[found]
        assert limit is not None
        return _loop(b, node, min([limit, *(given or ())]), start)


def _limited(b: Rewriter, loop: oir.Node, given: Sequence[int] | None) -> Sequence[oir.Value]:
    """The loop with a limit that its condition implies."""
    limit = needed(implied_limit(loop), "no part of its condition counts trips", loop)
    need(not given or limit < given[0], "it makes fewer trips", loop)
    return _loop(b, loop, limit, loop.inputs[1])


def _loop(b: Rewriter, loop: oir.Node, most: int, start: oir.Value | None) -> Sequence[oir.Value]:
    """The loop with another number of trips and another first condition."""
    types = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    graphs = {"body": loop.attributes["body"].as_graph()}
    return b.node("Loop", [b.i64(most), start, *loop.inputs[2:]], graphs, types)

"""Loops whose condition counts their trips."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, const_ints, const_number, dtype_of, origin, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import output_of
from hlo2onnx.raising.match.views import maker_of, operands

_COMPARISONS = {"Less": 0, "LessOrEqual": 1}
_REVERSED = {"Greater": 0, "GreaterOrEqual": 1}


class TripLimit(Rule):
    """Loop(while c and k + 1 < n: k = k + 1) -> Loop(n, while c: k = k + 1)

    Legal for a counter that starts from a constant and is compared with a constant, if an int64
    holds the number of trips. That then follows without the counter, which is often needed for
    nothing else.
    """

    name = "trip-limit"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(not b.target.flags.no_loop, "the target runs no Loop with a condition", node)
        body = node.attributes["body"].as_graph()
        given = const_ints(node.inputs[0])
        need(node.inputs[0] is None or given, "the number of its trips is computed", node)
        parts = _conjuncts(body.outputs[0])
        limits = [_limit(node, body, part) for part in parts]
        found = next((k for k, limit in enumerate(limits) if limit is not None), None)
        if found is None:
            raise Refusal("no part of its condition counts trips", node)
        start = node.inputs[1]
        left = [part for k, part in enumerate(parts) if k != found]
        if not left and start is not None and b.facts.truth(start):
            start = None
        with b.at_end(body):
            going = left[0] if left else body.inputs[1]
            for part in left[1:]:
                going = b.And(going, part)
            body.outputs[0] = output_of(b, body, going)
        limit = limits[found]
        assert limit is not None
        most = b.i64(min([limit, *(given or ())]))
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        return b.node("Loop", [most, start, *node.inputs[2:]], {"body": body}, types)


def _conjuncts(condition: oir.Value) -> list[oir.Value]:
    """The scalars that must all be true for another trip."""
    node = maker_of(condition, "And", "Identity")
    if node is None or any(shape_of(x) != () for x in operands(node)):
        return [condition]
    return [part for x in operands(node) for part in _conjuncts(x)]


def _limit(loop: oir.Node, body: oir.Graph, condition: oir.Value) -> int | None:
    """After how many trips a comparison of a counter with a constant does not hold; None for other
    conditions."""
    compare = maker_of(condition, *_COMPARISONS, *_REVERSED)
    if compare is None or compare.graph is not body:
        return None
    counter, limit = operands(compare)
    if compare.op_type in _REVERSED:
        counter, limit = limit, counter
    most = const_number(limit)
    for k, (state, after) in enumerate(zip(body.inputs[2:], body.outputs[1:], strict=False)):
        if origin(after) is not origin(counter) or dtype_of(state) not in INTEGERS:
            continue
        first = const_number(loop.inputs[2 + k])
        if most is None or first is None or not _counts(state, origin(after)):
            return None
        end = int(most) + (_COMPARISONS | _REVERSED)[compare.op_type]
        wraps = end > range_of_type(dtype_of(state)).high
        is_countable = end - int(first) <= range_of_type(oir.DataType.INT64).high
        return max(end - int(first), 1) if is_countable and not wraps else None
    return None


def _counts(state: oir.Value, after: oir.Value) -> bool:
    """Whether a trip adds 1 to a state."""
    node = maker_of(after, "Add")
    if node is None or shape_of(after) != shape_of(state):
        return False
    return any(
        x is state and const_number(one) == 1 for x, one in (operands(node), operands(node)[::-1])
    )

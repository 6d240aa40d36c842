"""Comparisons of computed numbers with constants."""

from __future__ import annotations

import math

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_number, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import both_orders, is_private, maker_of, operands, source_of


class CompareQuotient(Rule):
    """x / y < 1 -> x < y, x / y > 1 -> x > y; x / y <= 1 -> x <= y, and so for >=

    Legal for floats y above 0: a quotient of different numbers does not round to 1. y is finite, as
    inf / inf is NaN, except for > and for < where x is not -inf. Done if no other node reads the
    quotient. Solvers compare errors with tolerances like this.
    """

    name = "compare-quotient"
    anchors = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
    sources = frozenset({"Div"})
    # `compare-extreme` moves comparisons in front of extremes.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for place, ratio in enumerate(operands(node)):
            division = maker_of(ratio, "Div")
            if division is None or const_number(operands(node)[1 - place]) != 1:
                continue
            x, y = operands(division)
            need(dtype_of(x) in FLOATS, "it divides integers", division)
            need(is_private(ratio), "others read the quotient", division)
            least, most = b.facts.float_range(y)
            need(least > 0, "the divisor may be 0 or negative", y)
            is_strict = node.op_type in ("Greater", "Less")
            is_below = (node.op_type == "Less") == (place == 0)
            is_false = is_strict and (not is_below or b.facts.above_minus_infinity(x))
            need(is_false or most < math.inf, "the divisor may be infinite", y)
            shape = shape_of(node.outputs[0])
            need(shape == shape_of(ratio), "the other operand has more axes", node)
            return b.op(node.op_type, *((x, y) if place == 0 else (y, x)))
        raise Refusal("it does not compare a quotient with 1", node)


class IsFinite(Rule):
    """|x| != inf and x == x -> |x| <= m; |x| == inf or x != x -> not |x| <= m

    m is the largest number of the type. Legal for floats, as NaN is not below it. Done if no other
    node reads whether x is infinite.
    """

    name = "is-finite"
    anchors = frozenset({"And", "Or"})
    sources = frozenset({"Equal"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        is_finite = node.op_type == "And"
        for bound, number in both_orders(node):
            negated = bound if is_finite else number
            inverse = source_of(negated, "Not")
            pair = (inverse, number) if is_finite else (bound, inverse)
            infinite, same = (maker_of(x, "Equal") for x in pair)
            if infinite is None or same is None:
                continue
            x, again = operands(same)
            magnitude = _compared_with_infinity(infinite)
            is_one = x is again and magnitude is not None and source_of(magnitude, "Abs") is x
            need(is_one, "it compares other values", infinite)
            assert magnitude is not None
            need(dtype_of(x) in FLOATS, "they are integers", x)
            need(is_private(bound), "others read whether it is infinite", infinite)
            largest = b.scalar_like(ml_dtypes.finfo(dtype_of(x).numpy()).max, x)
            below: oir.Value = b.LessOrEqual(magnitude, largest)
            need(shape_of(below) == shape_of(node.outputs[0]), "a constant has more axes", infinite)
            return below if is_finite else b.Not(below)
        raise Refusal("it does not ask for infinity and NaN", node)


def _compared_with_infinity(equal: oir.Node) -> oir.Value | None:
    """What a comparison compares with infinity."""
    return next((x for x, limit in both_orders(equal) if const_number(limit) == math.inf), None)

"""Comparisons of computed numbers with constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_number, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import both_orders, is_private, maker_of, operands, source_of
from hlo2onnx.raising.rules.algebra.casts import HOLDS


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


class CompareClamped(Rule):
    """Max(x, 0) <= 1 -> x <= 1, Where(IsNaN(x), inf, x) <= 1 -> x <= 1, and so for the operands of
    Max; also for <, and for Min with >= and >

    Legal for constants: the bound of Max satisfies the comparison, and what replaces NaN does not.
    NaN compares as False, and Max and Min keep it. Done if a Max or Min that keeps two operands has
    no other reader. Line searches compare errors like this.
    """

    name = "compare-clamped"
    anchors = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
    sources = frozenset({"Max", "Min", "Where"})
    # After `is-nan` and `masked-gather`, which looks for clamps.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        shape = shape_of(node.outputs[0])
        for place, x in enumerate(operands(node)):
            limit = const_number(operands(node)[1 - place])
            if limit is None:
                continue
            is_below = node.op_type in ("Less", "LessOrEqual")
            extreme = "Max" if is_below == (place == 0) else "Min"
            found = _Clamped(node.op_type, place, limit, extreme).reduced(x, b)
            if found is None or found is x:
                continue
            pair = list(operands(node))
            pair[place] = found
            result: oir.Value = b.op(node.op_type, *pair)
            need(shape_of(result) == shape, "a bound has more axes", node)
            return result
        raise Refusal("it does not compare a clamped number with a constant", node)


@dataclass(frozen=True)
class _Clamped:
    """What a comparison with a constant needs of a number.

    Attributes:
        op_type: The comparison.
        place: The place of the number among its operands.
        limit: The constant.
        extreme: Max or Min. The comparison holds for this extreme if it holds for all operands.
    """

    op_type: str
    place: int
    limit: float
    extreme: str

    def _holds(self, number: float) -> bool:
        pair = (number, self.limit) if self.place == 0 else (self.limit, number)
        return HOLDS[self.op_type](*pair)

    def reduced(self, x: oir.Value, b: Rewriter) -> oir.Value | None:
        """A number for which the comparison gives the same; None if it holds for this constant."""
        number = const_number(x)
        if number is not None:
            return None if self._holds(number) else x
        node = maker_of(x, self.extreme, "Where")
        if node is None:
            return x
        if node.op_type == "Where":
            condition, substitute, other = operands(node)
            instead = const_number(substitute)
            is_nan = maker_of(condition, "IsNaN") is not None
            if not is_nan or source_of(condition, "IsNaN") is not other or instead is None:
                return x
            return x if self._holds(instead) else self.reduced(other, b)
        before = operands(node)
        after = [y for y in (self.reduced(y, b) for y in before) if y is not None]
        if len(after) < 2:
            return after[0] if after else None
        if after == before or not is_private(x):
            return x
        return b.op(self.extreme, *after)


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

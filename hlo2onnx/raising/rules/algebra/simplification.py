"""Operations without effect, or with a result that is known in advance; signs and powers."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.ranges import Range, decided, range_of_type
from hlo2onnx.ir.replace import can_replace
from hlo2onnx.ir.signs import has_no_sign, is_never_negative_zero, is_zero_sign_lost
from hlo2onnx.ir.values import FLOATS, INTEGERS, const_number, dtype_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.equations import (
    Equation,
    Equations,
    Match,
    filled,
    floats,
    instead,
    one_use,
)
from hlo2onnx.raising.match.views import both_orders, first, operands, source_of
from hlo2onnx.raising.patterns import COMPARISONS


class Row(Equations):
    """A row of this table."""


def _zero_sign_is_hidden(match: Match) -> None:
    """No sum with 0 is -0, or nothing depends on its sign."""
    source = source_of(match["x"], "Cast")
    was_integer = source is not None and dtype_of(source) in INTEGERS
    hidden = was_integer or is_never_negative_zero(match["x"])
    hidden = hidden or is_zero_sign_lost(match.node.outputs[0])
    need(hidden, "the sign of a zero may matter", match.node)


def _finite_or_integer(match: Match) -> None:
    """A product with 0 is 0, and nothing depends on its sign."""
    if dtype_of(match["x"]) in FLOATS:
        need(match.b.facts.finite(match["x"]), "0 * NaN and 0 * inf are NaN", match.node)
        need(
            is_zero_sign_lost(match.node.outputs[0]), "the sign of the zero may matter", match.node
        )


def _no_nan(match: Match) -> None:
    need(match.b.facts.nan_free(match["x"]), "1 ** NaN may be NaN", match.node)


def _no_float(match: Match) -> None:
    need(dtype_of(match["x"]) not in FLOATS, "inf - inf is NaN", match.node)


def _no_sign(match: Match) -> None:
    need(has_no_sign(match["x"]), "its operand may be negative", match.node)


class FoldComparison(Rule):
    """x < y -> True or False, likewise for <=, >, >=, ==; x == x, x <= x -> True; x < x -> False

    Legal if the ranges of the operands decide all elements, or both operands are the same value.
    Floats must not be NaN, except in x < x. Extents have ranges in any type.
    """

    name = "fold-comparison"
    formerly = ("decide-comparison",)
    anchors = COMPARISONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        answer = decided(node, b.facts.int_range)
        if answer is None:
            answer = decided(node, _range_of_number)
        is_strict = node.op_type in ("Greater", "Less")
        is_same = node.inputs[0] is node.inputs[1]
        if answer is None and is_same and is_strict:
            answer = False
        if answer is None:  # NaN is looked for last, as that takes longest
            is_float = dtype_of(first(node)) in FLOATS
            answer = True if is_same else decided(node, b.facts.float_range) if is_float else None
            need(answer is not None, "the ranges of its operands overlap", node)
            need(all(map(b.facts.nan_free, operands(node))), "an operand may be NaN", node)
        return filled(b, node, bool(answer))


def _range_of_number(x: oir.Value) -> Range | None:
    """The range of an extent or a whole number."""
    dim, number = noted_extent(x), const_number(x)
    if number is not None and float(number).is_integer():
        return Range(int(number), int(number))
    if dim is None or isinstance(dim, int):
        return None
    return Range(int(is_positive(dim)), range_of_type(oir.DataType.INT64).high)


class RedundantClamp(Rule):
    """max(x, y) -> x, min(x, y) -> x, Clip(x, low, high) -> x

    Legal if ranges show that x is always taken. y must not be NaN, nor the operands of Clip, and
    zeros must have one sign. Integers that are all out of bounds become the bound.
    """

    name = "redundant-clamp"
    formerly = ("drop-clamp",)
    anchors = frozenset({"Clip", "Max", "Min"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type == "Clip":
            return self._clip(node, b)
        need(len(node.inputs) == 2, "it does not have two operands", node)
        for x, y in both_orders(node):
            if self._is_taken(b, node.op_type, x, y) and b.facts.nan_free(y):
                taken = instead(b, node, x)
                # A state for the next trip may be another state, but not without a copy.
                return taken if can_replace(node.outputs[0], taken) else b.Identity(taken)
        raise Refusal("the ranges of its operands overlap", node)

    def _clip(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(all(map(b.facts.nan_free, operands(node))), "NaN would be lost", node)
        need(len(operands(node)) == 3, "it has only one bound", node)
        x, low, high = operands(node)
        if self._is_taken(b, "Max", x, low) and self._is_taken(b, "Min", x, high):
            return first(node)
        # Bounds of floats may be zeros of either sign.
        need(dtype_of(x) in INTEGERS, "its operand may be out of bounds", node)
        if self._is_taken(b, "Min", high, x):
            return instead(b, node, high)
        below = self._is_taken(b, "Max", low, x) and self._is_taken(b, "Min", low, high)
        need(below, "its operand may be out of bounds", node)
        return instead(b, node, low)

    def _is_taken(self, b: Rewriter, op_type: str, x: oir.Value, y: oir.Value) -> bool:
        mine, other = _bounds(b, x), _bounds(b, y)
        if mine is None or other is None:
            return False
        near, limit = (mine[0], other[1]) if op_type == "Max" else (-mine[1], -other[0])
        of_zeros = near == limit == 0 and dtype_of(x) in FLOATS
        return near >= limit and not (of_zeros and b.facts.steps(x) is None)


def _bounds(b: Rewriter, x: oir.Value) -> tuple[float, float] | None:
    return b.facts.float_range(x) if dtype_of(x) in FLOATS else b.facts.int_range(x)


RULES: tuple[Rule, ...] = (
    FoldComparison(),
    Row(
        "fold-where",
        "Where(True, x, y) -> x",
        "Where(False, x, y) -> y",
        "Where(p, x, x) -> x",
        why="Legal if the condition is known, from constants or ranges.",
        expands=True,
        formerly=["decide-where"],
    ),
    Row(
        "where-to-logic",
        "Where(p, True, False) -> p",
        "Where(p, True, q) -> Or(p, q)",
        "Where(p, q, False) -> And(p, q)",
        expands=True,
        formerly=["select-booleans"],
    ),
    Row(
        "fold-identity-operand",
        "x + -0.0 -> x",
        Equation("x + 0 -> x", _zero_sign_is_hidden),
        "x - 0 -> x",
        "x * 1 -> x",
        "x / 1 -> x",
        "Max(x, -inf) -> x",
        "Min(x, inf) -> x",
        "And(x, True) -> x",
        "Or(x, False) -> x",
        "Xor(x, False) -> x",
        "BitwiseXor(x, 0) -> x",
        why="""For floats x + 0 stays, as -0 + 0 is +0, unless x was an integer or is never -0, such
as 1 - y, or nothing depends on the sign of the zeros of the sum: sums, products and moves lead to
another sum with 0, as in associative scans, or to a comparison or another even function.""",
        expands=True,
        formerly=["drop-neutral"],
    ),
    Row(
        "fold-absorbing-operand",
        "And(x, False) -> False",
        "Or(x, True) -> True",
        Equation("x * 0 -> 0", _finite_or_integer),
        Equation("x * -0.0 -> 0", _finite_or_integer),
        Equation("Pow(1, x) -> 1", _no_nan),
        why="""Of floats x must be finite in x * 0, and nothing may depend on the sign of the
product. It must not be NaN in 1 ** x.""",
        expands=True,
        formerly=["fold-absorbed"],
    ),
    Row(
        "fold-same-operands",
        "Max(x, x) -> x",
        "Min(x, x) -> x",
        "And(x, x) -> x",
        "Or(x, x) -> x",
        "Xor(x, x) -> False",
        Equation("x - x -> 0", _no_float),
        expands=True,
        why="x - x is for integers: inf - inf is NaN.",
    ),
    Row(
        "power-to-product",
        "Pow(x, 1) -> x",
        "Pow(x, 2) -> x * x",
        guards=[floats],
        why="""Legal for floats: both are what the power is, rounded once. Sums of squares are then
recognised, and the ranges of squares are known.""",
    ),
    Row(
        "fold-double-negation",
        "Neg(Neg(x)) -> x",
        "Not(Not(x)) -> x",
        formerly=["drop-inverse"],
    ),
    Row(
        "redundant-abs",
        "Abs(x) -> x",
        guards=[floats, _no_sign],
        why="""Legal if no sign bit of x is set: x is made of other absolute values, squares and
positive constants, by sums, products, quotients and moves. NaN stays NaN.""",
    ),
    RedundantClamp(),
)

NEGATIONS: tuple[Rule, ...] = (
    Row(
        "add-neg-to-sub",
        "x + Neg(y) -> x - y",
        "x - Neg(y) -> x + y",
        Equation("x + Neg(y) * z -> x - y * z", one_use),
        Equation("x - Neg(y) * z -> x + y * z", one_use),
        why="""Legal in every type: floats round the same number, integers wrap alike. A product is
negated before or after it is rounded. Done if no other node reads the product and its negative
factor.""",
        formerly=["subtract-negative"],
    ),
    Row(
        "fold-neg-into-constant",
        "Neg(x * k) -> x * -k",
        "Neg(k / x) -> -k / x",
        "Neg(x / k) -> x / -k",
        "Neg(x) * k -> x * -k",
        "k / Neg(x) -> -k / x",
        "Neg(x) / k -> x / -k",
        guards=[floats, one_use],
        why="""Legal for floats, because their rounding is symmetric. Done if no other node reads
the product or the negative factor.""",
        formerly=["negate-constant"],
    ),
)
"""Differentiation leaves Neg in many places. Tried last, as patterns of other rules contain Neg."""

"""Negations and factors, which differentiation leaves in many places."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of, is_constant
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    both_orders,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)


class AddNegToSub(Rule):
    """Add(x, Neg(y)) -> Sub(x, y); Sub(x, Neg(y)) -> Add(x, y); so for Mul(Neg(y), z), which
    becomes Mul(y, z)

    Legal in every type: floats round the same number, integers wrap alike. A product is negated
    before or after it is rounded. Done if no other node reads the product and the negative.
    """

    name = "add-neg-to-sub"
    formerly = ("subtract-negative",)
    anchors = frozenset({"Add", "Sub"})
    sources = frozenset({"Mul", "Neg"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, other = operands(node)
        y = _negated(other, b)
        if y is None and node.op_type == "Add":
            x, y = other, _negated(x, b)
        need(y is not None, "no operand is negated", node)
        return b.Sub(x, y) if node.op_type == "Add" else b.Add(x, y)


def _negated(term: oir.Value, b: Rewriter) -> oir.Value | None:
    """The term with the other sign, if it is a negative or the product of one."""
    product = maker_of(term, "Mul") if is_private(term) else None
    if product is None:
        return source_of(term, "Neg")
    for factor, other in both_orders(product):
        y = source_of(factor, "Neg") if is_private(factor) else None
        if y is not None:
            return b.Mul(y, other)
    return None


class FoldNegIntoConstant(Rule):
    """Neg(Mul(c, x)) -> Mul(-c, x); Neg(Div(c, x)) -> Div(-c, x); Neg(Div(x, c)) -> Div(x, -c)

    Also of a negative factor: Mul(c, Neg(x)) becomes Mul(-c, x). Legal for floats, because their
    rounding is symmetric. Done if no other node reads the product or the negative factor.
    """

    name = "fold-neg-into-constant"
    formerly = ("negate-constant",)
    anchors = frozenset({"Neg", "Mul", "Div"})
    sources = frozenset({"Neg", "Mul", "Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(dtype_of(node.outputs[0]) in FLOATS, "integers may wrap", node)
        maker = _negated_product(node) if node.op_type == "Neg" else node
        factors = list(operands(maker))
        is_known = [is_constant(x) for x in factors]
        need(any(is_known), "both factors are computed at run time", maker)
        place = is_known.index(True)
        if node is maker:
            factors[1 - place] = _negated_factor(factors[1 - place])
        factors[place] = b.derived(np.negative, factors[place])
        return b.op(maker.op_type, *factors)


def _negated_product(node: oir.Node) -> oir.Node:
    """The Mul or Div whose result only a Neg reads.

    Raises:
        Refusal: There is none.
    """
    product = first(node)
    need(is_private(product), "others read its operand", product)
    return needed(maker_of(product, "Mul", "Div"), "its operand is not a product", node)


def _negated_factor(factor: oir.Value) -> oir.Value:
    """What is negated to a factor that one node reads.

    Raises:
        Refusal: It is no negative, or others read it.
    """
    need(is_private(factor), "others read its factor", factor)
    return needed(source_of(factor, "Neg"), "its factor is no negative", factor)

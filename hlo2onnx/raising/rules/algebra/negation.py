"""Negations, which differentiation leaves in many places."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of, is_constant
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, is_private, maker_of, operands, source_of


class AddNegToSub(Rule):
    """Add(x, Neg(y)) -> Sub(x, y); Sub(x, Neg(y)) -> Add(x, y)

    Legal in every type: floats round the same number, integers wrap alike.
    """

    name = "add-neg-to-sub"
    formerly = ("subtract-negative",)
    anchors = frozenset({"Add", "Sub"})
    sources = frozenset({"Neg"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, other = operands(node)
        y = source_of(other, "Neg")
        if y is None and node.op_type == "Add":
            x, y = other, source_of(x, "Neg")
        need(y is not None, "no operand is negated", node)
        return b.Sub(x, y) if node.op_type == "Add" else b.Add(x, y)


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

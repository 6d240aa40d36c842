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

    Legal for floats, because their rounding is symmetric. Done if no other node reads the product.
    """

    name = "fold-neg-into-constant"
    formerly = ("negate-constant",)
    anchors = frozenset({"Neg"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        product = first(node)
        need(dtype_of(product) in FLOATS, "integers may wrap", node)
        need(is_private(product), "others read its operand", product)
        maker = needed(maker_of(product, "Mul", "Div"), "its operand is not a product", node)
        one, other = operands(maker)
        if is_constant(one):
            one = b.derived(np.negative, one)
        else:
            need(is_constant(other), "both factors are computed at run time", maker)
            other = b.derived(np.negative, other)
        return b.op(maker.op_type, one, other)

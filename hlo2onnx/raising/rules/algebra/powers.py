"""Powers with small constant exponents."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_number, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import operands


class PowerToProduct(Rule):
    """Pow(x, 1) -> x, Pow(x, 2) -> x * x

    Legal for floats: both are what the power is, rounded once. Sums of squares are then recognised,
    and the ranges of squares are known.
    """

    name = "power-to-product"
    anchors = frozenset({"Pow"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, exponent = operands(node)
        need(dtype_of(x) in FLOATS, "it is a power of integers", node)
        number = const_number(exponent)
        need(number in (1, 2), "the exponent is not 1 or 2", exponent)
        need(shape_of(x) == shape_of(node.outputs[0]), "the exponent has more axes", node)
        return x if number == 1 else b.Mul(x, x)

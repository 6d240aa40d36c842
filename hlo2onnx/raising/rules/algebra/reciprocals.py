"""Quotients by constants as XLA computes them."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.notes import BY_RECIPROCAL
from hlo2onnx.ir.values import FLOATS, const_of, dtype_of
from hlo2onnx.ir.weights import weight_of
from hlo2onnx.raising.engine import CONSTANT, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import operands, source_of


class MultiplyByReciprocal(Rule):
    """Div(x, c) -> Mul(x, 1 / c), for a constant c

    Legal for floats if XLA knows c when it compiles: it multiplies by 1 / c, rounded to the element
    type. A weight is an argument of the user's function, and an iota, with what is computed from
    it, is not a constant for XLA. Decompositions keep their quotients, which are more exact. Where
    1 / c is a denormal f32 or f64, XLA's product is 0, and the Div stays.
    """

    name = "multiply-by-reciprocal"
    anchors = frozenset({"Div"})
    sources = frozenset({CONSTANT})
    # Patterns of other rules have quotients.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, c = operands(node)
        need(dtype_of(x) in FLOATS, "it is a quotient of integers", node)
        need(node.meta.get(BY_RECIPROCAL), "XLA divides, or the program does not", node)
        need(weight_of(c) is None, "the divisor is a weight", c)
        divisor = needed(const_of(c), "the divisor is not constant", c)
        need(const_of(x) is None, "both operands are constants", node)
        dtype = np.dtype(np.float16) if _rounds_to_f16(node, x) else divisor.dtype
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            reciprocal = np.reciprocal(divisor.astype(dtype)).astype(divisor.dtype)
        tiny = np.finfo(divisor.dtype).tiny
        is_denormal = (reciprocal != 0) & (np.abs(reciprocal) < tiny)
        need(dtype == np.float16 or not is_denormal.any(), "1 / c is denormal", c)
        return b.Mul(x, b.const(reciprocal))


def _rounds_to_f16(node: oir.Node, x: oir.Value) -> bool:
    """Whether a quotient of the program in f16 is computed in f32 here."""
    stored, narrowed = source_of(x, "Cast"), node.outputs[0].consumers()
    return (
        stored is not None
        and dtype_of(stored) == oir.DataType.FLOAT16
        and all(
            user.op_type == "Cast" and dtype_of(user.outputs[0]) == oir.DataType.FLOAT16
            for user in narrowed
        )
    )

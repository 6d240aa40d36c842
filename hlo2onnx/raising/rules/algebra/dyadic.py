"""Arithmetic on dyadic numbers: integers times a power of two."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.float_ranges import with_number
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Kind, Rewriter, Rule, need, needed


class DyadicArithmetic(Rule):
    """(x + 1) - 1 -> x, (x * 2^-23) * 2 -> x * 2^-22, x + 0 -> x

    Legal for integers times a power of two if every step is exact. JAX makes uniform numbers from
    the bits of 1.0 and subtracts 1; neither is needed.
    """

    name = "dyadic-arithmetic"
    formerly = ("exact-steps",)
    anchors = frozenset({"Add", "Mul", "Sub"})
    asks_numbers = True

    def narrowed(self, kind: Kind) -> Rule | None:
        """An operand is a constant, and the other one such an operation, or the constant is 0."""
        same = {"Mul"} if kind.op_type == "Mul" else {"Add", "Sub"}
        is_known = any(x is not None for x in kind.numbers)
        is_zero = kind.op_type != "Mul" and 0 in kind.numbers
        return self if is_known and (is_zero or not same.isdisjoint(kind.sources)) else None

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        operands = needed(with_number(node, b.facts.constant), "neither operand is constant", node)
        x, number = operands
        inner, same = x.producer(), ("Mul",) if node.op_type == "Mul" else ("Add", "Sub")
        is_zero = node.op_type != "Mul" and number == 0
        is_like = inner is not None and inner.op_type in same
        need(is_zero or is_like, "its operand is another operation", x)
        need(shape_of(x) == shape_of(node.outputs[0]), "the constant has more axes", node)
        need(b.facts.steps(node.outputs[0]) is not None, "its result may be rounded", node)
        if is_zero:
            return x
        assert inner is not None
        before = needed(with_number(inner, b.facts.constant), "its operand has no constant", inner)
        start, first = before
        need(b.facts.steps(start) is not None, "its operand may be rounded", inner)
        need(shape_of(start) == shape_of(x), "the constant has more axes", inner)
        if node.op_type == "Mul":
            return b.Mul(start, b.scalar_like(first * number, x))
        if first + number == 0:
            return start
        return b.Add(start, b.scalar(first + number, dtype_of(x)))

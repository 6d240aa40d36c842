"""Arithmetic on integers times a power of two, which is how uniform random numbers are made."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.analysis.steps import with_number
from hlo2onnx.graph.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need


class ExactSteps(Rule):
    """(x + 1) - 1 -> x, (x * 2^-23) * 2 -> x * 2^-22, x + 0 -> x

    Legal for integers times a power of two, of which all that is computed is exact: converted
    integers, so scaled and moved. JAX's uniform numbers are such, and need neither the bits of 1.0
    nor the subtraction of it.
    """

    name = "exact-steps"
    anchors = frozenset({"Add", "Mul", "Sub"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        operands = with_number(node, b.facts.constant)
        need(operands is not None, "neither operand is one number", node)
        assert operands is not None
        x, number = operands
        need(b.facts.steps(node.outputs[0]) is not None, "its result may be rounded", node)
        need(shape_of(x) == shape_of(node.outputs[0]), "the number adds axes", node)
        if node.op_type != "Mul" and number == 0:
            return x
        inner, same = x.producer(), ("Mul",) if node.op_type == "Mul" else ("Add", "Sub")
        need(inner is not None and inner.op_type in same, "its operand is something else", x)
        assert inner is not None
        before = with_number(inner, b.facts.constant)
        need(before is not None, "its operand is no such step", inner)
        assert before is not None
        start, first = before
        need(b.facts.steps(start) is not None, "its operand may be rounded", inner)
        need(shape_of(start) == shape_of(x), "the number adds axes", inner)
        if node.op_type == "Mul":
            product: oir.Value = b.Mul(start, b.scalar_like(first * number, x))
            return product
        if first + number == 0:
            return start
        total: oir.Value = b.Add(start, b.scalar(first + number, dtype_of(x)))
        return total

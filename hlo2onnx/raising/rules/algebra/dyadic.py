"""Arithmetic on integers times a power of two, as in uniform random numbers."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.analysis.dyadic import Steps, with_number
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import both_orders, source_of


class DyadicArithmetic(Rule):
    """(x + 1) - 1 -> x, (x * 2^-23) * 2 -> x * 2^-22, x + 0 -> x

    Legal for integers times a power of two if every step is exact. JAX makes uniform numbers from
    the bits of 1.0 and subtracts 1; neither is needed.
    """

    name = "dyadic-arithmetic"
    formerly = ("exact-steps",)
    anchors = frozenset({"Add", "Mul", "Sub"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        operands = needed(with_number(node, b.facts.constant), "neither operand is a number", node)
        x, number = operands
        need(b.facts.steps(node.outputs[0]) is not None, "its result may be rounded", node)
        need(shape_of(x) == shape_of(node.outputs[0]), "the number adds axes", node)
        if node.op_type != "Mul" and number == 0:
            return x
        inner, same = x.producer(), ("Mul",) if node.op_type == "Mul" else ("Add", "Sub")
        need(inner is not None and inner.op_type in same, "its operand is not such an operation", x)
        assert inner is not None
        before = needed(with_number(inner, b.facts.constant), "its operand has no number", inner)
        start, first = before
        need(b.facts.steps(start) is not None, "its operand may be rounded", inner)
        need(shape_of(start) == shape_of(x), "the number adds axes", inner)
        if node.op_type == "Mul":
            return b.Mul(start, b.scalar_like(first * number, x))
        if first + number == 0:
            return start
        return b.Add(start, b.scalar(first + number, dtype_of(x)))


_DIGITS = 23


class UniformFma(Rule):
    """Cast(k) * 2^-23 * extent + low -> Cast(Cast(k) * (extent * 2^-23) + low), within in f64

    XLA rounds such a sum once. If low and the product cancel, rounding the product would be most of
    the result. In f64 the product is exact. Legal for f32 numbers made of 23 random bits, as JAX
    draws from an interval.
    """

    name = "uniform-fma"
    formerly = ("uniform-between",)
    anchors = frozenset({"Add"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(dtype_of(node.outputs[0]) == oir.DataType.FLOAT, "it is not f32", node)
        need(b.facts.steps(node.outputs[0]) is None, "the sum is exact", node)
        for product, low in both_orders(node):
            factors = product.producer()
            if factors is None or factors.op_type != "Mul":
                continue
            for fraction, extent in both_orders(factors):
                number = _random_integer(fraction, b)
                if number is not None and shape_of(number) == shape_of(node.outputs[0]):
                    return _between(number, low, extent, b)
        raise Refusal("no operand is an extent times a random fraction", node)


def _random_integer(fraction: oir.Value, b: Rewriter) -> oir.Value | None:
    """k of k * 2^-23, where k has 23 bits."""
    if b.facts.steps(fraction) != Steps(0, (1 << _DIGITS) - 1, 2.0**-_DIGITS):
        return None
    converted = source_of(fraction, "Mul")
    return None if converted is None else source_of(converted, "Cast")


def _between(number: oir.Value, low: oir.Value, extent: oir.Value, b: Rewriter) -> oir.Value:
    double = oir.DataType.DOUBLE
    unit = b.Mul(b.cast(extent, double), b.scalar(2.0**-_DIGITS, double))
    total = b.Add(b.Mul(b.cast(number, double), unit), b.cast(low, double))
    return b.cast(total, oir.DataType.FLOAT)

"""Uniform random numbers of an interval, as JAX draws them."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.accurate_math import multiply_add
from hlo2onnx.ir.float_ranges import Steps
from hlo2onnx.ir.values import const_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import both_orders, source_of

_DIGITS = 23
_MODERATE = 2.0**60


class UniformFma(Rule):
    """Cast(k) * 2^-23 * extent + low -> Cast(Cast(k) * (extent * 2^-23) + low), computed in f64

    XLA rounds such a sum once. If low and the product cancel, the rounding of the product would be
    most of the result. In f64 the product is exact. Legal for f32 numbers of 23 random bits, which
    JAX draws from an interval. Where the target has no f64, the errors of the product and of the
    sum are computed in f32; the extent must then be a constant between 2^-60 and 2^60.
    """

    name = "uniform-fma"
    formerly = ("uniform-between",)
    anchors = frozenset({"Add"})
    sources = frozenset({"Mul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(dtype_of(node.outputs[0]) == oir.DataType.FLOAT, "it is not f32", node)
        for product, low in both_orders(node):
            factors = product.producer()
            if factors is None or factors.op_type != "Mul":
                continue
            for fraction, extent in both_orders(factors):
                number = _random_integer(fraction, b)
                if number is not None and shape_of(number) == shape_of(node.outputs[0]):
                    need(b.facts.steps(node.outputs[0]) is None, "the sum is exact", node)
                    return _between(number, low, extent, b)
        raise Refusal("no operand is an extent times a random fraction", node)


def _random_integer(fraction: oir.Value, b: Rewriter) -> oir.Value | None:
    """k of k * 2^-23, where k has 23 bits."""
    number = source_of(source_of(fraction, "Mul"), "Cast")
    if number is None or b.facts.steps(fraction) != Steps(0, (1 << _DIGITS) - 1, 2.0**-_DIGITS):
        return None
    return number


def _between(number: oir.Value, low: oir.Value, extent: oir.Value, b: Rewriter) -> oir.Value:
    single, double = oir.DataType.FLOAT, oir.DataType.DOUBLE
    if not b.has_f64:
        need(_is_moderate(extent), "the target has no f64, and the extent may be extreme")
        unit = b.Mul(extent, b.scalar(2.0**-_DIGITS, single))
        return multiply_add(b, b.cast(number, single), unit, low)
    unit = b.Mul(b.cast(extent, double), b.scalar(2.0**-_DIGITS, double))
    total = b.Add(b.Mul(b.cast(number, double), unit), b.cast(low, double))
    return b.cast(total, single)


def _is_moderate(extent: oir.Value) -> bool:
    """Whether it is a constant whose products and parts are normal f32 numbers."""
    sizes = const_of(extent)
    if sizes is None:
        return False
    return bool((np.abs(sizes) > 1 / _MODERATE).all() and (np.abs(sizes) < _MODERATE).all())

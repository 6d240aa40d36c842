"""Arithmetic on many integers, in operators that take less time than the shortest form."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.analysis.ranges import RANGE
from hlo2onnx.ir.values import UNSIGNED, const_number, dtype_of, shape_of, size_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import maker_of, operands

T = oir.DataType
_SELECTED = frozenset({T.INT32, T.INT64, T.UINT32})
_ARITHMETIC = ("Add", "Mul", "Sub")


class SelectIntegers(Rule):
    """Where(c, x, y) -> y + Cast(c) * (x - y), Where(c, y + k, y) -> y + Cast(c) * k

    Legal for integers, which wrap. If c is v < 0, Clip(v, -1, 0) is -Cast(c). Done for so many
    elements that it is faster: a selection takes longer the less predictable its condition is.
    """

    name = "select-integers"
    anchors = frozenset({"Where"})
    # Rules for indices, among them `flat-gather`, remainders and clamps match Where.
    phase = 6

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, x, y = operands(node)
        result, dtype = node.outputs[0], dtype_of(x)
        need(dtype in _SELECTED, "it selects neither i32, i64 nor u32", node)
        size = size_of(result)
        need(size is not None and size >= b.costs.selected_integers, "it selects few", node)
        is_each = shape_of(condition) == shape_of(result)
        need(is_each, "one condition selects several elements", condition)
        is_supported = all(b.supports(op_type, dtype) for op_type in _ARITHMETIC)
        need(is_supported, "the target lacks the arithmetic", node)
        known = b.facts.int_range(result)
        selected = _selected(b, condition, x, y)
        if known is not None:
            selected.meta[RANGE] = known
        return selected


def _selected(b: Rewriter, condition: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
    if const_number(y) == 0:
        return b.Mul(b.cast(condition, dtype_of(x)), x)
    difference = _difference(b, x, y)
    is_one = const_number(difference) == 1
    tested = _tested_for_sign(condition)
    if tested is not None and dtype_of(tested) == dtype_of(x) and b.supports("Clip", dtype_of(x)):
        chosen = b.Clip(tested, b.scalar_like(-1, x), b.scalar_like(0, x))
        return b.Sub(y, chosen if is_one else b.Mul(chosen, difference))
    chosen = b.cast(condition, dtype_of(x))
    return b.Add(y, chosen if is_one else b.Mul(chosen, difference))


def _difference(b: Rewriter, x: oir.Value, y: oir.Value) -> oir.Value:
    """x - y."""
    total = maker_of(x, "Add")
    if total is not None and y in total.inputs:
        first, second = operands(total)
        return second if first is y else first
    return b.Sub(x, y)


def _tested_for_sign(condition: oir.Value) -> oir.Value | None:
    """v of v < 0. Then Clip(v, -1, 0) is -1 where v is negative, and faster than a cast."""
    less = maker_of(condition, "Less")
    if less is None or const_number(less.inputs[1]) != 0:
        return None
    v = less.inputs[0]
    return v if v is not None and shape_of(v) == shape_of(condition) else None


class ShiftUnsigned(Rule):
    """x / 2^k -> BitShift(x, k, "RIGHT"), for unsigned integers

    Done for so many elements that it is faster.
    """

    name = "shift-unsigned"
    anchors = frozenset({"Div"})
    # Rules for remainders match Div.
    phase = 6

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, y = operands(node)
        dtype, size = dtype_of(x), size_of(node.outputs[0])
        need(dtype in UNSIGNED, "it divides other numbers", node)
        need(size is not None and size >= b.costs.selected_integers, "it divides few", node)
        divisor = const_number(y)
        is_power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
        need(is_power and shape_of(x) == shape_of(node.outputs[0]), "no power of two", y)
        assert isinstance(divisor, int)
        need(b.supports("BitShift", dtype), "the target has no such BitShift", node)
        return b.BitShift(x, b.scalar_like(divisor.bit_length() - 1, x), direction="RIGHT")

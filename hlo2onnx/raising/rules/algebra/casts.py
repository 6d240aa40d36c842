"""Cast chains and comparisons of casted booleans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import Range, range_of_type
from hlo2onnx.ir.values import INTEGERS, const_number, const_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    both_orders,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)

BOOL = oir.DataType.BOOL

SIGNIFICANT: Mapping[oir.DataType, int] = {
    oir.DataType.BFLOAT16: 8,
    oir.DataType.FLOAT16: 11,
    oir.DataType.FLOAT: 24,
    oir.DataType.DOUBLE: 53,
}
"""Bits of an integer that a float keeps."""

HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "Equal": eq, "Greater": gt, "GreaterOrEqual": ge, "Less": lt, "LessOrEqual": le,
}  # fmt: skip


class ComposeCasts(Rule):
    """Cast(Cast(x)) -> Cast(x), or x if it has the type already

    Legal for booleans, and for integers whose range the type in between holds exactly. If that type
    is a float, the last one must hold the range too.
    """

    name = "compose-casts"
    anchors = frozenset({"Cast"})
    sources = frozenset({"Cast"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        between = first(node)
        x = needed(source_of(between, "Cast"), "its operand is not cast", node)
        final = dtype_of(node.outputs[0])
        need(_keeps(b, x, dtype_of(between), final), "the type in between changes numbers", between)
        return b.cast(x, final)


def _keeps(b: Rewriter, x: oir.Value, between: oir.DataType, final: oir.DataType) -> bool:
    """Whether a cast keeps all elements, and the next cast then gives the same as from x."""
    known = Range(0, 1) if dtype_of(x) == BOOL else b.facts.int_range(x)
    if known is None:
        return False
    if between in INTEGERS:
        return _holds(between, known)
    is_held = final not in INTEGERS or _holds(final, known)
    return is_held and between in SIGNIFICANT and _holds(between, known)


def _holds(dtype: oir.DataType, numbers: Range) -> bool:
    bits = SIGNIFICANT.get(dtype)
    held = range_of_type(dtype) if bits is None else Range(-(1 << bits), 1 << bits)
    return held.low <= numbers.low and numbers.high <= held.high


class BooleanCastComparison(Rule):
    """Cast(x) > 0 -> x, Cast(x) == 0 -> Not(x), and other comparisons of a cast boolean x

    Legal if the comparison with the number separates 0 and 1. Masks are often computed as 0 and 1.
    """

    name = "boolean-cast-comparison"
    formerly = ("truth-of-number",)
    anchors = frozenset(HOLDS)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        holds = HOLDS[node.op_type]
        for place, value in enumerate(node.inputs):
            number = const_number(node.inputs[1 - place])
            x = None if value is None else source_of(value, "Cast")
            if x is None or number is None or dtype_of(x) != BOOL:
                continue
            need(shape_of(x) == shape_of(node.outputs[0]), "the number has more axes", node)
            pair = [holds(*((bit, number) if place == 0 else (number, bit))) for bit in (0, 1)]
            need(pair[0] != pair[1], "the result is the same for 0 and 1", node)
            return x if pair[1] else b.Not(x)
        raise Refusal("it compares other numbers", node)


class NotEqualZero(Rule):
    """not x == 0 -> Cast(x) to a boolean

    Legal for integers. Done if no other node reads the comparison.
    """

    name = "not-equal-zero"
    anchors = frozenset({"Not"})
    sources = frozenset({"Equal"})
    # Other rules look for negated comparisons.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        compare = needed(maker_of(first(node), "Equal"), "it negates something else", node)
        need(is_private(first(node)), "others read the comparison", compare)
        for x, zero in both_orders(compare):
            if const_number(zero) == 0 and shape_of(x) == shape_of(node.outputs[0]):
                need(dtype_of(x) in INTEGERS, "it does not compare integers", compare)
                runs = b.target.supports_cast(dtype_of(x), oir.DataType.BOOL, b.opset)
                need(runs, "the target has no such Cast", node)
                return b.cast(x, oir.DataType.BOOL)
        raise Refusal("it does not compare with 0", compare)


class RedundantNotEqual(Rule):
    """x < y and not x == y -> x < y, and so for >

    JAX writes this where it corrects the remainder of a division.
    """

    name = "redundant-not-equal"
    formerly = ("strict-already",)
    anchors = frozenset({"And"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for place, x in enumerate(node.inputs):
            assert x is not None
            compare, inverse = x.producer(), node.inputs[1 - place]
            equal = None if inverse is None else source_of(inverse, "Not")
            same = None if equal is None else equal.producer()
            if compare is None or compare.op_type not in ("Less", "Greater"):
                continue
            if same is None or same.op_type != "Equal" or not _alike(compare, same):
                continue
            need(shape_of(x) == shape_of(node.outputs[0]), "its result has another shape", node)
            return x
        raise Refusal("the comparisons are of other values", node)


def _alike(one: oir.Node, other: oir.Node) -> bool:
    """Whether two comparisons have the same operands, in any order."""
    left, right = (list(map(_identity, node.inputs)) for node in (one, other))
    return left in (right, right[::-1])


def _identity(x: oir.Value | None) -> object:
    """The value itself, or its number: constants of other shapes may hold the same number."""
    number = const_number(x)
    return x if number is None else number


class ProductWithBoolean(Rule):
    """x * Cast(c) -> Where(c, x, 0), for a cast boolean c

    Legal for integers, and for constants that are finite and have no sign bit: -1 * 0 is -0. Done
    if no other node reads the number.
    """

    name = "product-with-boolean"
    anchors = frozenset({"Mul"})
    sources = frozenset({"Cast"})
    # Other rules look for products.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dtype = dtype_of(node.outputs[0])
        for x, number in both_orders(node):
            c = source_of(number, "Cast")
            if c is None or dtype_of(c) != BOOL:
                continue
            need(dtype in INTEGERS or _is_positive(x), "x * 0 may be NaN or -0", node)
            need(is_private(number), "others read the number", number)
            need(b.supports("Where", dtype), "the target does not select such numbers", node)
            made: oir.Value = b.Where(c, x, b.scalar(0, dtype))
            return made
        raise Refusal("no factor is a cast boolean", node)


def _is_positive(x: oir.Value) -> bool:
    """Whether all numbers are known, finite, and not below +0."""
    known = const_of(x)
    if known is None:
        return False
    numbers = known.astype(np.float64)
    return bool(np.isfinite(numbers).all() and not np.signbit(numbers).any())


class ComplementOfBoolean(Rule):
    """1 - Cast(c) -> Cast(Not(c)), for a cast boolean c

    Legal for all numbers, as 1 - 1 is +0. Done if no other node reads Cast(c), or casts c alike.
    """

    name = "complement-of-boolean"
    anchors = frozenset({"Sub"})
    sources = frozenset({"Cast"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        one, number = operands(node)
        c = needed(source_of(number, "Cast"), "it subtracts no cast", node)
        need(dtype_of(c) == BOOL, "it subtracts no boolean", node)
        need(const_number(one) == 1, "it does not subtract from 1", one)
        casts = [x.outputs[0] for x in c.consumers() if x.op_type == "Cast"]
        alike = [x for x in casts if dtype_of(x) == dtype_of(number)]
        need(is_private(number) and len(alike) == 1, "others read the number", number)
        need(shape_of(number) == shape_of(node.outputs[0]), "the 1 has more axes", one)
        return b.cast(b.Not(c), dtype_of(number))

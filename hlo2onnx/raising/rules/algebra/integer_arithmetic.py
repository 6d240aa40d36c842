"""Integer arithmetic in shorter equivalent forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import remainder_operands
from hlo2onnx.ir.values import (
    INTEGERS,
    UNSIGNED,
    const_number,
    const_of,
    dtype_of,
    shape_of,
    size_of,
)
from hlo2onnx.raising.engine import CONSTANT, Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    both_orders,
    is_only_for,
    maker_of,
    operands,
    source_of,
)

Pair = tuple[oir.Value, oir.Value]


class _Offset(NamedTuple):
    """sign * x + by."""

    sign: int
    x: oir.Value
    by: int


def _offset(node: oir.Node | None) -> _Offset | None:
    """A node that adds a number to integers, or subtracts one from the other."""
    if node is None or node.op_type not in ("Add", "Sub"):
        return None
    x, y = operands(node)
    if dtype_of(x) not in INTEGERS:
        return None
    sign, shape = 1 if node.op_type == "Add" else -1, shape_of(node.outputs[0])
    left, right = const_of(x), const_of(y)
    if right is not None and right.size == 1 and shape_of(x) == shape:
        return _Offset(1, x, sign * int(right.item()))
    if left is not None and left.size == 1 and shape_of(y) == shape:
        return _Offset(sign, y, int(left.item()))
    return None


class ReassociateConstants(Rule):
    """(k - x) - m -> (k - m) - x, (x + k) + m -> x + (k + m), and so on

    Legal for integers, which wrap. Nothing is saved if others read the inner sum.
    """

    name = "reassociate-constants"
    formerly = ("compose-offsets",)
    anchors = frozenset({"Add", "Sub"})
    sources = frozenset({CONSTANT})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        outer = needed(_offset(node), "it adds no number to integers", node)
        inner = _offset(outer.x.producer())
        need(inner is not None, "its operand adds no number", outer.x)
        need(len(outer.x.uses()) == 1, "others read the inner sum", outer.x)
        assert inner is not None
        by = (outer.sign * inner.by + outer.by) % (1 << 64)
        number = b.const(np.array(by, np.uint64).astype(dtype_of(inner.x).numpy()))
        result: oir.Value
        if outer.sign * inner.sign == 1:
            result = b.Add(inner.x, number)
        else:
            result = b.Sub(number, inner.x)
        return result


def _remainder(value: oir.Value) -> Pair | None:
    """x and y of the remainder of x / y."""
    node = value.producer()
    if node is None:
        return None
    if node.op_type == "Mod" and not node.attributes.get_int("fmod", 0):
        x, y = operands(node)
        return x, y
    return remainder_operands(node)


def _is_natural(b: Rewriter, pair: Pair) -> bool:
    """Whether x is not negative and y is positive."""
    x, y = map(b.facts.int_range, pair)
    return x is not None and y is not None and x.low >= 0 and y.low >= 1


class Remainder(Rule):
    """x - (x / y) * y -> Mod(x, y)

    Legal for integers x >= 0 and y > 0. Mod has the sign of y, the remainder the sign of x.
    """

    name = "remainder"
    anchors = frozenset({"Sub"})
    sources = frozenset({"Mul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        pair = remainder_operands(node)
        need(pair is not None and dtype_of(pair[0]) in INTEGERS, "it is not a remainder", node)
        assert pair is not None
        need(_is_natural(b, pair), "an operand may be negative", node)
        need(b.supports("Mod", dtype_of(pair[0])), "the target has no such Mod", node)
        return b.Mod(*pair)


class FloorDivide(Rule):
    """Where(sign(x) != sign(y) and x % y != 0, x / y - 1, x / y) -> x / y

    JAX rounds a quotient of integers down like this. Legal for x >= 0 and y > 0: the signs differ
    only for x = 0, which leaves no remainder. For any x, and y > 0, the condition becomes x % y <
    0, as the remainder of a truncating division has the sign of x. If nothing else needs quotient
    or remainder, and no bounds of x are known that prove something about the result: ~(~x / y)
    where x < 0, by exclusive or with -1 there. ~x is -x - 1, which never overflows.
    """

    name = "floor-divide"
    anchors = frozenset({"Where"})
    sources = frozenset({"And"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, less, quotient = operands(node)
        both = needed(maker_of(condition, "And"), "its condition is not a conjunction", node)
        for signs, rest in both_orders(both):
            compared, left = _unequal(signs), _unequal(rest)
            if not compared or not left or not _is_zero(left):
                continue
            remainder = next(filter(_remainder, left), None)
            pair = _remainder(remainder) if remainder is not None else None
            if remainder is None or pair is None or not self._signs(b, compared, pair):
                continue
            if _is_natural(b, pair):
                is_whole = shape_of(quotient) == shape_of(node.outputs[0])
                need(is_whole, "the condition decides the shape", node)
                return quotient
            divisor = b.facts.int_range(pair[1])
            need(divisor is not None and divisor.low > 0, "the divisor may be negative", node)
            need(maker_of(remainder, "Sub"), "its remainder has the sign of the divisor", remainder)
            if _is_any(b, pair[0]) and is_only_for(node, pair[0]):
                sign = b.Clip(pair[0], *(b.scalar_like(bound, pair[0]) for bound in (-1, 0)))
                return b.BitwiseXor(b.Div(b.BitwiseXor(pair[0], sign), pair[1]), sign)
            return b.Where(b.Less(remainder, b.scalar_like(0, remainder)), less, quotient)
        raise Refusal("it compares no signs and no remainder", node)

    def _signs(self, b: Rewriter, compared: Pair, pair: Pair) -> bool:
        """Whether the signs of this pair are compared; the sign of y is 1."""
        of_x = [source_of(value, "Sign") is pair[0] for value in compared]
        if not any(of_x):
            return False
        other = compared[0] if of_x[1] else compared[1]
        known = b.facts.int_range(other)
        return source_of(other, "Sign") is pair[1] or known == (1, 1)


def _is_any(b: Rewriter, x: oir.Value) -> bool:
    """Whether signed numbers have no useful bounds, and the target clips and inverts them."""
    dtype, known = dtype_of(x), b.facts.int_range(x)
    runs = all(b.supports(op_type, dtype) for op_type in ("BitwiseXor", "Clip"))
    half = 1 << (dtype.bitwidth - 2)
    return runs and dtype not in UNSIGNED and (known is None or known.low <= -half)


def _unequal(value: oir.Value | None) -> Pair | None:
    """The operands of Not(Equal(x, y))."""
    equal = source_of(value, "Not") if value is not None else None
    node = equal.producer() if equal is not None else None
    if node is None or node.op_type != "Equal":
        return None
    x, y = operands(node)
    return x, y


def _is_zero(pair: Pair) -> bool:
    numbers = map(const_of, pair)
    return any(number is not None and not number.any() for number in numbers)


class FloorMod(Rule):
    """Where(r < 0 and r != 0, r + y, r), r the remainder of x / y -> Mod(x, y)

    JAX gives a remainder the sign of the divisor like this. Legal for integers and y > 0, as Mod
    takes the sign of the divisor.
    """

    name = "floor-mod"
    formerly = ("floor-remainder",)
    anchors = frozenset({"Where"})
    sources = frozenset({"And", "Less"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, shifted, rest = operands(node)
        need(_is_negative(condition, rest), "its condition is not r < 0", condition)
        pair = _remainder(rest)
        need(pair is not None and dtype_of(rest) in INTEGERS, "it is not a remainder", rest)
        assert pair is not None
        x, y = pair
        add = shifted.producer()
        adds = add is not None and add.op_type == "Add" and _same(add.inputs, (rest, y))
        need(adds, "it does not add the divisor", shifted)
        divisor = b.facts.int_range(y)
        need(divisor is not None and divisor.low > 0, "the divisor may be negative", y)
        need(b.supports("Mod", dtype_of(x)), "the target has no such Mod", node)
        need(shape_of(x) == shape_of(node.outputs[0]), "the divisor decides the shape", y)
        return b.Mod(x, y)


def _is_negative(condition: oir.Value, x: oir.Value) -> bool:
    """Whether a condition is x < 0, or that and x != 0."""
    node = condition.producer()
    if node is not None and node.op_type == "And":
        first, second = operands(node)
        for one, other in ((first, second), (second, first)):
            pair = _unequal(other)
            if pair is not None and x in pair and _is_zero(pair):
                return _is_negative(one, x)
    if node is None or node.op_type != "Less" or node.inputs[0] is not x:
        return False
    zero = const_of(node.inputs[1])
    return zero is not None and not zero.any()


def _same(values: Sequence[oir.Value | None], pair: Pair) -> bool:
    """Whether the values are a pair, in any order. Equal constants are the same."""
    return any(
        all(
            one is other or _same_number(one, other) for one, other in zip(order, pair, strict=True)
        )
        for order in (values, values[::-1])
    )


def _same_number(one: oir.Value | None, other: oir.Value) -> bool:
    first, second = const_of(one), const_of(other)
    if first is None or second is None or first.size != 1 or second.size != 1:
        return False
    return bool(first.item() == second.item())


class ShiftUnsigned(Rule):
    """x / 2^k -> BitShift(x, k, "RIGHT"), for unsigned integers

    Done for so many elements that it is faster.
    """

    name = "shift-unsigned"
    anchors = frozenset({"Div"})
    # Rules for remainders match Div.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, y = operands(node)
        dtype, size = dtype_of(x), size_of(node.outputs[0])
        need(dtype in UNSIGNED, "it divides other numbers", node)
        need(size is not None and size >= b.costs.many_elements, "it divides few", node)
        divisor = const_number(y)
        is_power = isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0
        need(is_power and shape_of(x) == shape_of(node.outputs[0]), "no power of two", y)
        assert isinstance(divisor, int)
        need(b.supports("BitShift", dtype), "the target has no such BitShift", node)
        return b.BitShift(x, b.scalar_like(divisor.bit_length() - 1, x), direction="RIGHT")

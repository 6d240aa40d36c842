"""Operations without effect, or with a result that is known in advance."""

from __future__ import annotations

from collections.abc import Iterator
from math import copysign
from typing import ClassVar

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import is_positive
from hlo2onnx.ir.extents import noted_extent
from hlo2onnx.ir.facts import MOVES_DATA
from hlo2onnx.ir.ranges import Range, decided, range_of_type
from hlo2onnx.ir.replace import can_replace
from hlo2onnx.ir.signs import has_no_sign, is_never_negative_zero, is_zero_sign_lost
from hlo2onnx.ir.values import FLOATS, INTEGERS, const_number, dtype_of, shape_of, static_shape
from hlo2onnx.raising.engine import CONSTANT, Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import both_orders, first, operands, source_of

COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})


_KNOWN = MOVES_DATA | COMPARISONS | {CONSTANT, "And", "Cast", "Not", "Or"}
"""Operators of which the facts know that all elements are one boolean."""

_KEEP_CONSTANTS = frozenset({CONSTANT, "Expand", "Identity", "Reshape", "Transpose"})
"""Operators whose results `Facts.constant` knows."""


def _may_be_known(sources: frozenset[str], dtype: oir.DataType) -> bool:
    """Whether the facts may know all elements of an operand of such a node. See `Rule.fits`."""
    known = _KNOWN if dtype == oir.DataType.BOOL else _KEEP_CONSTANTS
    return not known.isdisjoint(sources)


def _either(node: oir.Node) -> Iterator[tuple[oir.Value, oir.Value]]:
    """Each of two operands with the other; one order only if the operator is not commutative."""
    need(len(node.inputs) == 2, "it does not have two operands", node)
    yield from both_orders(node)[: 1 if node.op_type in ("Div", "Sub") else 2]


def _all_are(b: Rewriter, value: oir.Value, item: float) -> bool:
    """Whether all elements are known to be this number, with this sign of 0 for floats."""
    known = b.facts.constant(value)
    if known is None:
        return dtype_of(value) == oir.DataType.BOOL and b.facts.truth(value) == bool(item)
    if known.size == 1:  # as nearly always; numpy takes several times as long
        number = known.item()
        same_sign = dtype_of(value) not in FLOATS or copysign(1, number) == copysign(1, item)
        return bool(number == item) and same_sign
    if not known.size or not (known == item).all():
        return False
    return dtype_of(value) not in FLOATS or bool((np.signbit(known) == np.signbit(item)).all())


def _instead(b: Rewriter, node: oir.Node, x: oir.Value) -> oir.Value:
    """x in the shape of the node's result."""
    dims = static_shape(node.outputs[0])
    if dims is None:
        need(shape_of(x) == shape_of(node.outputs[0]), "its shape is dynamic", node)
        return x
    return b.expand(x, dims)


def _filled(b: Rewriter, node: oir.Node, item: float) -> oir.Value:
    """The node's result with this number in all elements."""
    return _instead(b, node, b.scalar(item, dtype_of(node.outputs[0])))


class FoldIdentityOperand(Rule):
    """x - 0, x * 1, x / 1, max(x, -inf), x and True, ... -> x

    For floats x + 0 stays, as -0 + 0 is +0, unless x was an integer or is never -0, such as 1 - y,
    or nothing depends on the sign of the zeros of the sum: sums, products and moves lead to another
    sum with 0, as in associative scans, or to a comparison or another even function. x + -0 is
    always x.
    """

    name = "fold-identity-operand"
    formerly = ("drop-neutral",)
    neutral: ClassVar[dict[str, float]] = {
        "Add": -0.0, "And": True, "BitwiseXor": 0, "Div": 1, "Max": -np.inf, "Min": np.inf,
        "Mul": 1, "Or": False, "Sub": 0.0, "Xor": False,
    }  # fmt: skip
    anchors = frozenset(neutral)

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """All elements of an operand may be known."""
        return _may_be_known(sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for x, other in _either(node):
            if _all_are(b, other, self.neutral[node.op_type]):
                return _instead(b, node, x)
            if node.op_type == "Add" and _all_are(b, other, 0.0):
                hidden = _was_integer(x) or is_never_negative_zero(x)
                need(
                    hidden or is_zero_sign_lost(node.outputs[0]),
                    "the sign of a zero may be seen",
                    node,
                )
                return _instead(b, node, x)
        raise Refusal("no operand is the identity element", node)


def _was_integer(x: oir.Value) -> bool:
    """Whether floats are casted integers, none of which is -0."""
    source = source_of(x, "Cast")
    return source is not None and dtype_of(source) in INTEGERS


class FoldAbsorbingOperand(Rule):
    """x and False -> False, x or True -> True; x * 0 -> 0, 1 ** x -> 1

    Of floats x must be finite in x * 0, and nothing may depend on the sign of the product. It must
    not be NaN in 1 ** x.
    """

    name = "fold-absorbing-operand"
    formerly = ("fold-absorbed",)
    absorbing: ClassVar[dict[str, float]] = {"And": False, "Mul": 0, "Or": True, "Pow": 1}
    anchors = frozenset(absorbing)

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """All elements of an operand may be known."""
        return _may_be_known(sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        pairs = list(_either(node))[: 1 if node.op_type == "Pow" else 2]
        others = [x for known, x in pairs if self._decides(b, node, known)]
        need(others, "no operand decides the result", node)
        if node.op_type == "Pow":
            need(b.facts.nan_free(others[0]), "1 ** NaN may be NaN", node)
        elif dtype_of(node.outputs[0]) in FLOATS:
            need(any(map(b.facts.finite, others)), "0 * NaN and 0 * inf are NaN", node)
            need(is_zero_sign_lost(node.outputs[0]), "the sign of the zero may be seen", node)
        return _filled(b, node, self.absorbing[node.op_type])

    def _decides(self, b: Rewriter, node: oir.Node, x: oir.Value) -> bool:
        item = self.absorbing[node.op_type]
        return _all_are(b, x, item) or (item == 0 and _all_are(b, x, -0.0))


class FoldSameOperands(Rule):
    """max(x, x), min(x, x), x and x, x or x -> x; x xor x -> False; of integers x - x -> 0"""

    name = "fold-same-operands"
    anchors = frozenset({"And", "Max", "Min", "Or", "Sub", "Xor"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """Operands of different sources are different."""
        return len(sources) == 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        (x, y), *_ = _either(node)
        need(x is y, "its operands differ", node)
        if node.op_type not in ("Sub", "Xor"):
            return x
        need(dtype_of(x) not in FLOATS, "inf - inf is NaN", node)
        return _filled(b, node, 0)


class FoldDoubleNegation(Rule):
    """Neg(Neg(x)), Not(Not(x)) -> x"""

    name = "fold-double-negation"
    formerly = ("drop-inverse",)
    anchors = frozenset({"Neg", "Not"})
    sources = anchors

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        return needed(source_of(first(node), node.op_type), "its operand is something else", node)


class RedundantAbs(Rule):
    """abs(x) -> x

    Legal if no sign bit of x is set: x is made of other absolute values, squares and positive
    constants, by sums, products, quotients and moves. NaN stays NaN.
    """

    name = "redundant-abs"
    anchors = frozenset({"Abs"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        need(dtype_of(x) in FLOATS and has_no_sign(x), "its operand may be negative", node)
        return x


class FoldComparison(Rule):
    """x < y -> True or False, and so for <=, >, >=, ==; x == x, x <= x -> True; x < x -> False

    Legal if the ranges of the operands decide all elements, or both operands are the same value.
    Floats must not be NaN, except in x < x. Extents have ranges in any type.
    """

    name = "fold-comparison"
    formerly = ("decide-comparison",)
    anchors = COMPARISONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        answer = decided(node, b.facts.int_range)
        if answer is None:
            answer = decided(node, _range_of_number)
        is_strict = node.op_type in ("Greater", "Less")
        is_same = node.inputs[0] is node.inputs[1]
        if answer is None and is_same and is_strict:
            answer = False
        if answer is None:  # NaN is looked for last, as that takes longest
            is_float = dtype_of(first(node)) in FLOATS
            answer = True if is_same else decided(node, b.facts.float_range) if is_float else None
            need(answer is not None, "the ranges of its operands overlap", node)
            need(all(map(b.facts.nan_free, operands(node))), "an operand may be NaN", node)
        return _filled(b, node, bool(answer))


def _range_of_number(x: oir.Value) -> Range | None:
    """The range of an extent or a whole number."""
    dim, number = noted_extent(x), const_number(x)
    if number is not None and float(number).is_integer():
        return Range(int(number), int(number))
    if dim is None or isinstance(dim, int):
        return None
    return Range(int(is_positive(dim)), range_of_type(oir.DataType.INT64).high)


class FoldWhere(Rule):
    """Where(True, x, y) -> x, Where(False, x, y) -> y, Where(c, x, x) -> x

    Legal if the condition is known, from constants or ranges, and the same in all elements.
    """

    name = "fold-where"
    formerly = ("decide-where",)
    anchors = frozenset({"Where"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, x, y = operands(node)
        if x is y or _all_are(b, condition, True):
            return _instead(b, node, x)
        need(_all_are(b, condition, False), "its condition is not known", condition)
        return _instead(b, node, y)


class WhereToLogic(Rule):
    """Where(c, True, False) -> c, Where(c, x, False) -> c and x, Where(c, True, y) -> c or y

    Legal for booleans.
    """

    name = "where-to-logic"
    formerly = ("select-booleans",)
    anchors = frozenset({"Where"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It selects booleans."""
        return dtype == oir.DataType.BOOL

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, x, y = operands(node)
        need(dtype_of(x) == oir.DataType.BOOL, "it does not select booleans", node)
        result: oir.Value
        if _all_are(b, x, True):
            result = condition if _all_are(b, y, False) else b.Or(condition, y)
        else:
            need(_all_are(b, y, False), "neither choice is constant", node)
            result = b.And(condition, x)
        return _instead(b, node, result)


class RedundantClamp(Rule):
    """max(x, y) -> x, min(x, y) -> x, Clip(x, low, high) -> x

    Legal if ranges show that x is always taken. y must not be NaN, nor the operands of Clip, and
    zeros must have one sign. Integers that are all out of bounds become the bound.
    """

    name = "redundant-clamp"
    formerly = ("drop-clamp",)
    anchors = frozenset({"Clip", "Max", "Min"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type == "Clip":
            return self._clip(node, b)
        for x, y in _either(node):
            if self._is_taken(b, node.op_type, x, y) and b.facts.nan_free(y):
                taken = _instead(b, node, x)
                # A state for the next trip may be another state, but not without a copy.
                return taken if can_replace(node.outputs[0], taken) else b.Identity(taken)
        raise Refusal("the ranges of its operands overlap", node)

    def _clip(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(all(map(b.facts.nan_free, operands(node))), "NaN would be lost", node)
        need(len(operands(node)) == 3, "it has only one bound", node)
        x, low, high = operands(node)
        if self._is_taken(b, "Max", x, low) and self._is_taken(b, "Min", x, high):
            return first(node)
        # Bounds of floats may be zeros of either sign.
        need(dtype_of(x) in INTEGERS, "its operand may be out of bounds", node)
        if self._is_taken(b, "Min", high, x):
            return _instead(b, node, high)
        below = self._is_taken(b, "Max", low, x) and self._is_taken(b, "Min", low, high)
        need(below, "its operand may be out of bounds", node)
        return _instead(b, node, low)

    def _is_taken(self, b: Rewriter, op_type: str, x: oir.Value, y: oir.Value) -> bool:
        mine, other = _bounds(b, x), _bounds(b, y)
        if mine is None or other is None:
            return False
        near, limit = (mine[0], other[1]) if op_type == "Max" else (-mine[1], -other[0])
        of_zeros = near == limit == 0 and dtype_of(x) in FLOATS
        return near >= limit and not (of_zeros and b.facts.steps(x) is None)


def _bounds(b: Rewriter, x: oir.Value) -> tuple[float, float] | None:
    return b.facts.float_range(x) if dtype_of(x) in FLOATS else b.facts.int_range(x)

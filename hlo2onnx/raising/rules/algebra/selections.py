"""Selections and conditions in fewer nodes."""

from __future__ import annotations

from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.values import (
    FLOATS,
    INTEGERS,
    attributes_of,
    const_number,
    dtype_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import (
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)
from hlo2onnx.raising.rules.algebra.casts import HOLDS

BOOL: Final = oir.DataType.BOOL


class WhereOfNot(Rule):
    """Where(Not(c), x, y) -> Where(c, y, x)"""

    name = "where-of-not"
    anchors = frozenset({"Where"})
    sources = frozenset({"Not"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, x, y = operands(node)
        c = needed(source_of(condition, "Not"), "its condition is no negation", node)
        return b.Where(c, y, x)


class NestedWhere(Rule):
    """Where(c, Where(c, x, y), z) -> Where(c, x, z); Where(c, x, Where(c, y, z)) -> Where(c, x, z)

    Legal if the inner one has the shape of the result, so that the other operand need not expand
    it.
    """

    name = "nested-where"
    anchors = frozenset({"Where"})
    sources = frozenset({"Where"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, *choices = operands(node)
        shape, found = shape_of(node.outputs[0]), False
        for place, choice in enumerate(choices):
            inner = maker_of(choice, "Where")
            if inner is not None and inner.inputs[0] is condition:
                choices[place], found = operands(inner)[1 + place], True
        need(found, "no choice has the same condition", node)
        result = b.Where(condition, *choices)
        need(shape_of(result) == shape, "the other choice of the inner one expands it", node)
        return result


class SelectBooleans(Rule):
    """Where(c, x, y) of booleans -> y xor (c and (x xor y)), with fewer operators for constants:
    Where(c, False, y) -> not c and y, Where(c, x, True) -> not c or x, and where c is a choice:
    Where(c, c, y) -> c or y, Where(c, x, c) -> c and x

    Done for targets whose Where takes no booleans: it would need three casts.
    """

    name = "where-of-booleans"
    anchors = frozenset({"Where"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        condition, x, y = operands(node)
        need(dtype_of(x) == BOOL, "it does not select booleans", node)
        need(not b.supports("Where", BOOL), "the target selects booleans", node)
        shape = shape_of(node.outputs[0])
        if b.facts.truth(x) is True or x is condition:
            result = b.Or(condition, y)
        elif b.facts.truth(y) is False or y is condition:
            result = b.And(condition, x)
        elif b.facts.truth(x) is False:
            result = b.And(b.Not(condition), y)
        elif b.facts.truth(y) is True:
            result = b.Or(b.Not(condition), x)
        else:
            result = b.Xor(y, b.And(condition, b.Xor(x, y)))
        need(shape_of(result) == shape, "a constant expands the others", node)
        return result


class CompareChoices(Rule):
    """Where(c, 2, 0) == 2 -> c, Where(c, 2, 0) == 0 -> not c, and so for other comparisons

    Legal for constants of one element. Done if the condition has the shape of the result.
    """

    name = "compare-choices"
    anchors = frozenset(HOLDS)
    sources = frozenset({"Where"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        holds = HOLDS[node.op_type]
        for place, x in enumerate(operands(node)):
            where, limit = maker_of(x, "Where"), const_number(node.inputs[1 - place])
            if where is None or limit is None:
                continue
            condition, *choices = operands(where)
            numbers = [needed(const_number(y), "a choice is computed", where) for y in choices]
            dims = shape_of(node.outputs[0])
            need(shape_of(condition) == dims, "the condition has another shape", condition)
            of_first, of_second = (
                holds(*((n, limit) if place == 0 else (limit, n))) for n in numbers
            )
            if of_first != of_second:
                return condition if of_first else b.Not(condition)
            extents = needed(static_shape(node.outputs[0]), "its shape is dynamic", node)
            return b.expand(b.scalar(of_first, BOOL), extents)
        raise Refusal("it does not compare a selection with a constant", node)


class ReduceOfNot(Rule):
    """ReduceMax(not x) -> not ReduceMin(x), ReduceMin(not x) -> not ReduceMax(x)

    Done if no other node reads the negation: the result has fewer elements, and its reader may take
    x negated, as Where does.
    """

    name = "reduce-of-not"
    anchors = frozenset({"ReduceMax", "ReduceMin"})
    sources = frozenset({"Not"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = needed(source_of(first(node), "Not"), "its operand is no negation", node)
        need(is_private(first(node)), "others read the negation", node)
        other = "ReduceMin" if node.op_type == "ReduceMax" else "ReduceMax"
        need(b.supports(other, BOOL), "the target does not reduce booleans so", node)
        types = [(BOOL, shape_of(node.outputs[0]))]
        reduced = b.op(other, x, *node.inputs[1:], types=types, **attributes_of(node))
        return b.Not(reduced)


class NotOfBoth(Rule):
    """And(Not(x), Not(y)) -> Not(Or(x, y)), Or(Not(x), Not(y)) -> Not(And(x, y))

    Done if no other node reads the negations.
    """

    name = "not-of-both"
    anchors = frozenset({"And", "Or"})
    # Other rules look for conjunctions of inequalities.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inverted = [source_of(x, "Not") for x in operands(node)]
        x, y = inverted
        need(x is not None and y is not None, "an operand is not negated", node)
        need(all(map(is_private, operands(node))), "others read the negations", node)
        return b.Not(b.op("Or" if node.op_type == "And" else "And", x, y))


class IsNan(Rule):
    """Not(x == x) -> IsNaN(x)

    Legal for floats. Done if no other node reads the comparison.
    """

    name = "is-nan"
    anchors = frozenset({"Not"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        compare = needed(maker_of(first(node), "Equal"), "it negates something else", node)
        x, y = operands(compare)
        need(x is y and dtype_of(x) in FLOATS, "it does not compare floats with themselves", node)
        need(is_private(first(node)), "others read the comparison", compare)
        need(b.supports("IsNaN", dtype_of(x)), "the target has no IsNaN of this type", node)
        return b.IsNaN(x)


class ReduceBooleans(Rule):
    """Cast(ReduceMax(Cast(x))) -> ReduceMax(x), and so for ReduceMin

    Legal for booleans, cast to integers and back, if the target reduces booleans and the reduced
    extents are static and not 0: runtimes reject an extreme of no booleans. JAX takes named extents
    for at least 1, but nothing keeps a caller from passing no rows.
    """

    name = "reduce-booleans"
    anchors = frozenset({"Cast"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        reduction = maker_of(first(node), "ReduceMax", "ReduceMin")
        x = None if reduction is None else source_of(first(reduction), "Cast")
        if reduction is None or x is None or dtype_of(x) != BOOL:
            raise Refusal("it does not reduce booleans", node)
        need(dtype_of(node.outputs[0]) == BOOL, "the result is a number", node)
        need(dtype_of(first(node)) in INTEGERS, "they are cast to floats", reduction)
        need(b.supports(reduction.op_type, BOOL), "the target reduces no booleans", reduction)
        extents = [shape_of(x)[axis] for axis in reduced_axes(reduction)]
        are_some = all(isinstance(extent, int) and extent > 0 for extent in extents)
        need(are_some, "there may be none", x)
        return b.like(reduction, [x, *reduction.inputs[1:]])

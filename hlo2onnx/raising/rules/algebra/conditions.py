"""Conditions, selections, and booleans as numbers, in fewer nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import Range, range_of_type
from hlo2onnx.ir.values import INTEGERS, const_number, const_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.equations import (
    Equations,
    Match,
    filled,
    floats,
    integers,
    one_use,
    runs,
)
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import first, maker_of, operands

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


class Row(Equations):
    """A row of this table."""


class CompareChoices(Rule):
    """Where(c, 2, 0) == 2 -> c, Where(c, 2, 0) == 0 -> not c, Cast(c) > 0 -> c, likewise for other
    comparisons of one of two numbers

    Legal for constants of one element, and for cast booleans, which are 1 or 0. Done if the
    condition has the shape of the result.
    """

    name = "compare-choices"
    formerly = ("boolean-cast-comparison", "truth-of-number")
    anchors = frozenset(HOLDS)
    sources = frozenset({"Cast", "Where"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for place, x in enumerate(operands(node)):
            limit = const_number(node.inputs[1 - place])
            condition, *numbers = _choices(x)
            if condition is None or limit is None or None in numbers:
                continue
            pairs = [(n, limit) if place == 0 else (limit, n) for n in numbers if n is not None]
            of_first, of_second = (HOLDS[node.op_type](*pair) for pair in pairs)
            if of_first == of_second:
                return filled(b, node, of_first)
            is_whole = shape_of(condition) == shape_of(node.outputs[0])
            need(is_whole, "the condition has another shape", condition)
            return condition if of_first else b.Not(condition)
        raise Refusal("it does not compare one of two numbers with a constant", node)


def _choices(x: oir.Value) -> tuple[oir.Value | None, float | None, float | None]:
    """A condition, and the numbers that it chooses between."""
    node = maker_of(x, "Cast", "Where")
    if node is None or dtype_of(first(node)) != BOOL:
        return None, None, None
    if node.op_type == "Cast":
        return first(node), 1, 0
    condition, one, other = operands(node)
    return condition, const_number(one), const_number(other)


def _keeps_numbers(match: Match) -> None:
    """The inner cast keeps all elements, and the next cast then gives the same as from x."""
    x, between = match["x"], dtype_of(match.inner[0])
    known = Range(0, 1) if dtype_of(x) == BOOL else match.b.facts.int_range(x)
    final = dtype_of(match.node.outputs[0])
    is_held = between in INTEGERS or final not in INTEGERS
    is_held = is_held or (known is not None and _holds(final, known))
    is_exact = between in INTEGERS or between in SIGNIFICANT
    need(known is not None and is_exact and is_held, "the type in between changes numbers", x)
    assert known is not None
    need(_holds(between, known), "the type in between changes numbers", x)


def _holds(dtype: oir.DataType, numbers: Range) -> bool:
    bits = SIGNIFICANT.get(dtype)
    held = range_of_type(dtype) if bits is None else Range(-(1 << bits), 1 << bits)
    return held.low <= numbers.low and numbers.high <= held.high


def _casts_to_boolean(match: Match) -> None:
    runs = match.b.target.supports_cast(dtype_of(match["x"]), BOOL, match.b.opset)
    need(runs, "the target has no such Cast", match.node)


def _lacks_where(match: Match) -> None:
    need(not match.b.supports("Where", BOOL), "the target has Where for booleans", match.node)


def _zero_if_false(match: Match) -> None:
    """x * 0 is +0."""
    known = None if dtype_of(match["x"]) in INTEGERS else const_of(match["x"])
    if known is not None:
        numbers = known.astype(np.float64)
        need(np.isfinite(numbers).all(), "x * 0 may be NaN", match["x"])
        need(not np.signbit(numbers).any(), "x * 0 may be -0", match["x"])
    else:
        integers(match)


def _cast_once(match: Match) -> None:
    """Nothing else casts p to this type."""
    final = dtype_of(match.node.outputs[0])
    casts = [x.outputs[0] for x in match["p"].consumers() if x.op_type == "Cast"]
    need([dtype_of(x) for x in casts].count(final) == 1, "the number has other readers", match["p"])


def _reduces_some(match: Match) -> None:
    """The result is boolean, the numbers are integers, and there is at least one."""
    need(dtype_of(match.node.outputs[0]) == BOOL, "the result is a number", match.node)
    need(dtype_of(match["axes"]) in INTEGERS, "the booleans are cast to floats", match["axes"])
    node = maker_of(match["axes"], "ReduceMax", "ReduceMin")
    assert node is not None
    extents = [shape_of(match["p"])[axis] for axis in reduced_axes(node)]
    are_some = all(isinstance(extent, int) and extent > 0 for extent in extents)
    need(are_some, "there may be no elements", match["p"])


RULES: tuple[Rule, ...] = (
    Row(
        "nested-where",
        "Where(p, Where(p, x, y), z) -> Where(p, x, z)",
        "Where(p, x, Where(p, y, z)) -> Where(p, x, z)",
    ),
    Row("where-of-not", "Where(Not(p), x, y) -> Where(p, y, x)", phase=1),
    Row(
        "where-of-booleans",
        "Where(p, p, q) -> Or(p, q)",
        "Where(p, q, p) -> And(p, q)",
        "Where(p, False, q) -> And(Not(p), q)",
        "Where(p, q, True) -> Or(Not(p), q)",
        "Where(p, True, q) -> Or(p, q)",
        "Where(p, q, False) -> And(p, q)",
        "Where(p, q, x) -> Xor(x, And(p, Xor(q, x)))",
        guards=[_lacks_where],
        why="""Legal for booleans. Done for targets whose Where takes none: it would need three
casts.""",
        phase=1,
    ),
    CompareChoices(),
    Row(
        "reduce-of-not",
        "ReduceMax(Not(p), *axes) -> Not(ReduceMin(p, *axes))",
        "ReduceMin(Not(p), *axes) -> Not(ReduceMax(p, *axes))",
        guards=[one_use, runs("ReduceMax", "ReduceMin", on="p")],
        why="""Done if no other node reads the negation: the result has fewer elements, and its
reader may take x negated, as Where does.""",
        phase=1,
    ),
    Row(
        "not-of-both",
        "And(Not(p), Not(q)) -> Not(Or(p, q))",
        "Or(Not(p), Not(q)) -> Not(And(p, q))",
        guards=[one_use],
        why="Done if no other node reads the negations.",
        phase=1,  # other rules look for conjunctions of inequalities
    ),
    Row(
        "is-nan",
        "Not(Equal(x, x)) -> IsNaN(x)",
        guards=[floats, one_use, runs("IsNaN")],
        why="Legal for floats. Done if no other node reads the comparison.",
        phase=1,
    ),
    Row(
        "reduce-booleans",
        "Cast(ReduceMax(Cast(p), *axes)) -> ReduceMax(p, *axes)",
        "Cast(ReduceMin(Cast(p), *axes)) -> ReduceMin(p, *axes)",
        guards=[runs("ReduceMax", "ReduceMin", on="p"), _reduces_some],
        why="""Legal for booleans, cast to integers and back, if the target reduces booleans and
the reduced extents are static and not 0: runtimes reject an extreme of no booleans. JAX takes
named extents for at least 1, but nothing keeps a caller from passing no rows.""",
    ),
    Row(
        "compose-casts",
        "Cast(Cast(x)) -> Cast(x)",
        guards=[_keeps_numbers],
        why="""Legal for booleans, and for integers whose range the type in between holds exactly.
If that type is a float, the last one must hold the range too.""",
    ),
    Row(
        "product-with-boolean",
        "x * Cast(p) -> Where(p, x, 0)",
        guards=[_zero_if_false, one_use, runs("Where")],
        why="""Legal for integers, and for constants that are finite and have no sign bit: -1 * 0
is -0. Done if no other node reads the number.""",
        phase=1,  # other rules look for products
    ),
    Row(
        "complement-of-boolean",
        "1 - Cast(p) -> Cast(Not(p))",
        guards=[one_use, _cast_once],
        why="""Legal for all numbers, as 1 - 1 is +0. Done if no other node reads Cast(p), or casts
p alike.""",
    ),
    Row(
        "not-equal-zero",
        "Not(Equal(x, 0)) -> Cast(x)",
        guards=[integers, one_use, _casts_to_boolean],
        why="Legal for integers. Done if no other node reads the comparison.",
        phase=1,  # other rules look for negated comparisons
    ),
    Row(
        "redundant-not-equal",
        "And((p := Less(x, y)), Not(Equal(x, y))) -> p",
        "And((p := Greater(x, y)), Not(Equal(x, y))) -> p",
        why="JAX writes this where it corrects the remainder of a division.",
        formerly=["strict-already"],
    ),
)

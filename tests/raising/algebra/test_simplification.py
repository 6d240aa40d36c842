"""Operators without effect are removed and known results become constants; NaN, -0 and
overflow stay exact."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Build, Rewrite, clipped
from rule_names import rule

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.algebra.simplification import FoldComparison, RedundantClamp
from hlo2onnx.raising.rules.shapes.broadcast import ImplicitBroadcast, SinkBroadcast

T = oir.DataType
FLOATS = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)
INTEGERS = np.array([[1, -7, 0], [-(2**31), 2**31 - 1, 5]], np.int32)
BOOLEANS = np.array([[True, False, True], [False, False, True]])


def against(op_type: str, item: float, swapped: bool = False) -> Build:
    """A graph that applies an operator to x and a number."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = (x, b.scalar_like(item, x))
        return b.Identity(b.op(op_type, *operands[:: -1 if swapped else 1]))

    return build


NEUTRAL = [
    ("Add", INTEGERS, 0), ("Add", FLOATS, -0.0), ("Sub", INTEGERS, 0), ("Sub", FLOATS, 0.0),
    ("Mul", INTEGERS, 1), ("Mul", FLOATS, 1.0), ("Div", INTEGERS, 1), ("Div", FLOATS, 1.0),
    ("Max", FLOATS, -np.inf), ("Min", FLOATS, np.inf), ("And", BOOLEANS, True),
    ("Or", BOOLEANS, False), ("Xor", BOOLEANS, False),
]  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("op_type", "x", "item"), NEUTRAL)
def test_drop_neutral(op_type: str, x: np.ndarray, item: float, swapped: bool) -> None:
    if swapped and op_type in ("Sub", "Div"):
        Rewrite(
            against(op_type, item, swapped), {"x": np.abs(x) + 2}, rule("fold-identity-operand")
        ).nothing()
    else:
        Rewrite(against(op_type, item, swapped), {"x": x}, rule("fold-identity-operand")).gives(
            "Identity"
        )


@pytest.mark.parametrize(
    ("op_type", "x", "item"),
    [("Add", FLOATS, 0.0), ("Sub", FLOATS, -0.0), ("Mul", FLOATS, 0.0), ("Max", FLOATS, np.nan),
     ("Max", INTEGERS, 0), ("Mul", INTEGERS, -1), ("And", BOOLEANS, False)],
)  # fmt: skip
def test_what_is_not_neutral(op_type: str, x: np.ndarray, item: float) -> None:
    Rewrite(against(op_type, item), {"x": x}, rule("fold-identity-operand")).nothing()


def test_a_neutral_operand_may_broadcast() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(x, b.const(np.ones((4, 2, 3), np.float32)))

    Rewrite(build, {"x": FLOATS}, rule("fold-identity-operand")).gives("Expand")


@pytest.mark.parametrize(
    ("op_type", "x", "item", "fires"),
    [("And", BOOLEANS, False, True), ("Or", BOOLEANS, True, True), ("Mul", INTEGERS, 0, True),
     ("Mul", FLOATS, 0.0, False), ("And", BOOLEANS, True, False)],
)  # fmt: skip
def test_fold_absorbed(op_type: str, x: np.ndarray, item: float, fires: bool) -> None:
    rewrite = Rewrite(against(op_type, item), {"x": x}, rule("fold-absorbing-operand"))
    rewrite.gives("Identity", "Expand") if fires else rewrite.nothing()


@pytest.mark.parametrize(
    ("op_type", "item", "fires"),
    [("Less", 0, True), ("Less", 1, False), ("Less", 10, True), ("GreaterOrEqual", 0, True),
     ("GreaterOrEqual", 9, False), ("Greater", 9, True), ("LessOrEqual", 9, True),
     ("LessOrEqual", 8, False), ("Equal", 10, True), ("Equal", -1, True), ("Equal", 3, False)],
)  # fmt: skip
def test_decide_comparison(op_type: str, item: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Not(b.op(op_type, clipped(b, x, 0, 9), b.scalar_like(item, x)))

    rewrite = Rewrite(build, {"x": INTEGERS}, FoldComparison())
    rewrite.gives("Not", "Expand") if fires else rewrite.nothing()


def test_comparisons_of_floats_are_not_decided() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.LessOrEqual(b.Relu(x), b.Relu(x))

    Rewrite(build, {"x": FLOATS}, FoldComparison()).nothing()


@pytest.mark.parametrize(
    ("op_type", "item", "answer"),
    [("Equal", 0, None), ("Less", 1, None), ("Less", 2, True), ("Greater", 1, False),
     ("GreaterOrEqual", 0, True), ("GreaterOrEqual", -0.0, True), ("LessOrEqual", -1, False),
     ("Equal", -1, False), ("Less", np.nan, None)],
)  # fmt: skip
def test_comparisons_of_floats_that_are_no_nan(
    op_type: str, item: float, answer: bool | None
) -> None:
    """Of 0 and 1 with a number."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        number = b.cast(b.IsNaN(x), T.FLOAT)
        return b.Identity(b.op(op_type, number, b.scalar(item, T.FLOAT)))

    rewrite = Rewrite(build, {"x": FLOATS}, FoldComparison())
    rewrite.gives("Identity", "Expand") if answer is not None else rewrite.nothing()


@pytest.mark.parametrize("op_type", ["Equal", "LessOrEqual", "Less", "Greater"])
@pytest.mark.parametrize("x", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_comparisons_of_a_value_with_itself(op_type: str, x: np.ndarray) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.op(op_type, x, x))

    rewrite = Rewrite(build, {"x": x}, FoldComparison())
    if x is FLOATS and op_type in ("Equal", "LessOrEqual"):
        rewrite.nothing()
    else:
        rewrite.gives("Identity", "Expand")


def test_a_number_that_is_no_nan_equals_itself() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        number = b.cast(b.IsNaN(x), T.FLOAT)
        return b.Identity(b.Equal(number, number))

    Rewrite(build, {"x": FLOATS}, FoldComparison()).gives("Identity", "Expand")


@pytest.mark.parametrize("answer", [True, False])
def test_decide_where(answer: bool) -> None:
    """The branch that is taken, in the shape of the result."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        condition = b.expand(b.const(np.array(answer)), (2, 3))
        return b.Identity(b.Where(condition, x, y))

    inputs = {"x": INTEGERS, "y": INTEGERS[:1] + 1}
    expected = ["Identity"] if answer else ["Identity", "Expand"]
    Rewrite(build, inputs, rule("fold-where")).gives(*expected)


def test_branches_that_are_the_same() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Where(b.IsNaN(x), x, x))

    Rewrite(build, {"x": FLOATS}, rule("fold-where")).gives("Neg")


def test_a_condition_that_varies_is_kept() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Where(b.const(BOOLEANS), x, b.Neg(x))

    Rewrite(build, {"x": FLOATS}, rule("fold-where")).nothing()


@pytest.mark.parametrize(
    ("build", "fires"),
    [
        (lambda b, x: b.Max(x, b.scalar(0, T.INT32)), True),
        (lambda b, x: b.Max(b.scalar(1, T.INT32), x), False),
        (lambda b, x: b.Min(b.scalar(9, T.INT32), x), True),
        (lambda b, x: b.Min(x, b.scalar(8, T.INT32)), False),
        (lambda b, x: clipped(b, x, -5, 9), True),
        (lambda b, x: clipped(b, x, 0, 8), False),
    ],
)
def test_drop_clamp(build: object, fires: bool) -> None:
    def whole(b: GraphBuilder, x: oir.Value) -> oir.Value:
        inside = clipped(b, x, 0, 9)
        return b.Neg(build(b, inside))  # type: ignore[operator]

    rewrite = Rewrite(whole, {"x": INTEGERS}, RedundantClamp())
    rewrite.gives("Neg", "Clip") if fires else rewrite.nothing()


@pytest.mark.parametrize(("bound", "left"), [(-1, ["Relu"]), (1, ["Max", "Relu"])])
def test_clamps_of_floats(bound: int, left: list[str]) -> None:
    """NaN stays NaN."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Max(b.Relu(x), b.scalar(bound, T.FLOAT))

    rewrite = Rewrite(build, {"x": FLOATS}, RedundantClamp())
    assert sorted(rewrite.nodes.elements()) == left


# -- all of them ------------------------------------------------------------------------------

NAMES = ("fold-identity-operand", "fold-absorbing-operand", "fold-same-operands",
         "fold-double-negation", "fold-where", "reassociate-constants", "floor-divide",
         "remainder")  # fmt: skip
ALL = [FoldConstants(), *map(rule, NAMES), FoldComparison(), RedundantClamp(), ImplicitBroadcast(),
       SinkBroadcast()]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
COMPARE = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"]
STEPS = st.tuples(
    st.sampled_from([*BINARY, *COMPARE, "Clip", "Div", "Rem", "Sign", "Neg", "Index"]),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from([0, 1, 1, 2, 5, -1, -3, 2**31 - 1, -(2**31)]),
)


def _grow(b: GraphBuilder, x: oir.Value, steps: list[tuple[str, int, int, int]]) -> oir.Value:
    """A random graph of integers; each step may use everything made before it."""
    made = [x]
    for op_type, first, second, item in steps:
        k = b.scalar_like(item, x)
        one = made[first % len(made)]
        other = [*made, k][second % (len(made) + 1)]
        if op_type in BINARY:
            made.append(b.op(op_type, one, other))
        elif op_type in COMPARE:
            condition = b.op(op_type, one, other)
            made.append(b.Where(b.Not(condition), k, one))
        elif op_type == "Clip":
            made.append(b.Clip(one, k, b.scalar_like(max(item, 9), x)))
        elif op_type in ("Div", "Rem"):
            y = b.scalar_like(max(item, 1), x)
            quotient = b.Div(one, y)
            made.append(quotient if op_type == "Div" else b.Sub(one, b.Mul(quotient, y)))
        elif op_type == "Index":
            made.append(b.Where(b.Less(one, b.scalar_like(0, x)), b.Add(one, k), one))
        else:
            made.append(b.op(op_type, one))
    return b.Identity(made[-1])


@pytest.mark.wide
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=12),
    values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=4),
)
def test_random_graphs_keep_their_values(
    steps: list[tuple[str, int, int, int]], values: list[int]
) -> None:
    inputs = {"x": np.array(values, np.int32)}
    Rewrite(lambda b, x: _grow(b, x, steps), inputs, *ALL)


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda c, x: jnp.where(c, True, False), []),
        (lambda c, x: jnp.where(c, x, False), ["And"]),
        (lambda c, x: jnp.where(c, True, x), ["Or"]),
    ],
)
def test_select_booleans(function: Callable[..., jax.Array], left: list[str]) -> None:
    """The runtime has no Where of booleans, so that the rule is seen in whole programs only."""
    x = np.array([[True], [False]])
    program = hlo2onnx.translate(jax.jit(lambda c, x: ~function(c, x)).lower(BOOLEANS, x))
    assert program.verify(BOOLEANS, x).ok
    assert sorted(program.report.nodes.elements()) == sorted([*left, "Not"])


def test_select_booleans_leaves_open_choices_and_numbers() -> None:
    def open_choice(c: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(c, x, y)

    program = hlo2onnx.translate(jax.jit(open_choice).lower(BOOLEANS, BOOLEANS, BOOLEANS))
    assert "where-to-logic" not in program.report.rules

    def numbers(b: GraphBuilder, c: oir.Value) -> oir.Value:
        return b.Neg(b.Where(c, b.const(np.int32(1)), b.const(np.int32(0))))

    Rewrite(numbers, {"c": BOOLEANS}, rule("where-to-logic")).nothing()


def test_zero_added_to_what_was_an_integer() -> None:
    """There is no -0 among converted integers."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Add(b.Cast(x, to=T.FLOAT), b.scalar(0.0, T.FLOAT)))

    Rewrite(build, {"x": INTEGERS}, rule("fold-identity-operand")).gives("Cast", "Neg")
    Rewrite(build, {"x": FLOATS.astype(np.float64)}, rule("fold-identity-operand")).nothing()

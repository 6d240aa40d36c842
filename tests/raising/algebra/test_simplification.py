"""Operators without effect are removed and known results become constants; NaN, -0 and
overflow stay exact."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import Rewrite, clipped, model_of
from rule_names import rule
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.algebra.simplification import FoldComparison, RedundantClamp
from hlo2onnx.raising.rules.shapes.broadcast import ImplicitBroadcast, SinkBroadcast
from hlo2onnx.targets import load_target

T = oir.DataType
FLOATS = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)
INTEGERS = np.array([[1, -7, 0], [-(2**31), 2**31 - 1, 5]], np.int32)
BOOLEANS = np.array([[True, False, True], [False, False, True]])
INPUTS = {"x": FLOATS, "i": INTEGERS, "c": BOOLEANS, "j": INTEGERS[:1] + 1}
CONSTANTS = {
    "YES": np.array(True),
    "NO": np.array(False),
    "BITS": BOOLEANS,
    "MANY": np.ones((4, 2, 3), np.float32),
    "EMPTY": np.ones((0, 3), np.float32),
    "SOME": np.array([1, 1, 2], np.int32),
    # Numbers from 0 to 9, from -9 to 0, and from 0 to 1.
    "digit": lambda b, x: clipped(b, x, 0, 9),
    "minus": lambda b, x: clipped(b, x, -9, 0),
    "flag": lambda b, x: b.cast(b.IsNaN(x), T.FLOAT),
}
LEAST = -(2**31)
NEUTRAL: dict[str, str] = {
    **{f"Neg({text})": "Neg" for text in (
        "i + 0", "0 + i", "x + -0.0", "-0.0 + x", "i - 0", "x - 0.0", "i * 1", "1 * i", "x * 1.0",
        "1.0 * x", "i / 1", "x / 1.0", "Max(x, -inf)", "Max(-inf, x)", "Min(x, inf)", "Min(inf, x)",
    )},
    **{f"Not({text})": "Not" for text in (
        "And(c, YES)", "And(YES, c)", "Or(c, NO)", "Or(NO, c)", "Xor(c, NO)", "Xor(NO, c)",
    )},
    **dict.fromkeys((
        "x + 0.0", "x - -0.0", "x * 0.0", "Max(x, nan)", "Max(i, 0)", "i * -1", "And(c, NO)",
        "0 - i", "0.0 - x", "1 / (Abs(x) + 2)", "Max(x, inf)", "Min(x, -inf)",
    ), NOTHING),
    "x * MANY": "Expand",  # it may broadcast
    "Neg(Cast(i, FLOAT) + 0.0)": "Cast Neg",  # there is no -0 among converted integers
    "Neg(Cast(x, DOUBLE) + 0.0)": NOTHING,
    "Neg(Cast(i, FLOAT) * 0.0)": NOTHING,
    "Neg(Cast(i, FLOAT) + 1.0)": NOTHING,
    "Neg(Max(i))": NOTHING,
    f"Neg(Max(i, {LEAST}, 5))": NOTHING,
    "Neg(slice(x, [0], [1], axes=[0]) * EMPTY)": NOTHING,
    "Neg(i * SOME)": NOTHING,
    # Conditions that ranges decide.
    "Not(And(Less(i, 1), Less(digit(i), 10)))": "Not Less",
    "Not(And(Less(digit(i), 10), Less(i, 1)))": "Not Less",
    "Not(And(Less(i, 1), Less(digit(i), 0)))": NOTHING,
    "Not(And(Less(i, 1), Less(digit(i), 5)))": NOTHING,
}  # fmt: skip
ABSORBED: dict[str, str] = {
    "Not(And(c, NO))": "Not Expand",
    "Not(Or(c, YES))": "Not Expand",
    "Neg(i * 0)": "Neg Expand",
    "Neg(x * 0.0)": NOTHING,
    "Not(And(c, YES))": NOTHING,
    "Not(And(Less(i, 1), Less(digit(i), 0)))": "Not Expand",
    "Not(And(Less(digit(i), 0), Less(i, 1)))": "Not Expand",
    "Not(And(Less(i, 1), Less(digit(i), 10)))": NOTHING,
    "Not(And(Less(i, 1), Less(digit(i), 5)))": NOTHING,
}
FOLDED, KEPT = "Not Expand", NOTHING
COMPARED: dict[str, str] = {
    **{f"Not({op}(digit(i), {item}))": FOLDED for op, item in (
        ("Less", 0), ("Less", 10), ("GreaterOrEqual", 0), ("Greater", 9), ("LessOrEqual", 9),
        ("Equal", 10), ("Equal", -1),
    )},
    **{f"Not({op}(digit(i), {item}))": KEPT for op, item in (
        ("Less", 1), ("GreaterOrEqual", 9), ("LessOrEqual", 8), ("Equal", 3),
    )},
    # Of floats that are no NaN: 0 and 1.
    **{f"Not({op}(flag(x), {item}))": FOLDED for op, item in (
        ("Less", 2), ("Greater", 1), ("GreaterOrEqual", 0), ("GreaterOrEqual", -0.0),
        ("LessOrEqual", -1), ("Equal", -1),
    )},
    **{f"Not({op}(flag(x), {item}))": KEPT for op, item in (
        ("Equal", 0), ("Less", 1), ("Less", "nan"),
    )},
    # Of a value with itself.
    **{f"Not({op}(i, i))": FOLDED for op in ("Equal", "LessOrEqual", "Less", "Greater")},
    **{f"Not({op}(x, x))": FOLDED for op in ("Less", "Greater")},
    **{f"Not({op}(x, x))": KEPT for op in ("Equal", "LessOrEqual")},
    "Not(LessOrEqual(Relu(x), Relu(x)))": KEPT,
    "(f := flag(x), Not(Equal(f, f)))[1]": FOLDED,
}  # fmt: skip
CHOSEN: dict[str, str] = {
    "Neg(Where(expand(YES, (2, 3)), i, j))": "Neg",
    "Neg(Where(expand(NO, (2, 3)), i, j))": "Neg Expand",  # in the shape of the result
    "Neg(Where(IsNaN(x), x, x))": "Neg",
    "Where(BITS, x, Neg(x))": NOTHING,
    "Neg(Where(Less(digit(i), 10), Abs(i), Sign(i)))": "Neg Abs",
    "Neg(Where(Less(digit(i), 0), Abs(i), Sign(i)))": "Neg Sign",
    "Neg(Where(Less(digit(i), 5), Abs(i), Sign(i)))": NOTHING,
}
CLAMPED: dict[str, str] = {
    "Neg(Max(digit(i), 0))": "Neg Clip",
    "Neg(Min(9, digit(i)))": "Neg Clip",
    "Neg(Min(minus(i), 0))": "Neg Clip",
    "Neg(Clip(digit(i), -5, 9))": "Neg Clip",
    **{f"Neg({text})": NOTHING for text in (
        "Max(1, digit(i))", "Min(digit(i), 8)", "Clip(digit(i), 0, 8)", "Clip(digit(i), 1, 9)",
        "Clip(digit(i), 1, 8)", "Clip(digit(i), 0)", "Max(i)", f"Max(i, {LEAST}, 5)",
    )},
    # Beyond the bounds; an upper bound holds, also below the lower one.
    **{f"Neg(Clip(digit(i), {low}, {high}))": "Neg Expand"
       for low, high in ((-9, 0), (-9, -1), (9, 20), (-1, -5))},
    **{f"Neg(Clip(digit(i), {low}, {high}))": NOTHING
       for low, high in ((20, 9), (-9, 1), (8, 20))},
    "Clip(Sigmoid(Neg(x)), -2.0, -1.0)": NOTHING,
    # NaN stays NaN.
    "Max(Relu(x), -1)": "Relu",
    "Max(Relu(x), 1)": NOTHING,
    "Neg(Max(Tanh(x), -1.0))": "Neg Tanh",
    "Neg(Max(-1.0, Tanh(x)))": "Neg Tanh",
    "Neg(Min(Tanh(x), 1.0))": "Neg Tanh",
    "Neg(Min(1.0, Tanh(x)))": "Neg Tanh",
    "Neg(Max(Tanh(x), 2.0))": NOTHING,
    "Neg(Min(Tanh(x), -2.0))": NOTHING,
    "Neg(Max(Where(c, 0.5, scalar(2.0, FLOAT)), 0.5))": "Neg Where",
    "Neg(Max(Where(c, 0.5, scalar(2.0, FLOAT)), 0.75))": NOTHING,
    "Neg(Min(Where(c, 0.5, scalar(2.0, FLOAT)), 2.0))": "Neg Where",
    "Neg(Min(Where(c, 0.5, scalar(2.0, FLOAT)), 1.5))": NOTHING,
    # They are no NaN, and that is all that is known.
    "Neg(Max(Where(IsNaN(x), 0.0, x), 0.0))": NOTHING,
    "Neg(Max(0.0, Where(IsNaN(x), 0.0, x)))": NOTHING,
}  # fmt: skip
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (rule("fold-identity-operand"), NEUTRAL), (rule("fold-absorbing-operand"), ABSORBED),
    (FoldComparison(), COMPARED), (rule("fold-where"), CHOSEN), (RedundantClamp(), CLAMPED),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, constants=CONSTANTS)


@pytest.mark.parametrize(("text", "left"), [("BitwiseXor(i, 0)", ""), ("BitwiseXor(0, i)", ""),
                                            ("BitwiseXor(i, 1)", "BitwiseXor")])  # fmt: skip
def test_exclusive_or_with_zero(text: str, left: str) -> None:
    build = graph(f"Neg({text})")
    made = Rewrite(build, {"i": INTEGERS}, rule("fold-identity-operand"), opset=18)
    assert made.nodes["BitwiseXor"] == len(left.split())


def test_a_free_shape_stays() -> None:
    """What is left has it, or nothing is done."""

    def same(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.Mul(free(b, x, "n", 3), b.scalar(1, T.INT32)))

    def larger(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rows = free(b, b.const(np.ones((2, 1), np.int32)), "n", 1)
        return b.Neg(b.Where(b.const(np.array(True)), b.Neg(b.slice(x, [0], [1], axes=[0])), rows))

    Rewrite(same, {"x": INTEGERS}, rule("fold-identity-operand")).gives("Identity", "Neg")
    Rewrite(larger, {"x": INTEGERS}, rule("fold-where")).nothing()


@pytest.mark.parametrize(
    ("op_type", "number", "answer"),
    [("Less", 1.0, False), ("GreaterOrEqual", 1.0, True), ("Greater", 1.0, None),
     ("Less", 0.5, None), ("Greater", 2.0**80, False), ("LessOrEqual", 2.0**62, True),
     ("LessOrEqual", 2.0**20, None)],
)  # fmt: skip
def test_comparisons_of_extents(op_type: str, number: float, answer: bool | None) -> None:
    """A free extent of an input is 1 at least, as a number of any type."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        extent = b.extents.scalar(shape_of(x)[0])
        return b.Not(b.op(op_type, b.cast(extent, T.FLOAT), b.scalar(number, T.FLOAT)))

    model = model_of(build, {"x": INTEGERS}, dims={"x": (symbol("n", positive=True), 3)})
    fired = apply_rules(model, [FoldComparison()], load_target("ort-cpu"))
    assert bool(fired) == (answer is not None)
    if answer is not None:
        (constant,) = (x.const_value.numpy() for x in model.graph.initializers.values()
                       if x.dtype == T.BOOL and x.const_value is not None)  # fmt: skip
        assert constant == answer


@pytest.mark.parametrize(
    ("text", "left"),
    [("Where(c, YES, NO)", []), ("Where(c, YES, d)", ["Or"]), ("Where(c, d, NO)", ["And"]),
     *((f"Where(c, {pair})", None) for pair in ("NO, YES", "NO, d", "d, YES", "d, d"))],
)  # fmt: skip
def test_choices_among_booleans(text: str, left: list[str] | None) -> None:
    """Not run: the runtime has no Where of booleans."""
    model = model_of(graph(f"Not({text})", **CONSTANTS), {"c": BOOLEANS, "d": ~BOOLEANS})
    fired = apply_rules(model, [rule("where-to-logic")], load_target("ort-cpu"))
    assert bool(fired) == (left is not None)
    found = sorted(node.op_type for node in model.graph)
    assert found == sorted(["Not", *(["Where"] if left is None else left)])


@pytest.mark.parametrize("text", ["Max(Where(c, -0.0, scalar(1.0, FLOAT)), 0.0)",
                                  "Min(Where(c, -0.0, scalar(-1.0, FLOAT)), 0.0)"])  # fmt: skip
def test_clamps_at_a_zero_of_the_other_sign(text: str) -> None:
    """Of -0 a maximum with 0 makes 0."""
    model = model_of(graph(f"Reciprocal({text})"), {"c": BOOLEANS})
    assert not apply_rules(model, [RedundantClamp()], load_target("ort-cpu"))


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

"""The rules on activation functions alone, on small graphs: where each fires and where not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Rewrite, fires, negated

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.nn.activations import (
    ActivationOperators,
    MinMaxToClip,
    Relu,
    Selu,
    Sigmoid,
)

X = np.array([[-2.5, -1.0, -0.0], [0.5, 1.0, 7.0]], np.float32)
INPUTS = {"x": X, "y": X[::-1] * 3 + 2, "i": X.astype(np.int32), "d": X.astype(np.float64)}


def logistic(b: GraphBuilder, x: oir.Value) -> oir.Value:
    one = b.scalar_like(1, x)
    return b.Div(one, b.Add(one, b.Exp(b.Neg(x))))


CONSTANTS = {
    "logistic": logistic,
    "shifted": lambda b, x, y: b.Add(logistic(b, x), b.Exp(y)),
    "negated": negated,
    "sliced": lambda b, x: b.op("Pad", x, b.i64([0, -1]), None, b.i64([1])),
    "ONES": np.ones((1, 1, 1), np.float32),
    "TWOS": np.full((1, 1, 1), 2, np.float32),
    "MINUS": np.full((1, 1, 1), -1, np.float32),
    "ZERO": np.zeros((1, 1, 1), np.float32),
}
GATES = [
    "logistic(x) * y",
    "shifted(x, y)",
    "Exp(Neg(logistic(x) * y) + y)",
    "Log(logistic(x) * y + 99)",
    "(p := logistic(x), Log(p * p + Exp(y)))[1]",
    "negated(logistic(x), 6) + y",
    "shifted(x, y) / Exp(y)",
    "Log(Abs(Tanh(shifted(x, y))))",
    "Log(Abs(shifted(x, y) * Exp(y)))",
    "Log(negated(Neg(shifted(x, y)), 7))",  # a logarithm too far away
]
PROBABILITIES = [
    # Results, or moved results.
    "logistic(x)",
    "(p := logistic(x), p * y)",
    "(p := Neg(logistic(x)), p * y)",
    "Neg(logistic(x) * y)",
    # Logarithms of it, of gates and of sums.
    "Log(logistic(x))",
    "(p := logistic(x), p * y, Log(p))[1:]",
    "Log(Abs(logistic(x) * y))",
    "Log(shifted(x, y))",
    "Log(logistic(x) * 0.5 + Exp(y))",
    "Log(shifted(x, y) * 0.5)",
    "Log(shifted(x, y) / 2)",
    "Log(sliced(shifted(x, y)))",
    "Log(negated(shifted(x, y), 6))",
    "Log(concat([logistic(x), y], 0) + concat([y, Exp(y)], 0))",
    # Divisors.
    "y / shifted(x, y)",
    "(t := shifted(x, y), t / t)[1]",
    # Too far away, no gate, other quotients.
    "negated(logistic(x), 7) + y",
    "Tanh(logistic(x))",
    "x / y + y",
    "1 / (1 + Exp(x)) + y",
    "logistic(d) * d",
]


@pytest.mark.parametrize("text", GATES)
def test_gates(text: str) -> None:
    found = Rewrite(graph(text, **CONSTANTS), INPUTS, Sigmoid(), tolerance=1e-6)
    assert found.nodes["Sigmoid"] == 1


@pytest.mark.parametrize("text", PROBABILITIES)
def test_probabilities(text: str) -> None:
    assert not fires(graph(text, **CONSTANTS), INPUTS, Sigmoid())


ACTIVATIONS: dict[str, str] = {
    "x / (1 + Abs(x))": "Softsign",
    "x / (ONES + Abs(x))": NOTHING,
    "d / (1 + Abs(d))": NOTHING,
    "Where(GreaterOrEqual(x, 0), x, x * 0.25)": "LeakyRelu",
    "Where(GreaterOrEqual(x, 0), x, x * inf)": NOTHING,
    "Where(GreaterOrEqual(x, 0), x, x * nan)": NOTHING,
    "Where(IsNaN(x), x, Max(x, 0) + Softplus(Neg(Abs(x))))": "Softplus",
    "Where(IsNaN(x), x, Max(x, 1) + Softplus(Neg(Abs(x))))": NOTHING,
}
RELUS: dict[str, str] = {
    **{text.replace("@", name): left for name in "xd" for text, left in {
        "Max(@, 0) + @": "Relu Add",
        "Max(@, 0) * 2": "Relu Mul",
        "negated(Max(@, 0), 5) + @": "Relu Neg Neg Neg Neg Neg Add",
        "Exp(reshape(Max(@, 0), (6,)))": "Relu Reshape Exp",
    }.items()},
    # Results, moved results, and divisors.
    "Max(x, 0)": NOTHING,
    "reshape(Max(x, 0), (6,))": NOTHING,
    "x / Max(x, 0)": NOTHING,
    "x / (Max(x, 0) * x)": NOTHING,
    "(r := Max(x, 0), r + x, x / r)[1:]": NOTHING,
    "(s := Max(x, 0) * 2, s / x)": NOTHING,
    "(s := Max(x, 0) * 2, s + x)": NOTHING,
    "negated(Max(x, 0), 6) + x": NOTHING,
    # Other maxima.
    "Exp(Max(x, 1))": NOTHING,
    "Exp(Max(x, ZERO))": NOTHING,
    "Max(i, 0) + i": NOTHING,
}  # fmt: skip
CLIPS: dict[str, str] = {
    **{f"Min({high}, Max({name}, {low}))": "Clip"
       for name in "xd" for low, high in ((-1, 1), (1, 1))},
    **{f"Exp(Min({high}, Max({name}, {low})))": "Clip Exp"
       for name in "xd" for low, high in ((0, 6), (-6, 0), (-0.0, 6))},
    "Exp(Min(Relu(x), 2))": "Clip Exp",
    **{f"Min({high}, Max(x, {low}))": NOTHING for low, high in ((1, -1), (0, 6), (-6, 0))},
    "Min(ONES, Max(x, -1))": NOTHING,
    "Min(x, y)": NOTHING,
    "Min(1, Max(i, -1))": NOTHING,
    **{f"(l := Where(Less({name}, {low}), {low}, {name}), "
       f"Where(Greater({name}, {high}), {high}, l))[1]": "Clip"
       for name in "xd" for low, high in ((-1, 1), (0, 1), (-1, 0))},
    **{f"(l := Where(Less(x, {low}), {low}, x), Where(Greater(x, {high}), {high}, l))[1]": NOTHING
       for low, high in ((1, -1), (1, 1), (-0.0, 1), (-1, -0.0))},
    "(l := Where(Less(x, -1), MINUS, x), Where(Greater(x, ONES), ONES, l))[1]": NOTHING,
    "(l := Where(Less(i, -1), -1, i), Where(Greater(i, 1), 1, l))[1]": NOTHING,
    "Where(Greater(x, y), x, y)": NOTHING,
}  # fmt: skip
SELUS: dict[str, str] = {
    **{f"Elu(x{alpha}) * {gamma}": "Selu"
       for alpha in ("", ", alpha=0.5") for gamma in (0.5, 1, 3)},
    **{f"Elu(x) * {gamma}": NOTHING for gamma in ("0", "-0.5", "inf", "nan")},
    "Elu(x) * TWOS": NOTHING,
    "x * y": NOTHING,
}  # fmt: skip
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (ActivationOperators(), ACTIVATIONS), (Relu(), RELUS), (MinMaxToClip(), CLIPS), (Selu(), SELUS),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, constants=CONSTANTS, tolerance=1e-6)


def test_numbers_of_an_activation_and_elus_of_doubles() -> None:
    leaky = graph("Where(GreaterOrEqual(x, 0), x, x * 0.25)")
    (node,) = Rewrite(leaky, {"x": X}, ActivationOperators()).model.graph
    assert node.attributes["alpha"].as_float() == 0.25
    for alpha, text in ((1, "Elu(x) * 3"), (0.5, "Elu(x, alpha=0.5) * 3")):
        (node,) = Rewrite(graph(text), {"x": X}, Selu(), tolerance=1e-6).model.graph
        assert node.attributes["alpha"].as_float() == alpha
    assert not fires(graph("Elu(d) * 2"), INPUTS, Selu())

"""The rules on activation functions alone, on small graphs: where each fires and where not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, negated

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.activations import (
    ActivationOperators,
    MinMaxToClip,
    Relu,
    Selu,
    Sigmoid,
)

X = np.array([[-2.5, -1.0, -0.0], [0.5, 1.0, 7.0]], np.float32)
INPUTS = {"x": X, "y": X[::-1] * 3 + 2}


def number(b: GraphBuilder, x: oir.Value, value: float) -> oir.Value:
    return b.scalar_like(value, x)


# -- sigmoid ------------------------------------------------------------------------------------


def logistic(b: GraphBuilder, x: oir.Value) -> oir.Value:
    one = number(b, x, 1)
    return b.Div(one, b.Add(one, b.Exp(b.Neg(x))))


def gate(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Mul(logistic(b, x), y)


def shifted(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Add(logistic(b, x), b.Exp(y))


def halved(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.Mul(logistic(b, x), number(b, x, 0.5))


def sliced(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """A part of the columns; the third operand is left out."""
    return b.op("Pad", x, b.i64([0, -1]), None, b.i64([1]))


def gate_and_result(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
    p = logistic(b, x)
    return [b.Mul(p, y), p]


def gate_and_negative(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
    p = b.Neg(logistic(b, x))
    return [b.Mul(p, y), p]


def gate_and_logarithm(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
    p = logistic(b, x)
    return [b.Mul(p, y), b.Log(p)]


def quotient_of_itself(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    total = shifted(b, x, y)
    return b.Div(total, total)


def square(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    p = logistic(b, x)
    return b.Log(b.Add(b.Mul(p, p), b.Exp(y)))


GATES: dict[str, Build] = {
    "a gate": gate,
    "a sum": shifted,
    "a gate's negative": lambda b, x, y: b.Exp(b.Add(b.Neg(gate(b, x, y)), y)),
    "what a gate let through in a logarithm": lambda b, x, y: b.Log(
        b.Add(gate(b, x, y), number(b, x, 99))
    ),
    "its square in a logarithm": square,
    "a gate far behind": lambda b, x, y: b.Add(negated(b, logistic(b, x), 6), y),
    "a dividend": lambda b, x, y: b.Div(shifted(b, x, y), b.Exp(y)),
    "a bounded function of a sum": lambda b, x, y: b.Log(b.Abs(b.Tanh(shifted(b, x, y)))),
    "a sum of another": lambda b, x, y: b.Log(b.Abs(b.Mul(shifted(b, x, y), b.Exp(y)))),
    "a logarithm too far away": lambda b, x, y: b.Log(negated(b, b.Neg(shifted(b, x, y)), 7)),
}
PROBABILITIES: dict[str, Build] = {
    "a result": lambda b, x, y: logistic(b, x),
    "a result too": gate_and_result,
    "its negative is a result too": gate_and_negative,
    "what a gate let through is moved": lambda b, x, y: b.Neg(gate(b, x, y)),
    "its logarithm": lambda b, x, y: b.Log(logistic(b, x)),
    "its logarithm too": gate_and_logarithm,
    "a logarithm of a gate": lambda b, x, y: b.Log(b.Abs(gate(b, x, y))),
    "a logarithm of a sum": lambda b, x, y: b.Log(shifted(b, x, y)),
    "a logarithm of a sum of halves": lambda b, x, y: b.Log(b.Add(halved(b, x), b.Exp(y))),
    "a logarithm of a sum's half": lambda b, x, y: b.Log(
        b.Mul(shifted(b, x, y), number(b, x, 0.5))
    ),
    "a logarithm of a sum over a constant": lambda b, x, y: b.Log(
        b.Div(shifted(b, x, y), number(b, x, 2))
    ),
    "a logarithm of a part of a sum": lambda b, x, y: b.Log(sliced(b, shifted(b, x, y))),
    "a logarithm six steps away": lambda b, x, y: b.Log(negated(b, shifted(b, x, y), 6)),
    "a logarithm of a sum beside others": lambda b, x, y: b.Log(
        b.Add(b.concat([logistic(b, x), y], 0), b.concat([y, b.Exp(y)], 0))
    ),
    "a divisor": lambda b, x, y: b.Div(y, shifted(b, x, y)),
    "both of a quotient": quotient_of_itself,
    "too far away": lambda b, x, y: b.Add(negated(b, logistic(b, x), 7), y),
    "no gate": lambda b, x, y: b.Tanh(logistic(b, x)),
    "another quotient": lambda b, x, y: b.Add(b.Div(x, y), y),
    "twice the exponential": lambda b, x, y: b.Add(
        b.Div(number(b, x, 1), b.Add(number(b, x, 1), b.Exp(x))), y
    ),
}


@pytest.mark.parametrize("name", GATES)
def test_gates(name: str) -> None:
    found = Rewrite(GATES[name], INPUTS, Sigmoid(), tolerance=1e-6)
    assert found.nodes["Sigmoid"] == 1


@pytest.mark.parametrize("name", PROBABILITIES)
def test_probabilities(name: str) -> None:
    assert not fires(PROBABILITIES[name], INPUTS, Sigmoid())


def test_gates_of_doubles_stay() -> None:
    doubles = {name: array.astype(np.float64) for name, array in INPUTS.items()}
    Rewrite(gate, doubles, Sigmoid()).nothing()


# -- activations --------------------------------------------------------------------------------


def leaky(alpha: float) -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scaled = b.Mul(x, number(b, x, alpha))
        return b.Where(b.GreaterOrEqual(x, number(b, x, 0)), x, scaled)

    return build


def softsign(b: GraphBuilder, x: oir.Value, rank: int = 0) -> oir.Value:
    one = b.const(np.ones((1,) * rank, dtype=x.dtype.numpy()))  # type: ignore[union-attr]
    return b.Div(x, b.Add(one, b.Abs(x)))


def test_a_slope_that_is_a_number() -> None:
    found = Rewrite(leaky(0.25), {"x": X}, ActivationOperators())
    found.gives("LeakyRelu")
    (node,) = found.model.graph
    assert node.attributes["alpha"].as_float() == 0.25
    Rewrite(leaky(np.inf), {"x": X[1:] + 1}, ActivationOperators()).nothing()
    Rewrite(leaky(np.nan), {"x": X[1:] + 1}, ActivationOperators()).nothing()


def test_softsign() -> None:
    Rewrite(softsign, {"x": X}, ActivationOperators(), tolerance=1e-6).gives("Softsign")
    three = Rewrite(lambda b, x: softsign(b, x, 3), {"x": X}, ActivationOperators())
    three.nothing()
    Rewrite(softsign, {"x": X.astype(np.float64)}, ActivationOperators()).nothing()


@pytest.mark.parametrize("low", [0, 1])
def test_softplus_of_a_maximum(low: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        log1p = b.Softplus(b.Neg(b.Abs(x)))
        result: oir.Value = b.Where(b.IsNaN(x), x, b.Add(b.Max(x, number(b, x, low)), log1p))
        return result

    found = Rewrite(build, {"x": X}, ActivationOperators(), tolerance=1e-6)
    assert bool(found.fired) == (low == 0)


# -- relu and clips -----------------------------------------------------------------------------


def relu(b: GraphBuilder, x: oir.Value, low: float = 0.0) -> oir.Value:
    return b.Max(x, number(b, x, low))


def product_of(b: GraphBuilder, x: oir.Value, *others: str) -> list[oir.Value]:
    """A product that is a result and that other operators read."""
    scaled = b.Mul(relu(b, x), number(b, x, 2))
    return [scaled, *(b.op(other, scaled, x) for other in others)]


BLIND: dict[str, Build] = {
    "a sum": lambda b, x: b.Add(relu(b, x), x),
    "a product that is the result": product_of,
    "a sum five steps behind": lambda b, x: b.Add(negated(b, relu(b, x), 5), x),
    "a sum of another shape": lambda b, x: b.Exp(b.reshape(relu(b, x), (6,))),
}
SIGNED: dict[str, Build] = {
    "the result": relu,
    "a moved result": lambda b, x: b.reshape(relu(b, x), (6,)),
    "a divisor": lambda b, x: b.Div(x, relu(b, x)),
    "a divisor behind a product": lambda b, x: b.Div(x, b.Mul(relu(b, x), x)),
    "a sum and a divisor": lambda b, x: [b.Add(y := relu(b, x), x), b.Div(x, y)],
    "a product that is a result and a divisor": lambda b, x: product_of(b, x, "Div"),
    "a product that is a result and a term": lambda b, x: product_of(b, x, "Add"),
    "a sum six steps behind": lambda b, x: b.Add(negated(b, relu(b, x), 6), x),
    "a maximum with another number": lambda b, x: b.Exp(relu(b, x, 1)),
    "a maximum with a zero of more axes": lambda b, x: b.Exp(
        b.Max(x, b.const(np.zeros((1, 1, 1), np.float32)))
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BLIND)
def test_relu(name: str, dtype: type) -> None:
    found = Rewrite(BLIND[name], {"x": X.astype(dtype)}, Relu())
    assert found.nodes["Relu"] == 1 and not found.nodes["Max"]


@pytest.mark.parametrize("name", SIGNED)
def test_no_relu(name: str) -> None:
    Rewrite(SIGNED[name], {"x": X}, Relu()).nothing()


def test_no_relu_of_integers() -> None:
    Rewrite(lambda b, x: b.Add(relu(b, x), x), {"x": X.astype(np.int32)}, Relu()).nothing()


def between(low: float, high: float, dims: tuple[int, ...] = (), read: str = "") -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        bound = b.const(np.full(dims, high, dtype=x.dtype.numpy()))  # type: ignore[union-attr]
        clipped = b.Min(bound, relu(b, x, low))
        return b.op(read, clipped) if read else clipped  # type: ignore[return-value]

    return build


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("low", "high", "read"),
    [(-1, 1, ""), (1, 1, ""), (0, 6, "Exp"), (-6, 0, "Exp"), (-0.0, 6, "Exp")],
)
def test_clip_between(low: float, high: float, read: str, dtype: type) -> None:
    found = Rewrite(between(low, high, read=read), {"x": X.astype(dtype)}, MinMaxToClip())
    found.gives("Clip", *([read] if read else []))


def test_clip_of_relu() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Exp(b.Min(b.Relu(x), number(b, x, 2)))

    Rewrite(build, {"x": X}, MinMaxToClip()).gives("Clip", "Exp")


@pytest.mark.parametrize(
    ("low", "high", "dims"),
    [(1, -1, ()), (0, 6, ()), (-6, 0, ()), (-1, 1, (1, 1, 1))],
)
def test_no_clip_between(low: float, high: float, dims: tuple[int, ...]) -> None:
    Rewrite(between(low, high, dims), {"x": X}, MinMaxToClip()).nothing()


def test_other_minima_are_no_clips() -> None:
    Rewrite(lambda b, x, y: b.Min(x, y), INPUTS, MinMaxToClip()).nothing()
    Rewrite(between(-1, 1), {"x": X.astype(np.int32)}, MinMaxToClip()).nothing()


def chosen(low: float, high: float, dims: tuple[int, ...] = ()) -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        dtype = x.dtype.numpy()  # type: ignore[union-attr]
        least, most = (b.const(np.full(dims, bound, dtype)) for bound in (low, high))
        inner = b.Where(b.Less(x, least), least, x)
        return b.Where(b.Greater(x, most), most, inner)

    return build


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", [(-1, 1), (0, 1), (-1, 0)])
def test_clip_where(bounds: tuple[float, float], dtype: type) -> None:
    Rewrite(chosen(*bounds), {"x": X.astype(dtype)}, MinMaxToClip()).gives("Clip")


@pytest.mark.parametrize("bounds", [(1, -1), (1, 1), (-0.0, 1), (-1, -0.0)])
def test_no_clip_where(bounds: tuple[float, float]) -> None:
    Rewrite(chosen(*bounds), {"x": X}, MinMaxToClip()).nothing()


def test_other_choices_are_no_clips() -> None:
    Rewrite(chosen(-1, 1, (1, 1, 1)), {"x": X}, MinMaxToClip()).nothing()
    Rewrite(chosen(-1, 1), {"x": X.astype(np.int32)}, MinMaxToClip()).nothing()
    Rewrite(lambda b, x, y: b.Where(b.Greater(x, y), x, y), INPUTS, MinMaxToClip()).nothing()


def multiple(gamma: float, dims: tuple[int, ...] = (), **alpha: float) -> Build:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        factor = b.const(np.full(dims, gamma, dtype=x.dtype.numpy()))  # type: ignore[union-attr]
        return b.Mul(b.Elu(x, **alpha), factor)

    return build


@pytest.mark.parametrize("alpha", [{}, {"alpha": 0.5}])
@pytest.mark.parametrize("gamma", [0.5, 1, 3])
def test_selu(gamma: float, alpha: dict[str, float]) -> None:
    found = Rewrite(multiple(gamma, **alpha), {"x": X}, Selu(), tolerance=1e-6)
    found.gives("Selu")
    (node,) = found.model.graph
    assert node.attributes["alpha"].as_float() == alpha.get("alpha", 1)


@pytest.mark.parametrize("gamma", [0, -0.5, np.inf, np.nan])
def test_no_selu(gamma: float) -> None:
    Rewrite(multiple(gamma), {"x": X}, Selu()).nothing()


def test_other_products_are_no_selu() -> None:
    Rewrite(multiple(2, (1, 1, 1)), {"x": X}, Selu()).nothing()
    assert not fires(multiple(2), {"x": X.astype(np.float64)}, Selu())
    Rewrite(lambda b, x, y: b.Mul(x, y), INPUTS, Selu()).nothing()

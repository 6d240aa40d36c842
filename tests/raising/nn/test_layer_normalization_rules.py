"""The rules on layer and RMS normalization alone, on small graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from normalization_graphs import CUBE, X, mean_of, scale
from rewriting import Build, Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.layer_normalization import (
    LayerNormalization,
    LayerNormalizationAffine,
    RMSNormalization,
)


def with_epsilon(
    b: GraphBuilder, v: oir.Value, epsilon: float = 0.25, dims: tuple[int, ...] = ()
) -> oir.Value:
    return b.Add(v, b.const(np.full(dims, epsilon, v.dtype.numpy())))  # type: ignore[union-attr]


def inverse(b: GraphBuilder, v: oir.Value) -> oir.Value:
    return b.Reciprocal(b.Sqrt(v))


def variance_of(
    b: GraphBuilder, x: oir.Value, axes: Any = (2,), kind: str = "plain", keepdims: int = 1
) -> oir.Value:
    mean = mean_of(b, x, axes, keepdims)
    if kind == "plain":
        difference = b.Sub(x, mean)
        return mean_of(b, b.Mul(difference, difference), axes, keepdims)
    fast = b.Sub(mean_of(b, b.Mul(x, x), axes, keepdims), b.Mul(mean, mean))
    if kind == "fast":
        return fast  # type: ignore[no-any-return]
    return b.Max(fast, b.scalar_like(0, x)) if kind == "max" else b.Relu(fast)


def centred(b: GraphBuilder, x: oir.Value, axes: Any = (2,), keepdims: int = 1) -> oir.Value:
    return b.Sub(x, mean_of(b, x, axes, keepdims))


def layer(
    b: GraphBuilder, x: oir.Value, axes: Any = (2,), kind: str = "plain", keepdims: int = 1
) -> oir.Value:
    root = b.Sqrt(with_epsilon(b, variance_of(b, x, axes, kind, keepdims)))
    return b.Div(centred(b, x, axes, keepdims), root)


def factor(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return inverse(b, with_epsilon(b, variance_of(b, x)))


LAYER: dict[str, Build] = {
    "divided": layer,
    "a fast variance": lambda b, x: layer(b, x, kind="fast"),
    "not negative": lambda b, x: layer(b, x, kind="max"),
    "rectified": lambda b, x: layer(b, x, kind="relu"),
    "multiplied": lambda b, x: b.Mul(centred(b, x), factor(b, x)),
    "by a quotient": lambda b, x: b.Mul(
        centred(b, x), quotient(b, 1, with_epsilon(b, variance_of(b, x)))
    ),
    "in front": lambda b, x: b.Mul(factor(b, x), centred(b, x)),
    "scaled first": lambda b, x: b.Mul(b.Mul(scale(b), centred(b, x)), factor(b, x)),
    "scaled behind": lambda b, x: b.Mul(factor(b, x), b.Mul(centred(b, x), scale(b, 1, 3))),
    "a scaled root": lambda b, x: b.Mul(b.Mul(factor(b, x), scale(b, 1, 1, 3)), centred(b, x)),
    "a scaled root's other order": lambda b, x: b.Mul(centred(b, x), b.Mul(scale(b), factor(b, x))),
    "scaled by a number": lambda b, x: b.Mul(
        b.Mul(centred(b, x), b.scalar_like(3, x)), factor(b, x)
    ),
    "epsilon in front": lambda b, x: b.Div(
        centred(b, x), b.Sqrt(b.Add(b.scalar_like(0.25, x), variance_of(b, x)))
    ),
    "two axes": lambda b, x: layer(b, x, (1, 2)),
    "two axes from the end": lambda b, x: layer(b, x, (-1, -2)),
    "all axes": lambda b, x: layer(b, x, (0, 1, 2)),
    "all axes lost": lambda b, x: layer(b, x, (0, 1, 2), keepdims=0),
    "a row that lost its axis": lambda b, x: b.reshape(
        layer(b, b.reshape(x, (1, 24)), (1,), keepdims=0), (4, 2, 3)
    ),
    "two axes scaled": lambda b, x: b.Mul(
        b.Mul(centred(b, x, (1, 2)), scale(b, 2, 3)),
        inverse(b, with_epsilon(b, variance_of(b, x, (1, 2)))),
    ),
}
AXES = {"two axes": -2, "all axes": -3}


def epsilon_of(found: Rewrite, op_type: str) -> float:
    (node,) = (n for n in found.model.graph if n.op_type == op_type)
    return node.attributes["epsilon"].as_float()


@pytest.mark.parametrize("name", LAYER)
def test_layer_normalization(name: str) -> None:
    found = Rewrite(LAYER[name], {"x": X}, LayerNormalization(), tolerance=1e-6)
    assert set(found.nodes) <= {"LayerNormalization", "Reshape"}  # of a constant
    (node,) = (n for n in found.model.graph if n.op_type == "LayerNormalization")
    axis = next((axis for start, axis in AXES.items() if name.startswith(start)), -1)
    assert node.attributes["axis"].as_int() == axis
    assert node.attributes["epsilon"].as_float() == 0.25


def of_another(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    """The variance of y around its own mean."""
    return b.Div(centred(b, x), b.Sqrt(with_epsilon(b, variance_of(b, y))))


def around_another(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    difference = b.Sub(x, mean_of(b, y))
    variance = mean_of(b, b.Mul(difference, difference))
    return b.Div(difference, b.Sqrt(with_epsilon(b, variance)))


def by_root(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
    return b.Div(centred(b, x), b.Sqrt(v))


def scaled_by(b: GraphBuilder, x: oir.Value, s: oir.Value) -> oir.Value:
    return b.Mul(b.Mul(centred(b, x), s), factor(b, x))


NO_LAYER: dict[str, Build] = {
    "the variance of another": of_another,
    "around the mean of another": around_another,
    "no epsilon": lambda b, x, y: by_root(b, x, variance_of(b, x)),
    "a computed epsilon": lambda b, x, y: by_root(b, x, b.Add(variance_of(b, x), b.Exp(y))),
    "no variance": lambda b, x, y: by_root(b, x, with_epsilon(b, mean_of(b, b.Abs(x)))),
    "an operand": lambda b, x, y: by_root(b, x, y),
    "no root": lambda b, x, y: b.Div(centred(b, x), with_epsilon(b, variance_of(b, x))),
    "a variance over other axes": lambda b, x, y: by_root(
        b, x, with_epsilon(b, variance_of(b, x, (1, 2)))
    ),
    "not the last axis": lambda b, x, y: layer(b, x, (1,)),
    "an axis between": lambda b, x, y: layer(b, x, (0, 2)),
    "means that lost their axis": lambda b, x, y: layer(b, x, (2,), keepdims=0),
    "a root of more axes": lambda b, x, y: by_root(
        b, x, with_epsilon(b, variance_of(b, x), dims=(1, 1, 1, 1))
    ),
    "roots of columns": lambda b, x, y: by_root(
        b, x, with_epsilon(b, variance_of(b, x), dims=(3, 1, 3))
    ),
    "a scale of rows": lambda b, x, y: scaled_by(b, x, scale(b, 3, 1)),
    "a scale of elements": lambda b, x, y: scaled_by(b, x, scale(b, 3, 3)),
    "a scale of more axes": lambda b, x, y: scaled_by(b, x, scale(b, 2, 1, 1, 3)),
    "nothing centred": lambda b, x, y: b.Div(x, b.Sqrt(with_epsilon(b, variance_of(b, x)))),
    "products": lambda b, x, y: b.Mul(b.Mul(x, y), b.Mul(y, y)),
    "quotients": lambda b, x, y: b.Div(b.Exp(x), y),
    "inverses": lambda b, x, y: b.Mul(x, b.Reciprocal(y)),
    "a mean of others": lambda b, x, y: b.Div(
        b.Sub(x, foreign(mean_of(b, x))), b.Sqrt(with_epsilon(b, variance_of(b, x)))
    ),
}


@pytest.mark.parametrize("name", NO_LAYER)
def test_no_layer_normalization(name: str) -> None:
    assert not fires(NO_LAYER[name], {"x": CUBE, "y": CUBE + 5}, LayerNormalization())


def test_no_layer_normalization_of_doubles_or_integers() -> None:
    assert not fires(layer, {"x": X.astype(np.float64)}, LayerNormalization())
    assert not fires(rms, {"x": X.astype(np.float64)}, RMSNormalization())


# -- RMS -----------------------------------------------------------------------------------------


def squares(b: GraphBuilder, x: oir.Value, axes: Any = (2,), keepdims: int = 1) -> oir.Value:
    return with_epsilon(b, mean_of(b, b.Mul(x, x), axes, keepdims))


def rms(b: GraphBuilder, x: oir.Value, axes: Any = (2,), keepdims: int = 1) -> oir.Value:
    return b.Div(x, b.Sqrt(squares(b, x, axes, keepdims)))


def quotient(b: GraphBuilder, number: float, v: oir.Value) -> oir.Value:
    """As Keras' Gemma divides by a root."""
    return b.Div(b.scalar_like(number, v), b.Sqrt(v))


RMS: dict[str, Build] = {
    "divided": rms,
    "multiplied": lambda b, x: b.Mul(inverse(b, squares(b, x)), x),
    "scaled first": lambda b, x: b.Mul(b.Mul(scale(b), x), inverse(b, squares(b, x))),
    "a scaled root": lambda b, x: b.Mul(x, b.Mul(scale(b), inverse(b, squares(b, x)))),
    "by a quotient": lambda b, x: b.Mul(x, quotient(b, 1, squares(b, x))),
    "scaled by a quotient": lambda b, x: b.Mul(x, b.Mul(quotient(b, 1, squares(b, x)), scale(b))),
    "twice the inverse root": lambda b, x: b.Mul(x, quotient(b, 2, squares(b, x))),
    "a scaled dividend": lambda b, x: b.Div(b.Mul(scale(b), x), b.Sqrt(squares(b, x))),
    "a scale by the root": lambda b, x: b.Mul(x, b.Div(scale(b), b.Sqrt(squares(b, x)))),
    "two axes": lambda b, x: rms(b, x, (-2, -1)),
    "all axes lost": lambda b, x: rms(b, x, (0, 1, 2), 0),
}


@pytest.mark.parametrize("name", RMS)
def test_rms_normalization(name: str) -> None:
    found = Rewrite(RMS[name], {"x": X}, RMSNormalization(), tolerance=1e-6)
    found.gives("RMSNormalization")
    (node,) = found.model.graph
    axis = next((axis for start, axis in AXES.items() if name.startswith(start)), -1)
    assert node.attributes["axis"].as_int() == axis
    assert node.attributes["epsilon"].as_float() == 0.25


def computed_axes(b: GraphBuilder, x: oir.Value, axes: oir.Value) -> oir.Value:
    types = [(oir.DataType.FLOAT, (3, 3, 1))]
    mean = b.op("ReduceMean", b.Mul(x, x), axes, keepdims=1, types=types)
    return b.Div(x, b.Sqrt(with_epsilon(b, mean)))


NO_RMS: dict[str, Build] = {
    "of another": lambda b, x, y: b.Div(x, b.Sqrt(squares(b, y))),
    "no squares": lambda b, x, y: b.Div(x, b.Sqrt(with_epsilon(b, mean_of(b, b.Abs(x))))),
    "no mean": lambda b, x, y: b.Div(x, b.Sqrt(with_epsilon(b, b.Mul(x, x)))),
    "no epsilon": lambda b, x, y: b.Div(x, b.Sqrt(mean_of(b, b.Mul(x, x)))),
    "not the last axis": lambda b, x, y: rms(b, x, (1,)),
    "means that lost their axis": lambda b, x, y: rms(b, x, (2,), 0),
    "a quotient": lambda b, x, y: b.Div(x, y),
    "scaled by elements": lambda b, x, y: b.Div(b.Mul(x, y), b.Sqrt(squares(b, x))),
    "elements by the root": lambda b, x, y: b.Mul(x, b.Div(y, b.Sqrt(squares(b, x)))),
    "the square of what is scaled": lambda b, x, y: b.Div(
        (z := b.Mul(x, scale(b))), b.Sqrt(squares(b, b.Neg(z)))
    ),
}


@pytest.mark.parametrize("name", NO_RMS)
def test_no_rms_normalization(name: str) -> None:
    assert not fires(NO_RMS[name], {"x": CUBE, "y": CUBE + 5}, RMSNormalization())


def test_axes_that_are_computed_and_opsets_without_it() -> None:
    inputs = {"x": CUBE, "axes": np.array([2])}
    assert not fires(computed_axes, inputs, RMSNormalization())
    assert not fires(rms, {"x": CUBE}, RMSNormalization(), opset=22)


# -- parameters ----------------------------------------------------------------------------------


def normal(
    b: GraphBuilder, x: oir.Value, kind: str = "Layer", number: float = 1, **inputs: oir.Value
) -> oir.Value:
    ones = inputs.get("scale", b.const(np.full(3, number, np.float32)))
    rest = [inputs["bias"]] if "bias" in inputs else []
    return b.op(f"{kind}Normalization", x, ones, *rest, axis=-1, epsilon=0.25)


PARAMETERS: dict[str, Build] = {
    "a scale": lambda b, x: b.Mul(normal(b, x), scale(b)),
    "a scale in front": lambda b, x: b.Mul(scale(b, 1, 3), normal(b, x)),
    "a computed scale": lambda b, x: b.Mul(normal(b, x), b.ReduceMax(x, b.i64([0, 1]), keepdims=0)),
    "a number": lambda b, x: b.Mul(normal(b, x), b.scalar_like(3, x)),
    "a bias": lambda b, x: b.Add(normal(b, x), scale(b)),
    "a bias of a scale": lambda b, x: b.Add(scale(b), normal(b, x, number=2)),
    "a scale of RMS": lambda b, x: b.Mul(normal(b, x, "RMS"), scale(b)),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name: str) -> None:
    found = Rewrite(PARAMETERS[name], {"x": X}, LayerNormalizationAffine(), tolerance=1e-6)
    assert found.fired and not found.nodes["Mul"] and not found.nodes["Add"]
    assert epsilon_of(found, "RMSNormalization" if "RMS" in name else "LayerNormalization") == 0.25


def read_twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = normal(b, x)
    return [b.Mul(y, scale(b)), b.Neg(y)]


def result_too(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = normal(b, x)
    return [b.Mul(y, scale(b)), y]


NO_PARAMETERS: dict[str, Build] = {
    "read twice": read_twice,
    "a result too": result_too,
    "a scale already": lambda b, x: b.Mul(normal(b, x, number=2), scale(b)),
    "a computed scale already": lambda b, x: b.Mul(
        normal(b, x, scale=b.ReduceMax(x, b.i64([0, 1]), keepdims=0)), scale(b)
    ),
    "a bias already": lambda b, x: b.Add(normal(b, x, bias=scale(b)), scale(b)),
    "a bias of RMS": lambda b, x: b.Add(normal(b, x, "RMS"), scale(b)),
    "a scale of rows": lambda b, x: b.Mul(normal(b, x), scale(b, 3, 1)),
    "nothing normalized": lambda b, x: b.Mul(b.Exp(x), scale(b)),
    "an operand": lambda b, x: b.Mul(x, scale(b)),
}


@pytest.mark.parametrize("name", NO_PARAMETERS)
def test_no_parameters(name: str) -> None:
    Rewrite(NO_PARAMETERS[name], {"x": CUBE}, LayerNormalizationAffine()).nothing()

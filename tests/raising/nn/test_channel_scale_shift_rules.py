"""Scales and shifts of channels on small graphs: where each rule fires and where not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import AffineToBatchNormalization
from hlo2onnx.raising.rules.nn.channel_normalization import InstanceNormalizationAffine

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (2, 6, 4, 6)).astype(np.float32)
W = RNG.normal(size=(6, 6, 1, 1)).astype(np.float32)
S, B, M = RNG.uniform(0.5, 2, (3, 1, 6, 1, 1)).astype(np.float32)
IMAGE = {"x": X}


def conv(b: GraphBuilder, x: oir.Value, w: np.ndarray = W) -> oir.Value:
    return b.Conv(x, b.const(w))


# -- parameters of an instance normalization -----------------------------------------------------


def instance(b: GraphBuilder, x: oir.Value, scale: float = 1, shift: float = 0) -> oir.Value:
    parameters = (b.const(np.full(6, number, np.float32)) for number in (scale, shift))
    return b.InstanceNormalization(x, *parameters, epsilon=0.25)


TAKEN: dict[str, Build] = {
    "a scale": lambda b, x: b.Mul(instance(b, x), b.const(S)),
    "a scale in front": lambda b, x: b.Mul(b.const(S[0]), instance(b, x)),
    "a shift": lambda b, x: b.Add(instance(b, x), b.const(B)),
    "a shift in front": lambda b, x: b.Add(b.const(B[0]), instance(b, x)),
    "a shift of what is scaled": lambda b, x: b.Add(instance(b, x, scale=3), b.const(B)),
    "a computed shift": lambda b, x: b.Add(
        instance(b, x),
        b.reshape(b.ReduceMax(x, b.i64([0, 2, 3]), keepdims=0), (1, 6, 1, 1)),
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_instance_parameters(name: str) -> None:
    found = Rewrite(TAKEN[name], IMAGE, InstanceNormalizationAffine(), tolerance=1e-6)
    assert found.fired and not found.nodes["Add"] and not found.nodes["Mul"]
    (node,) = (n for n in found.model.graph if n.op_type == "InstanceNormalization")
    assert node.attributes["epsilon"].as_float() == 0.25


def read_twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = instance(b, x)
    return [b.Mul(y, b.const(S)), b.Neg(y)]


def result_too(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = instance(b, x)
    return [b.Mul(y, b.const(S)), y]


KEPT: dict[str, Build] = {
    "others read it": read_twice,
    "a result too": result_too,
    "a scale already": lambda b, x: b.Mul(instance(b, x, scale=2), b.const(S)),
    "a shift already": lambda b, x: b.Add(instance(b, x, shift=2), b.const(B)),
    "a shift before the scale": lambda b, x: b.Mul(instance(b, x, shift=2), b.const(S)),
    "one number": lambda b, x: b.Mul(instance(b, x), b.const(S[:, :1])),
    "a number a column": lambda b, x: b.Mul(instance(b, x), b.const(S.reshape(6))),
    "more axes": lambda b, x: b.Mul(instance(b, x), b.const(S[None])),
    "nothing normalized": lambda b, x: b.Mul(b.Exp(x), b.const(S)),
    "nothing computed": lambda b, x: b.Mul(x, b.const(S)),
    "several numbers a channel": lambda b, x: b.Mul(instance(b, x), b.Abs(x)),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_parameters(name: str) -> None:
    Rewrite(KEPT[name], IMAGE, InstanceNormalizationAffine()).nothing()


# -- scales and shifts between convolutions -------------------------------------------------------


def bent(b: GraphBuilder, x: oir.Value, times: int = 1) -> oir.Value:
    """A convolution that takes nothing in any more."""
    x = conv(b, x)
    for _ in range(times):
        x = b.Tanh(x)
    return x


def affine(b: GraphBuilder, x: oir.Value, mean: np.ndarray | None = None) -> oir.Value:
    centred = x if mean is None else b.Sub(x, b.const(mean))
    return b.Relu(b.Add(b.Mul(centred, b.const(S)), b.const(B)))


def of_two(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return affine(b, b.Add(b.Abs(x), bent(b, x)))


AFFINE: dict[str, Build] = {
    "behind a convolution": lambda b, x: affine(b, bent(b, x)),
    "three steps behind": lambda b, x: affine(b, bent(b, x, 3)),
    "the convolution itself": lambda b, x: affine(b, conv(b, x)),
    "centred": lambda b, x: affine(b, bent(b, x), M),
    "behind a sum": of_two,
    "in front": lambda b, x: b.Relu(b.Add(b.const(B[0]), b.Mul(b.const(S[0]), bent(b, x)))),
    "centred by a computed mean": lambda b, x: b.Relu(
        b.Add(b.Mul(b.Sub(bent(b, x), b.Exp(x)), b.const(S)), b.const(B))
    ),
    "a box": lambda b, x: affine(b, b.Tanh(conv(b, x, np.ones_like(W)))),
}


@pytest.mark.parametrize("name", AFFINE)
def test_channels_affine(name: str) -> None:
    found = Rewrite(AFFINE[name], IMAGE, AffineToBatchNormalization(), tolerance=2e-6)
    assert found.nodes["BatchNormalization"] == 1 and not found.nodes["Mul"]


def twice_read(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    scaled = b.Mul(bent(b, x), b.const(S))
    return [b.Relu(b.Add(scaled, b.const(B))), scaled]


def normalized(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return affine(b, b.Tanh(instance(b, conv(b, x))))


NOT_AFFINE: dict[str, Build] = {
    "four steps behind": lambda b, x: affine(b, bent(b, x, 4)),
    "no convolution": lambda b, x: affine(b, b.Tanh(x)),
    "no operator": affine,
    "an operand left out": lambda b, x: affine(b, b.Clip(x, None, b.scalar_like(6, x))),
    "normalized since": normalized,
    "read as a result": twice_read,
    "a result": lambda b, x: b.Add(b.Mul(bent(b, x), b.const(S)), b.const(B)),
    "a box that is centred": lambda b, x: affine(b, b.Tanh(conv(b, x, np.ones_like(W))), M),
    "a computed scale": lambda b, x: b.Relu(b.Add(b.Mul(bent(b, x), b.Exp(x)), b.const(B))),
    "a computed shift": lambda b, x: b.Relu(b.Add(b.Mul(bent(b, x), b.const(S)), b.Exp(x))),
    "a number a column": lambda b, x: b.Relu(
        b.Add(b.Mul(bent(b, x), b.const(S.reshape(6))), b.const(B))
    ),
    "a shift of columns": lambda b, x: b.Relu(
        b.Add(b.Mul(bent(b, x), b.const(S)), b.const(B.reshape(6)))
    ),
    "one number": lambda b, x: b.Relu(b.Add(b.Mul(bent(b, x), b.const(S)), b.const(B[:, :1]))),
    "of matrices": lambda b, x: b.Relu(
        b.Add(
            b.Mul(b.reshape(bent(b, x), (48, 6)), b.const(S.reshape(6))), b.const(B.reshape(1, 6))
        )
    ),
    "not scaled": lambda b, x: b.Relu(b.Add(bent(b, x), b.const(B))),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_no_channels_affine(name: str) -> None:
    Rewrite(NOT_AFFINE[name], IMAGE, AffineToBatchNormalization()).nothing()


def test_convolutions_of_others_are_unknown() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return affine(b, b.Tanh(foreign(conv(b, x))))

    assert not fires(build, IMAGE, AffineToBatchNormalization())
    doubles = {"x": X.astype(np.float64)}

    def of_doubles(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.Tanh(b.Conv(x, b.const(W.astype(np.float64))))
        scale, shift = b.const(S.astype(np.float64)), b.const(B.astype(np.float64))
        return b.Relu(b.Add(b.Mul(y, scale), shift))

    assert not fires(of_doubles, doubles, AffineToBatchNormalization())

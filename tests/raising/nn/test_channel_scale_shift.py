"""Scales and shifts of channels: in the convolution before them, or in an operator of their own."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign
from verified import operators

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import AffineToBatchNormalization
from hlo2onnx.raising.rules.nn.channel_normalization import InstanceNormalizationAffine
from hlo2onnx.raising.rules.nn.fold_into_conv import FoldBiasIntoConv, FoldScaleIntoConv

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (2, 6, 6, 8)).astype(np.float32)
W = (RNG.normal(size=(3, 3, 8, 8)) / 9).astype(np.float32)
M, V, S, B = (np.abs(RNG.normal(size=(4, 8))) + 0.5).astype(np.float32)
CHANNELS = np.ascontiguousarray(np.moveaxis(X, -1, 1))


def conv(x: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x, W, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("divides", [False, True])
def test_into_a_transposed_convolution(groups: int, divides: bool) -> None:
    scale, shift = RNG.uniform(0.5, 2, (2, 1, 6, 1, 1)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        weights = b.const(RNG.normal(size=(8, 6 // groups, 3, 2)).astype(np.float32))
        bias = b.const(RNG.normal(size=6).astype(np.float32))
        y = b.ConvTranspose(x, weights, bias, strides=(2, 1), group=groups)
        y = (b.Div if divides else b.Mul)(y, b.const(scale))
        return b.Neg(b.Add(y, b.const(shift)))

    rules = FoldScaleIntoConv(), FoldBiasIntoConv()
    Rewrite(build, {"x": CHANNELS}, *rules, tolerance=1e-5).gives("ConvTranspose", "Neg")


@pytest.mark.wide
def test_upsampling_layers_keep_their_bias() -> None:
    layer = nn.Sequential([nn.ConvTranspose(4, (4, 4), (2, 2)), nn.relu])
    parameters = jax.tree.map(lambda p: p + 0.5, layer.init(jax.random.key(0), X))
    found = operators(lambda x: layer.apply(parameters, x), X)
    assert found.count("ConvTranspose") == 1 and "Add" not in found


def frozen(x: jax.Array) -> jax.Array:
    """flax's BatchNorm."""
    return (x - M) * (jax.lax.rsqrt(V + 1e-5) * S) + B


def folded(x: jax.Array) -> jax.Array:
    """Keras' BatchNormalization, after its constants are folded."""
    return x * S + B


@pytest.mark.parametrize("normalize", [frozen, folded])
def test_before_a_convolution(normalize: Callable[[jax.Array], jax.Array]) -> None:
    """As in residual networks that activate first: nothing before it takes it in."""

    def model(x: jax.Array) -> jax.Array:
        y = conv(x)
        return y + conv(jax.nn.relu(normalize(y)))

    found = operators(model, X)
    assert found == sorted(
        ["Add", "BatchNormalization", "Conv", "Conv", "Relu"] + ["Transpose"] * 2
    )


@pytest.mark.wide
def test_parameters_of_instance_normalization() -> None:
    layer = nn.InstanceNorm()
    parameters = {"params": {"scale": S, "bias": B}}
    found = operators(lambda x: conv(layer.apply(parameters, conv(x))), X)
    assert found == sorted(["Conv", "InstanceNormalization", "Conv"] + ["Transpose"] * 2)


IMAGES = RNG.normal(1, 2, (2, 6, 4, 6)).astype(np.float32)
KERNEL = RNG.normal(size=(6, 6, 1, 1)).astype(np.float32)
BOX = np.ones_like(KERNEL)
SCALE, SHIFT, MEAN = RNG.uniform(0.5, 2, (3, 1, 6, 1, 1)).astype(np.float32)
IMAGE = {"x": IMAGES}


def convolved(b: GraphBuilder, x: oir.Value, w: np.ndarray = KERNEL) -> oir.Value:
    return b.Conv(x, b.const(w))


# -- parameters of an instance normalization -----------------------------------------------------


def instance(b: GraphBuilder, x: oir.Value, scale: float = 1, shift: float = 0) -> oir.Value:
    parameters = (b.const(np.full(6, number, np.float32)) for number in (scale, shift))
    return b.InstanceNormalization(x, *parameters, epsilon=0.25)


TAKEN: dict[str, Build] = {
    "a scale": lambda b, x: b.Mul(instance(b, x), b.const(SCALE)),
    "a scale in front": lambda b, x: b.Mul(b.const(SCALE[0]), instance(b, x)),
    "a shift": lambda b, x: b.Add(instance(b, x), b.const(SHIFT)),
    "a shift in front": lambda b, x: b.Add(b.const(SHIFT[0]), instance(b, x)),
    "a shift of what is scaled": lambda b, x: b.Add(instance(b, x, scale=3), b.const(SHIFT)),
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
    return [b.Mul(y, b.const(SCALE)), b.Neg(y)]


def result_too(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    y = instance(b, x)
    return [b.Mul(y, b.const(SCALE)), y]


KEPT: dict[str, Build] = {
    "others read it": read_twice,
    "a result too": result_too,
    "a scale already": lambda b, x: b.Mul(instance(b, x, scale=2), b.const(SCALE)),
    "a shift already": lambda b, x: b.Add(instance(b, x, shift=2), b.const(SHIFT)),
    "a shift before the scale": lambda b, x: b.Mul(instance(b, x, shift=2), b.const(SCALE)),
    "one number": lambda b, x: b.Mul(instance(b, x), b.const(SCALE[:, :1])),
    "a number a column": lambda b, x: b.Mul(instance(b, x), b.const(SCALE.reshape(6))),
    "more axes": lambda b, x: b.Mul(instance(b, x), b.const(SCALE[None])),
    "nothing normalized": lambda b, x: b.Mul(b.Exp(x), b.const(SCALE)),
    "nothing computed": lambda b, x: b.Mul(x, b.const(SCALE)),
    "several numbers a channel": lambda b, x: b.Mul(instance(b, x), b.Abs(x)),
}


@pytest.mark.parametrize("name", KEPT)
def test_other_parameters(name: str) -> None:
    Rewrite(KEPT[name], IMAGE, InstanceNormalizationAffine()).nothing()


# -- scales and shifts between convolutions -------------------------------------------------------


def bent(b: GraphBuilder, x: oir.Value, times: int = 1) -> oir.Value:
    """A convolution that takes nothing in any more."""
    x = convolved(b, x)
    for _ in range(times):
        x = b.Tanh(x)
    return x


def affine(b: GraphBuilder, x: oir.Value, mean: np.ndarray | None = None) -> oir.Value:
    centred = x if mean is None else b.Sub(x, b.const(mean))
    return b.Relu(b.Add(b.Mul(centred, b.const(SCALE)), b.const(SHIFT)))


def of_two(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return affine(b, b.Add(b.Abs(x), bent(b, x)))


AFFINE: dict[str, Build] = {
    "behind a convolution": lambda b, x: affine(b, bent(b, x)),
    "three steps behind": lambda b, x: affine(b, bent(b, x, 3)),
    "the convolution itself": lambda b, x: affine(b, convolved(b, x)),
    "centred": lambda b, x: affine(b, bent(b, x), MEAN),
    "behind a sum": of_two,
    "in front": lambda b, x: b.Relu(b.Add(b.const(SHIFT[0]), b.Mul(b.const(SCALE[0]), bent(b, x)))),
    "centred by a computed mean": lambda b, x: b.Relu(
        b.Add(b.Mul(b.Sub(bent(b, x), b.Exp(x)), b.const(SCALE)), b.const(SHIFT))
    ),
    "a box": lambda b, x: affine(b, b.Tanh(convolved(b, x, BOX))),
}


@pytest.mark.parametrize("name", AFFINE)
def test_channels_affine(name: str) -> None:
    found = Rewrite(AFFINE[name], IMAGE, AffineToBatchNormalization(), tolerance=2e-6)
    assert found.nodes["BatchNormalization"] == 1 and not found.nodes["Mul"]


def twice_read(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    scaled = b.Mul(bent(b, x), b.const(SCALE))
    return [b.Relu(b.Add(scaled, b.const(SHIFT))), scaled]


def normalized(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return affine(b, b.Tanh(instance(b, convolved(b, x))))


NOT_AFFINE: dict[str, Build] = {
    "four steps behind": lambda b, x: affine(b, bent(b, x, 4)),
    "no convolution": lambda b, x: affine(b, b.Tanh(x)),
    "no operator": affine,
    "an operand left out": lambda b, x: affine(b, b.Clip(x, None, b.scalar_like(6, x))),
    "normalized since": normalized,
    "read as a result": twice_read,
    "a result": lambda b, x: b.Add(b.Mul(bent(b, x), b.const(SCALE)), b.const(SHIFT)),
    "a box that is centred": lambda b, x: affine(b, b.Tanh(convolved(b, x, BOX)), MEAN),
    "a computed scale": lambda b, x: b.Relu(b.Add(b.Mul(bent(b, x), b.Exp(x)), b.const(SHIFT))),
    "a computed shift": lambda b, x: b.Relu(b.Add(b.Mul(bent(b, x), b.const(SCALE)), b.Exp(x))),
    "a number a column": lambda b, x: b.Relu(
        b.Add(b.Mul(bent(b, x), b.const(SCALE.reshape(6))), b.const(SHIFT))
    ),
    "a shift of columns": lambda b, x: b.Relu(
        b.Add(b.Mul(bent(b, x), b.const(SCALE)), b.const(SHIFT.reshape(6)))
    ),
    "one number": lambda b, x: b.Relu(
        b.Add(b.Mul(bent(b, x), b.const(SCALE)), b.const(SHIFT[:, :1]))
    ),
    "of matrices": lambda b, x: b.Relu(
        b.Add(
            b.Mul(b.reshape(bent(b, x), (48, 6)), b.const(SCALE.reshape(6))),
            b.const(SHIFT.reshape(1, 6)),
        )
    ),
    "not scaled": lambda b, x: b.Relu(b.Add(bent(b, x), b.const(SHIFT))),
}


@pytest.mark.parametrize("name", NOT_AFFINE)
def test_no_channels_affine(name: str) -> None:
    Rewrite(NOT_AFFINE[name], IMAGE, AffineToBatchNormalization()).nothing()


def test_convolutions_of_others_are_unknown() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return affine(b, b.Tanh(foreign(convolved(b, x))))

    assert not fires(build, IMAGE, AffineToBatchNormalization())
    doubles = {"x": IMAGES.astype(np.float64)}

    def of_doubles(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.Tanh(b.Conv(x, b.const(KERNEL.astype(np.float64))))
        scale, shift = b.const(SCALE.astype(np.float64)), b.const(SHIFT.astype(np.float64))
        return b.Relu(b.Add(b.Mul(y, scale), shift))

    assert not fires(of_doubles, doubles, AffineToBatchNormalization())

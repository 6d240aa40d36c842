"""Scales and shifts of channels: in the convolution before them, or in an operator of their own."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
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


NOT_OF_CHANNELS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "no convolution before it": lambda x: conv(jnp.tanh(x) * S + B),
    "one number for all": lambda x: conv(jnp.tanh(conv(x)) * 2 + 1),
    "one number a place": lambda x: conv(jnp.tanh(conv(x)) * X[:1, :, :, :1] + X[:1, :1, :, :1]),
    "nothing behind it": lambda x: jnp.moveaxis(jnp.tanh(conv(x)) * S + B, -1, 1),
    "a computed shift": lambda x: conv(jnp.tanh(conv(x)) * S + x.mean((0, 1, 2))),
}


@pytest.mark.parametrize("name", NOT_OF_CHANNELS)
def test_no_batch_normalization(name: str) -> None:
    assert "BatchNormalization" not in operators(NOT_OF_CHANNELS[name], X)


def test_scaled_values_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        y = b.Conv(x, b.const(np.moveaxis(W, (2, 3), (1, 0))), pads=(1, 1, 1, 1))
        scaled = b.Mul(b.Tanh(y), b.const(S.reshape(1, 8, 1, 1)))
        return [b.Neg(scaled), b.Relu(b.Add(scaled, b.const(B.reshape(1, 8, 1, 1))))]

    Rewrite(build, {"x": CHANNELS}, AffineToBatchNormalization()).nothing()


@pytest.mark.wide
def test_parameters_of_instance_normalization() -> None:
    layer = nn.InstanceNorm()
    parameters = {"params": {"scale": S, "bias": B}}
    found = operators(lambda x: conv(layer.apply(parameters, conv(x))), X)
    assert found == sorted(["Conv", "InstanceNormalization", "Conv"] + ["Transpose"] * 2)


def test_computed_parameters_of_instance_normalization() -> None:
    def build(b: GraphBuilder, x: oir.Value, s: oir.Value) -> oir.Value:
        ones = b.const(np.ones(8, np.float32))
        y = b.InstanceNormalization(x, ones, b.const(np.zeros(8, np.float32)), epsilon=1e-5)
        return b.Neg(b.Mul(y, b.reshape(s, (1, 8, 1, 1))))

    result = Rewrite(build, {"x": CHANNELS, "s": S}, InstanceNormalizationAffine(), tolerance=1e-5)
    result.gives("InstanceNormalization", "Neg")


@pytest.mark.parametrize("shape", [(2, 8, 1, 1), (1, 8, 8, 1), (8, 1)])
def test_parameters_that_are_not_of_channels(shape: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        ones = b.const(np.ones(8, np.float32))
        y = b.InstanceNormalization(x, ones, b.const(np.zeros(8, np.float32)), epsilon=1e-5)
        return b.Neg(b.Mul(y, b.const(np.ones(shape, np.float32))))

    x = RNG.normal(size=(2, 8, 8, 6)).astype(np.float32)
    Rewrite(build, {"x": x}, InstanceNormalizationAffine()).nothing()


def test_instance_parameters_are_taken_once() -> None:
    """What has a bias takes no scale any more."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale, bias = (b.const(p.reshape(1, 8, 1, 1)) for p in (S, B))
        ones, zeros = b.const(np.ones(8, np.float32)), b.const(np.zeros(8, np.float32))
        y = b.InstanceNormalization(x, ones, zeros, epsilon=1e-5)
        return b.Neg(b.Mul(b.Add(b.Mul(y, scale), bias), scale))

    result = Rewrite(build, {"x": CHANNELS}, InstanceNormalizationAffine(), tolerance=1e-5)
    result.gives("Reshape", "Reshape", "InstanceNormalization", "Mul", "Neg")

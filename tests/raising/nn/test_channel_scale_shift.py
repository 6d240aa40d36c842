"""Scales and shifts of channels: in the convolution before them, or in an operator of their own."""

from __future__ import annotations

import flax.linen as nn
import jax
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from verified import operators

from hlo2onnx.ir.builder import GraphBuilder
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

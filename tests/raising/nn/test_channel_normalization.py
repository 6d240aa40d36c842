"""Batch, group and instance normalization of programs in flax's, Keras' and haiku's ways."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from verified import operators

import hlo2onnx

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (2, 8, 8, 12)).astype(np.float32)
V = [np.abs(RNG.normal(size=12)).astype(np.float32) + 0.5 for _ in range(4)]


def second(x: jax.Array) -> jax.Array:
    return jnp.moveaxis(x, -1, 1)


def batch_norm(x: jax.Array, m: Any, v: Any, s: Any, b: Any) -> jax.Array:
    """As flax computes it, with the channels second."""
    m, v, s, b = (item.reshape(1, -1, 1, 1) for item in (m, v, s, b))
    return (x - m) * (jax.lax.rsqrt(v + 1e-5) * s) + b


def test_batch_normalization_of_computed_statistics() -> None:
    images = np.ascontiguousarray(np.moveaxis(X, -1, 1))
    w = RNG.normal(size=(12, 12, 1, 1)).astype(np.float32)

    def model(x: jax.Array, *statistics: Any) -> jax.Array:
        return batch_norm(jax.lax.conv(x, w, (1, 1), "SAME"), *statistics)

    assert operators(model, images, *V) == ["BatchNormalization", "Conv"]
    # Far from 0 the kernel loses digits that x has.
    far = np.float32(3e4)
    assert "Sub" in operators(batch_norm, images + far, V[0] + far, *V[1:])


def keras(x: Any, m: Any, v: Any, s: Any, b: Any) -> Any:
    """The mean is in the shift."""
    factor = jax.lax.rsqrt(v + 1e-3) * s
    return x * factor + (b - m * factor)


def haiku(x: Any, m: Any, v: Any, s: Any, b: Any) -> Any:
    """The statistics have the axes of images."""
    m, v, s, b = (item.reshape(1, 1, 1, -1) for item in (m, v, s, b))
    return (x - m) * (s * jax.lax.rsqrt(v + 1e-5)) + b


@pytest.mark.parametrize("norm", [keras, haiku])
def test_batch_normalization_with_weights_as_inputs(norm: Any) -> None:
    def model(x: jax.Array, w: jax.Array, *statistics: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        return second(jax.nn.relu(norm(y, *statistics)))

    w = RNG.normal(size=(3, 3, 12, 12)).astype(np.float32)
    found = operators(model, X, w, *V)
    assert found == ["BatchNormalization", "Conv", "Max", "Transpose", "Transpose"]


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_group_normalization_with_weights_as_inputs(groups: int) -> None:
    layer = nn.GroupNorm(num_groups=groups)

    def model(x: jax.Array, w: jax.Array, s: jax.Array, b: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        return layer.apply({"params": {"scale": s, "bias": b}}, x)

    w = RNG.normal(size=(1, 1, 12, 12)).astype(np.float32)
    found = operators(model, X, w, *V[:2])
    assert found.count("InstanceNormalization") == 1, found
    assert not {"ReduceMean", "ReduceSum", "Sqrt", "Expand"} & {*found}, found


def test_batch_normalization_of_channels_last() -> None:
    def model(x: jax.Array, m: Any, v: Any, s: Any, b: Any, w: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        y = (y - m) * (jax.lax.rsqrt(v + 1e-5) * s) + b
        return jax.lax.conv_general_dilated(y, w, (1, 1), "SAME", dimension_numbers=dims)

    w = RNG.normal(size=(3, 3, 12, 12)).astype(np.float32)
    found = operators(model, X, *V, w)
    assert found.count("BatchNormalization") == 1
    assert found.count("Transpose") <= 4, "in front, behind, and of the weights"


def test_known_statistics_go_into_the_convolution() -> None:
    def model(x: jax.Array) -> jax.Array:
        w = RNG.normal(size=(12, 12, 3, 3)).astype(np.float32)
        return batch_norm(jax.lax.conv(second(x), w, (1, 1), "SAME"), *V)

    assert operators(model, X) == ["Conv", "Transpose"]


@pytest.mark.wide
@pytest.mark.parametrize("groups", [1, 3, 12])
def test_group_normalization_of_flax(groups: int) -> None:
    layer = nn.GroupNorm(num_groups=groups)
    parameters = layer.init(jax.random.key(0), X)
    parameters = jax.tree.map(lambda x: x + np.arange(x.size, dtype=x.dtype), parameters)

    w = RNG.normal(size=(1, 1, 12, 12)).astype(np.float32)

    def model(x: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        return second(layer.apply(parameters, y))

    found = operators(model, X)
    assert found.count("InstanceNormalization") == 1 and "ReduceMean" not in found, found


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("groups", [2, 3])
def test_group_normalization_of_keras(batch: int, groups: int) -> None:
    """Its groups are axes of what is normalized, and the mean goes into the bias."""
    scale, bias, w = V[0], V[1], RNG.normal(size=(1, 1, 12, 12)).astype(np.float32)

    def model(x: jax.Array) -> jax.Array:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=dims)
        y = y.reshape(batch, 8, 8, groups, 12 // groups)
        mean, variance = (f(y, axis=(1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
        factor = jax.lax.rsqrt(variance + 1e-3) * scale.reshape(1, 1, 1, groups, -1)
        y = y * factor + (-mean * factor + bias.reshape(1, 1, 1, groups, -1))
        y = y.reshape(batch, 8, 8, 12)
        return jax.lax.conv_general_dilated(y, w, (1, 1), "SAME", dimension_numbers=dims)

    found = operators(model, X[:batch])
    assert found.count("InstanceNormalization") == 1 and "ReduceMean" not in found, found


def test_symbolic_channels_are_no_channels() -> None:
    """Images of a film, normalized one by one."""

    def model(x: jax.Array) -> jax.Array:
        y = x - x.mean((2, 3), keepdims=True)
        return y * jax.lax.rsqrt((y**2).mean((2, 3), keepdims=True) + 1e-5)

    dims = jax.export.symbolic_shape("2, t, 4, 4")
    exported = jax.export.export(jax.jit(model))(jax.ShapeDtypeStruct(dims, np.float32))
    program = hlo2onnx.translate(exported)
    assert program.verify(RNG.normal(size=(2, 3, 4, 4)).astype(np.float32)).ok

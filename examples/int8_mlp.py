"""A multilayer perceptron in int8: quantized by hand, with products in 32-bit integers.

Weights are bytes with a scale for each output, activations are bytes with one scale. The sequence
divide, round, clip, convert becomes QuantizeLinear, and the products become MatMulInteger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Layer = dict[str, jax.Array]


def quantize(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Round x / scale to a signed byte."""
    return jnp.clip(jnp.round(x / scale), -128, 127).astype(jnp.int8)


def dense(layer: Layer, x: jax.Array) -> jax.Array:
    """Multiply bytes, and convert the sums back to floats."""
    stored = quantize(x, layer["input_scale"])
    total = jax.lax.dot_general(
        stored, layer["kernel"], (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32
    )
    return total.astype(jnp.float32) * (layer["input_scale"] * layer["scale"]) + layer["bias"]


def predict(layers: Sequence[Layer], x: jax.Array) -> jax.Array:
    """Return the probabilities of the classes."""
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(layer, x))
    return jax.nn.softmax(dense(layers[-1], x))


def build(
    width: int = 256, inputs: int = 784, classes: int = 10, batch: int = 8
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the network, its quantized layers and a batch of inputs."""
    rng = np.random.default_rng(0)
    layers = []
    sizes = (inputs, width, width, classes)
    for fan_in, fan_out in itertools.pairwise(sizes):
        kernel = rng.normal(0, fan_in**-0.5, (fan_in, fan_out))
        scale = np.abs(kernel).max(0) / 127
        layers.append(
            {
                "kernel": jnp.asarray(np.rint(kernel / scale), jnp.int8),
                "scale": jnp.asarray(scale, jnp.float32),
                "input_scale": jnp.float32(0.031),
                "bias": jnp.asarray(rng.normal(0, 0.1, fan_out), jnp.float32),
            }
        )
    return predict, (layers, jnp.asarray(rng.normal(size=(batch, inputs)), jnp.float32))


EXAMPLE = Example(
    name="int8_mlp",
    summary="Multilayer perceptron with products of signed bytes, quantized by hand",
    build=build,
    small={"width": 16, "inputs": 24, "classes": 5, "batch": 3},
    dynamic={1: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

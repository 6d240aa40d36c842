"""Programs that are timed only: a training step, draws of random numbers, a nearest neighbours'
search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

CLASSES = 10


def training_step(
    size: int = 28, batch: int = 32, rate: float = 0.05, momentum: float = 0.9
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A step of gradient descent with momentum of a CNN; the state goes in and comes out."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, np.prod(shape[:-1]) ** -0.5, shape), jnp.float32)

    params = {
        "conv_1": normal(3, 3, 1, 32),
        "conv_2": normal(3, 3, 32, 64),
        "dense": normal((size // 4) ** 2 * 64, 128),
        "head": normal(128, CLASSES),
    }

    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=form)
        return nn.avg_pool(nn.relu(x), (2, 2), strides=(2, 2))

    def loss(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        x = convolved(convolved(images, params["conv_1"]), params["conv_2"])
        x = nn.relu(x.reshape(batch, -1) @ params["dense"]) @ params["head"]
        chosen = jnp.take_along_axis(nn.log_softmax(x), labels[:, None], axis=1)
        return -chosen.mean()

    def step(params: Any, speed: Any, images: jax.Array, labels: jax.Array) -> Any:
        value, slope = jax.value_and_grad(loss)(params, images, labels)
        speed = jax.tree.map(lambda v, g: momentum * v - rate * g, speed, slope)
        return value, jax.tree.map(jnp.add, params, speed), speed

    speed = jax.tree.map(lambda leaf: normal(*leaf.shape) * 0.01, params)
    images = jnp.asarray(rng.normal(size=(batch, size, size, 1)), jnp.float32)
    return step, (params, speed, images, jnp.asarray(rng.integers(0, CLASSES, batch), jnp.int32))


def draws(
    count: int = 20, batch: int = 8, classes: int = 1000, size: int = 64
) -> tuple[Callable[..., Any], tuple[jax.Array, jax.Array]]:
    """Categorical draws, each with a key of its own (threefry), and an image of normals."""

    def draw(key: jax.Array, logits: jax.Array) -> tuple[jax.Array, jax.Array]:
        *keys, last = jax.random.split(key, count + 1)
        drawn = jnp.stack([jax.random.categorical(key, logits) for key in keys])
        return drawn, jax.random.normal(last, (size, size))

    logits = np.random.default_rng(0).normal(size=(batch, classes))
    return draw, (jax.random.PRNGKey(0), jnp.asarray(logits, jnp.float32))


def search(
    queries: int = 64, points: int = 512, features: int = 16, near: int = 10, groups: int = 8
) -> tuple[Callable[..., Any], tuple[jax.Array, ...]]:
    """Points in the order of their distance, the nearest ones' mean, and totals by group."""

    def find(asked: jax.Array, known: jax.Array, group: jax.Array) -> dict[str, jax.Array]:
        distances = jnp.sum(jnp.square(asked[:, None] - known[None]), axis=-1)
        order = jnp.argsort(distances, axis=1)
        least, nearest = jax.lax.top_k(-distances, near)
        totals = jax.ops.segment_sum(distances.T, group, groups)
        return {
            "order": order,
            "least": -least,
            "mean": known[nearest].mean(1),
            "totals": totals,
            "reached": jnp.cumsum(jnp.take_along_axis(distances, order, axis=1), axis=1),
        }

    rng = np.random.default_rng(0)
    asked = jnp.asarray(rng.normal(size=(queries, features)), jnp.float32)
    known = jnp.asarray(rng.normal(size=(points, features)), jnp.float32)
    return find, (asked, known, jnp.asarray(rng.integers(0, groups, points), jnp.int32))

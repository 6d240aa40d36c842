"""Logistic regression by gradient descent: a line search, a while loop inside of another.

Both loops capture the data from the function around them. The inner loop also captures values of
the outer loop, so its captures come from one and from two levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def fit(features: jax.Array, labels: jax.Array, decay: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights where the gradient of the loss vanishes, and the number of steps."""

    def loss(weights: jax.Array) -> jax.Array:
        margins = labels * (features @ weights)
        return jnp.mean(jax.nn.softplus(-margins)) + decay * jnp.sum(weights**2)

    def is_steep(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        weights, count = state
        return (jnp.sum(jax.grad(loss)(weights) ** 2) > 1e-6) & (count < 100)

    def descend(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        weights, count = state
        value, slope = jax.value_and_grad(loss)(weights)

        def is_too_long(step: jax.Array) -> jax.Array:
            gain = 0.5 * step * jnp.sum(slope**2)
            return loss(weights - step * slope) > value - gain

        start = jnp.asarray(16.0, weights.dtype)
        step = jax.lax.while_loop(is_too_long, lambda step: 0.5 * step, start)
        return weights - step * slope, count + 1

    weights = jnp.zeros(features.shape[1], features.dtype)
    return jax.lax.while_loop(is_steep, descend, (weights, 0))


def build(
    samples: int = 500, width: int = 20, dtype: Any = jnp.float32
) -> tuple[
    Callable[[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
    tuple[jax.Array, jax.Array, jax.Array],
]:
    """Return the fit, its data (with labels of -1 and 1) and the weight of the decay."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(samples, width))
    noisy = features @ rng.normal(size=width) + rng.normal(size=samples)
    labels = np.where(noisy > 0, 1.0, -1.0)
    return fit, (
        jnp.asarray(features, dtype),
        jnp.asarray(labels, dtype),
        jnp.asarray(0.05, dtype),
    )


EXAMPLE = Example(
    name="captured",
    summary="While loop in a while loop, both capturing values of the functions around them",
    build=build,
    small={"samples": 40, "width": 4},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

"""A diagonal state space layer: a linear recurrence by associative_scan, all steps in parallel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, jax.Array]
Affine = tuple[jax.Array, jax.Array]


def recurrence(decay: jax.Array, x: jax.Array) -> jax.Array:
    """Return ``h[t] = decay[t] * h[t - 1] + x[t]`` for every step of the leading axis.

    Each step is the map ``h -> decay * h + x``. Composition of such maps is associative, so the
    steps can run in parallel.
    """

    def compose(first: Affine, second: Affine) -> Affine:
        (decay_1, x_1), (decay_2, x_2) = first, second
        return decay_1 * decay_2, decay_2 * x_1 + x_2

    return jax.lax.associative_scan(compose, (decay, x))[1]


def layer(params: Params, x: jax.Array) -> jax.Array:
    """Mix ``x[step, feature]`` along the steps, by decays that depend on the input."""
    gate = jax.nn.sigmoid(x @ params["gate"])
    state = recurrence(gate, (1 - gate) * (x @ params["input"]))
    return x + jax.nn.silu(state) @ params["output"]


def build(
    steps: int = 256, features: int = 64, states: int = 128, dtype: Any = jnp.float32
) -> tuple[Callable[[Params, jax.Array], jax.Array], tuple[Params, jax.Array]]:
    """Return the layer, its parameters and a sequence."""
    rng = np.random.default_rng(0)

    def kernel(inputs: int, outputs: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, 1.0 / math.sqrt(inputs), (inputs, outputs)), dtype)

    params = {
        "gate": kernel(features, states),
        "input": kernel(features, states),
        "output": kernel(states, features),
    }
    return layer, (params, jnp.asarray(rng.normal(size=(steps, features)), dtype))


EXAMPLE = Example(
    name="linear_recurrence",
    summary="State space layer: a linear recurrence by associative_scan",
    build=build,
    tolerance=5e-7,
    small={"steps": 21, "features": 6, "states": 8},
    gradient=(0, 1),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

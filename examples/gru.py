"""A bidirectional GRU in plain JAX: one scan forwards, one from the last step to the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, Any]


def gru(params: Params, x: jax.Array, reverse: bool = False) -> jax.Array:
    """Run a GRU over ``x[step, batch, feature]`` and return its state after every step."""

    def step(state: jax.Array, projected: jax.Array) -> tuple[jax.Array, jax.Array]:
        reset, update, candidate = jnp.split(projected, 3, axis=-1)
        recurrent = state @ params["recurrent"] + params["recurrent_bias"]
        from_reset, from_update, from_candidate = jnp.split(recurrent, 3, axis=-1)
        reset = jax.nn.sigmoid(reset + from_reset)
        update = jax.nn.sigmoid(update + from_update)
        candidate = jnp.tanh(candidate + reset * from_candidate)
        state = (1 - update) * candidate + update * state
        return state, state

    # The inputs of all steps are projected at once, outside of the loop.
    projected = x @ params["input"] + params["input_bias"]
    initial = jnp.zeros((x.shape[1], params["recurrent"].shape[0]), x.dtype)
    return jax.lax.scan(step, initial, projected, reverse=reverse)[1]


def bidirectional(params: Params, x: jax.Array) -> jax.Array:
    """Return the states of both directions side by side, with a score from them for each step."""
    states = [gru(params["forward"], x), gru(params["backward"], x, reverse=True)]
    return jnp.concatenate(states, axis=-1) @ params["score"]


def create_params(rng: np.random.Generator, features: int, width: int, dtype: Any) -> Params:
    def normal(inputs: int, *shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, 1.0 / math.sqrt(inputs), shape), dtype)

    def direction() -> Params:
        return {
            "input": normal(features, features, 3 * width),
            "input_bias": normal(25, 3 * width),
            "recurrent": normal(width, width, 3 * width),
            "recurrent_bias": normal(25, 3 * width),
        }

    return {
        "forward": direction(),
        "backward": direction(),
        "score": normal(2 * width, 2 * width, 1),
    }


def build(
    width: int = 96,
    features: int = 40,
    steps: int = 80,
    batch: int = 4,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[Params, jax.Array], jax.Array], tuple[Params, jax.Array]]:
    """Return the network, its parameters and a batch of sequences, steps first."""
    rng = np.random.default_rng(0)
    params = create_params(rng, features, width, dtype)
    return bidirectional, (params, jnp.asarray(rng.normal(size=(steps, batch, features)), dtype))


EXAMPLE = Example(
    name="gru",
    summary="Bidirectional GRU in plain JAX over two lax.scan, one of them reversed",
    build=build,
    tolerance=1e-6,
    small={"width": 16, "features": 8, "steps": 7, "batch": 3},
    gradient=(0, 1),
    dynamic={1: "t, b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

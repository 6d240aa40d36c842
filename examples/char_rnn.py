"""A character RNN that samples a word until its end token or the maximal length."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, jax.Array]
END = 0


def sample(params: Params, first: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sample the characters that follow ``first``.

    A character is drawn by adding Gumbel noise to its log probabilities and taking the largest.
    The noise is an argument: ``noise[step, character]``.

    Returns:
        The characters, with END from the first END on, and their number before it.
    """
    steps = noise.shape[0]

    def goes_on(carry: tuple[jax.Array, ...]) -> jax.Array:
        position, character, _, _ = carry
        return (position < steps) & (character != END)

    def step(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        position, character, state, text = carry
        state = jnp.tanh(params["embedding"][character] + state @ params["recurrent"])
        logits = state @ params["out"] + params["out_bias"]
        character = jnp.argmax(logits + noise[position]).astype(first.dtype)
        return position + 1, character, state, text.at[position].set(character)

    state = jnp.zeros_like(params["recurrent"][0])
    text = jnp.full(steps, END, first.dtype)
    _, _, _, text = jax.lax.while_loop(goes_on, step, (0, first, state, text))
    return text, jnp.sum(text != END)


def build(
    width: int = 128,
    characters: int = 64,
    steps: int = 120,
    dtype: Any = jnp.float32,
) -> tuple[Callable[..., tuple[jax.Array, jax.Array]], tuple[Params, jax.Array, jax.Array]]:
    """Return the sampler, the network's parameters, a first character and the noise."""
    rng = np.random.default_rng(0)

    def normal(std: float, *shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, std, shape), dtype)

    params = {
        "embedding": normal(1.0, characters, width),
        "recurrent": normal(1.0 / math.sqrt(width), width, width),
        "out": normal(1.0 / math.sqrt(width), width, characters),
        "out_bias": normal(0.5, characters),
    }
    return sample, (params, jnp.int32(1), jnp.asarray(rng.gumbel(size=(steps, characters)), dtype))


EXAMPLE = Example(
    name="char_rnn",
    summary="Character RNN sampled in a while_loop that ends early",
    build=build,
    tolerance=0.0,
    small={"width": 16, "characters": 16, "steps": 20},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

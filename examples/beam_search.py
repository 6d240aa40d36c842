"""Beam search over a GRU language model: the most likely sequences, best first."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, jax.Array]
END = 0


class Beams(NamedTuple):
    """The state of all beams: their texts so far, log probabilities and network states."""

    position: jax.Array
    tokens: jax.Array
    scores: jax.Array
    states: jax.Array


def next_scores(params: Params, token: jax.Array, state: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the log probability of every next token and the network's next state."""
    x = jnp.concatenate([params["embedding"][token], state], axis=-1)
    reset, update = jnp.split(jax.nn.sigmoid(x @ params["gates"]), 2, axis=-1)
    x = jnp.concatenate([params["embedding"][token], reset * state], axis=-1)
    state = update * state + (1 - update) * jnp.tanh(x @ params["candidate"])
    return jax.nn.log_softmax(state @ params["out"] + params["out_bias"]), state


def search(
    params: Params, start: jax.Array, *, beams: int, steps: int
) -> tuple[jax.Array, jax.Array]:
    """Return the best sequences that follow the token ``start``, and their log probabilities."""
    vocab, width = params["embedding"].shape
    # A finished beam continues with END only, at log probability 0.
    only_end = jnp.where(jnp.arange(vocab) == END, 0.0, -jnp.inf).astype(params["out"].dtype)

    def goes_on(carry: Beams) -> jax.Array:
        open_ends = carry.tokens[:, carry.position] != END
        return (carry.position < steps) & jnp.any(open_ends)

    def step(carry: Beams) -> Beams:
        last = carry.tokens[:, carry.position]
        scores, states = next_scores(params, last, carry.states)
        scores = jnp.where((last == END)[:, None], only_end, scores)
        best, places = jax.lax.top_k(jnp.ravel(carry.scores[:, None] + scores), beams)
        parents, tokens = places // vocab, places % vocab
        history = carry.tokens[parents].at[:, carry.position + 1].set(tokens)
        return Beams(carry.position + 1, history, best, states[parents])

    initial = Beams(
        position=jnp.int32(0),
        tokens=jnp.full((beams, steps + 1), END, jnp.int32).at[:, 0].set(start),
        # All beams start alike, so only the first may have successors.
        scores=jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf).astype(params["out"].dtype),
        states=jnp.zeros((beams, width), params["out"].dtype),
    )
    final = jax.lax.while_loop(goes_on, step, initial)
    return final.tokens[:, 1:], final.scores


def build(
    width: int = 128,
    vocab: int = 1000,
    beams: int = 8,
    steps: int = 32,
    end: float = 6.0,
    dtype: Any = jnp.float32,
) -> tuple[Callable[..., tuple[jax.Array, jax.Array]], tuple[Params, jax.Array]]:
    """Return the search, the language model's parameters and a first token.

    The larger ``end`` is, the sooner sequences end.
    """
    rng = np.random.default_rng(0)

    def normal(std: float, *shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, std, shape), dtype)

    params = {
        "embedding": normal(1.0, vocab, width),
        "gates": normal(1.0 / math.sqrt(2 * width), 2 * width, 2 * width),
        "candidate": normal(1.0 / math.sqrt(2 * width), 2 * width, width),
        "out": normal(8.0 / math.sqrt(width), width, vocab),
        "out_bias": normal(1.0, vocab).at[END].set(end),
    }

    return partial(search, beams=beams, steps=steps), (params, jnp.int32(1))


EXAMPLE = Example(
    name="beam_search",
    summary="Beam search over a GRU language model in a while_loop that ends early",
    build=build,
    tolerance=1e-6,
    small={"width": 16, "vocab": 30, "beams": 4, "steps": 12, "end": 0.0},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

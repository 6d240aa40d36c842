"""A reader of documents: a scan over sentences around a scan over their words."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, jax.Array]


def read(params: Params, document: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Score every word of ``document[sentence, word, feature]``, and every sentence."""

    def word(state: jax.Array, embedded: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.tanh(embedded @ params["word"] + state @ params["word_state"])
        return state, state

    def sentence(state: jax.Array, words: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        last, states = jax.lax.scan(word, state, words)
        state = jnp.tanh(last @ params["sentence"] + state @ params["sentence_state"])
        return state, (states, state, state[None] @ params["verdict"])

    start = jnp.zeros(params["word_state"].shape[0], document.dtype)
    _, (words, sentences, verdicts) = jax.lax.scan(sentence, start, document)
    # Each word is scored together with the state of its sentence.
    context = jnp.broadcast_to(sentences[:, None], words.shape)
    scores = jnp.concatenate([words, context], axis=-1) @ params["score"]
    return jnp.squeeze(scores, -1), jnp.squeeze(verdicts, (1, 2))


def build(
    sentences: int = 16,
    words: int = 24,
    features: int = 32,
    width: int = 64,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], tuple[jax.Array, jax.Array]], tuple[jax.Array]]:
    """Return the reader, with its weights closed over, and an embedded document."""
    rng = np.random.default_rng(0)

    def kernel(inputs: int, outputs: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, 1.0 / math.sqrt(inputs), (inputs, outputs)), dtype)

    params = {
        "word": kernel(features, width),
        "word_state": kernel(width, width),
        "sentence": kernel(width, width),
        "sentence_state": kernel(width, width),
        "verdict": kernel(width, 1),
        "score": kernel(2 * width, 1),
    }
    document = jnp.asarray(rng.normal(size=(sentences, words, features)), dtype)
    return partial(read, params), (document,)


EXAMPLE = Example(
    name="nested_scans",
    summary="Scan in a scan; what they stack is broadcast, joined and squeezed afterwards",
    build=build,
    small={"sentences": 3, "words": 4, "features": 6, "width": 8},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

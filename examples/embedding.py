"""word2vec: the gradient of skip-gram with negative samples, by two tables of word vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Tables = dict[str, jax.Array]


def loss(tables: Tables, words: jax.Array, contexts: jax.Array, negatives: jax.Array) -> jax.Array:
    """Return the mean loss of pairs of a word and a context, and of negative samples.

    Args:
        words: The words, ``[pair]``.
        contexts: A word found nearby for each, ``[pair]``.
        negatives: Words drawn at random, ``[pair, sample]``.
    """
    word = tables["word"][words]
    near = jnp.sum(word * tables["context"][contexts], axis=-1)
    far = jnp.einsum("pf,psf->ps", word, tables["context"][negatives])
    return -jnp.mean(jax.nn.log_sigmoid(near) + jnp.sum(jax.nn.log_sigmoid(-far), axis=-1))


def step(
    tables: Tables, words: jax.Array, contexts: jax.Array, negatives: jax.Array
) -> tuple[jax.Array, Tables]:
    """Return the loss and the tables after one step down its gradient."""
    value, gradient = jax.value_and_grad(loss)(tables, words, contexts, negatives)
    return value, jax.tree.map(lambda table, slope: table - 0.5 * slope, tables, gradient)


def build(
    vocab: int = 5000,
    features: int = 64,
    pairs: int = 512,
    samples: int = 5,
    dtype: Any = jnp.float32,
) -> tuple[Callable[..., tuple[jax.Array, Tables]], tuple[Any, ...]]:
    """Return a training step, the tables and a batch in which frequent words repeat."""
    rng = np.random.default_rng(0)
    tables = {
        name: jnp.asarray(rng.normal(0.0, features**-0.5, (vocab, features)), dtype)
        for name in ("word", "context")
    }

    def draw(*shape: int) -> jax.Array:
        return jnp.asarray(rng.zipf(1.3, shape) % vocab, jnp.int32)

    return step, (tables, draw(pairs), draw(pairs), draw(pairs, samples))


EXAMPLE = Example(
    name="embedding",
    summary="A training step of word2vec: gradients scattered into two tables of word vectors",
    build=build,
    tolerance=5e-7,
    small={"vocab": 20, "features": 4, "pairs": 12, "samples": 3},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

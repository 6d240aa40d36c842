"""A next-token scorer whose weights are stored in 8 and 16 bits and computed with in f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, Any]


def dequantized(table: Params) -> jax.Array:
    """Bytes times a scale for each row."""
    return table["bytes"].astype(jnp.float32) * table["scale"][:, None]


def score(params: Params, tokens: jax.Array) -> jax.Array:
    """The score of every token of the vocabulary after each token; the embedding is used twice."""
    x = dequantized({name: each[tokens] for name, each in params["embedding"].items()})
    for layer in params["layers"]:
        up = layer["up"].astype(jnp.float32)
        x = x + jax.nn.relu(x @ up + layer["bias"].astype(jnp.float32)) @ up.T
    return x @ dequantized(params["embedding"]).T


def build(
    vocabulary: int = 4096, width: int = 256, hidden: int = 1024, layers: int = 2, batch: int = 8
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the scorer with its weights closed over, and a batch of tokens."""
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(vocabulary, width))
    scale = np.abs(embedding).max(1) / 127
    params = {
        "embedding": {
            "bytes": jnp.asarray(np.rint(embedding / scale[:, None]), jnp.int8),
            "scale": jnp.asarray(scale, jnp.float32),
        },
        "layers": [
            {
                "up": jnp.asarray(rng.normal(0, width**-0.5, (width, hidden)), jnp.bfloat16),
                "bias": jnp.asarray(rng.normal(0, 0.1, hidden), jnp.bfloat16),
            }
            for _ in range(layers)
        ],
    }
    tokens = jnp.asarray(rng.integers(0, vocabulary, batch), jnp.int32)
    return lambda tokens: score(params, tokens), (tokens,)


EXAMPLE = Example(
    name="stored_weights",
    summary="Next-token scorer whose weights are stored in int8 and bfloat16",
    build=build,
    small={"vocabulary": 24, "width": 16, "hidden": 20, "layers": 1, "batch": 3},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

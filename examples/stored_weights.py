"""A next-token scorer whose weights are stored in 4, 8 and 16 bits and computed with in f32."""

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


def mixed(table: Params, x: jax.Array) -> jax.Array:
    """x times a matrix in 4 bits, with a scale for each block of rows of a column."""
    blocks = table["nibbles"].astype(jnp.float32) * table["scale"][:, None]
    return x @ blocks.reshape(x.shape[-1], -1)


def rescaled(table: Params, x: jax.Array) -> jax.Array:
    """x times a matrix in 4 bits, with a scale for each column after the product."""
    return (x @ table["nibbles"].astype(jnp.float32)) * table["scale"]


def score(params: Params, tokens: jax.Array) -> jax.Array:
    """The score of every token of the vocabulary after each token; the embedding is used twice."""
    x = dequantized({name: each[tokens] for name, each in params["embedding"].items()})
    for layer in params["layers"]:
        up = layer["up"].astype(jnp.float32)
        x = x + jax.nn.relu(x @ up + layer["bias"].astype(jnp.float32)) @ up.T
        x = x + rescaled(layer["rescaled"], mixed(layer["mixed"], x))
    return x @ dequantized(params["embedding"]).T


def build(
    vocabulary: int = 4096, width: int = 256, hidden: int = 1024, layers: int = 2, batch: int = 8
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the scorer with its weights closed over, and a batch of tokens."""
    rng = np.random.default_rng(0)
    embedding = rng.normal(size=(vocabulary, width))
    scale = np.abs(embedding).max(1) / 127

    def quantized(*shape: int) -> Params:
        """A matrix of 4 bits, and scales for all axes of its blocks but the rows."""
        numbers = rng.normal(0, width**-0.5, shape)
        scale = np.abs(numbers).max(-2) / 7
        nibbles = np.rint(numbers / scale[..., None, :])
        return {"nibbles": jnp.asarray(nibbles, jnp.int4), "scale": jnp.asarray(scale, jnp.float32)}

    params = {
        "embedding": {
            "bytes": jnp.asarray(np.rint(embedding / scale[:, None]), jnp.int8),
            "scale": jnp.asarray(scale, jnp.float32),
        },
        "layers": [
            {
                "up": jnp.asarray(rng.normal(0, width**-0.5, (width, hidden)), jnp.bfloat16),
                "bias": jnp.asarray(rng.normal(0, 0.1, hidden), jnp.bfloat16),
                "mixed": quantized(width // 16, 16, width),
                "rescaled": quantized(width, width),
            }
            for _ in range(layers)
        ],
    }
    tokens = jnp.asarray(rng.integers(0, vocabulary, batch), jnp.int32)
    return lambda tokens: score(params, tokens), (tokens,)


EXAMPLE = Example(
    name="stored_weights",
    summary="Next-token scorer whose weights are stored in int4, int8 and bfloat16",
    build=build,
    small={"vocabulary": 24, "width": 16, "hidden": 20, "layers": 1, "batch": 3},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

"""One decode step of GPT-2: a token in, the next one's logits out, with a cache for attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main
from gpt2_prefill import Params, create_params, dense, layer_norm

Cache = dict[str, jax.Array]


def attention(
    params: Params, cache: Cache, x: jax.Array, position: jax.Array, heads: int
) -> tuple[jax.Array, Cache]:
    """Attend from the one new token ``x[batch, width]`` to all tokens up to ``position``."""
    batch, width = x.shape
    qkv = dense(params["qkv"], x).reshape(batch, 3, heads, 1, width // heads)
    query, key, value = jnp.moveaxis(qkv, 1, 0)
    cache = {
        "key": jax.lax.dynamic_update_slice_in_dim(cache["key"], key, position, axis=2),
        "value": jax.lax.dynamic_update_slice_in_dim(cache["value"], value, position, axis=2),
    }
    scores = query @ jnp.swapaxes(cache["key"], -1, -2) / math.sqrt(width // heads)
    seen = jnp.arange(scores.shape[-1]) <= position
    weights = jax.nn.softmax(jnp.where(seen, scores, jnp.finfo(scores.dtype).min), axis=-1)
    return dense(params["out"], (weights @ cache["value"]).reshape(batch, width)), cache


def decode(
    params: Params, caches: list[Cache], token: jax.Array, position: jax.Array, *, heads: int
) -> tuple[jax.Array, list[Cache]]:
    """Return the logits of the token after ``token[batch]``, and the caches with it included."""
    x = params["wte"][token] + params["wpe"][position]
    updated = []
    for layer, cache in zip(params["layers"], caches, strict=True):
        mixed, cache = attention(
            layer["attention"], cache, layer_norm(layer["ln_1"], x), position, heads
        )
        updated.append(cache)
        x = x + mixed
        inner = jax.nn.gelu(dense(layer["expand"], layer_norm(layer["ln_2"], x)), approximate=True)
        x = x + dense(layer["project"], inner)
    return layer_norm(params["ln_f"], x) @ params["wte"].T, updated


def build(
    layers: int = 2,
    width: int = 128,
    heads: int = 4,
    tokens: int = 64,
    vocab: int = 512,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[..., tuple[jax.Array, list[Cache]]], tuple[Any, ...]]:
    """Return one step of the model, its parameters, half full caches, a token and its position.

    GPT-2 small is ``build(layers=12, width=768, heads=12, tokens=1024, vocab=50257)``.
    """
    rng = np.random.default_rng(0)
    params = create_params(rng, layers, width, vocab, tokens, dtype)
    position = tokens // 2

    def cached() -> jax.Array:
        past = rng.normal(size=(batch, heads, tokens, width // heads))
        past[:, :, position:] = 0.0
        return jnp.asarray(past, dtype)

    caches = [{"key": cached(), "value": cached()} for _ in range(layers)]
    token = jnp.asarray(rng.integers(0, vocab, batch), jnp.int32)
    return partial(decode, heads=heads), (params, caches, token, jnp.int32(position))


EXAMPLE = Example(
    name="gpt2_decode",
    summary="One GPT-2 decode step with a cache of keys and values, in and out",
    build=build,
    tolerance=2e-6,
    small={"width": 32, "tokens": 8, "vocab": 64, "batch": 2},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

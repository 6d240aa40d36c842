"""Llama-style decoder blocks in plain JAX: RMSNorm, rotary, grouped-query attention, SwiGLU."""

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


def rms_norm(scale: jax.Array, x: jax.Array) -> jax.Array:
    # The mean square is computed in f32, because squares in half precision easily overflow.
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + 1e-6)).astype(x.dtype) * scale


def rotary(x: jax.Array, base: float = 10000.0) -> jax.Array:
    """Rotate pairs of features of ``x[batch, token, ..., feature]`` by the token's position."""
    tokens, features = x.shape[1], x.shape[-1]
    frequencies = base ** (-jnp.arange(0, features, 2, dtype=jnp.float32) / features)
    angles = jnp.arange(tokens, dtype=jnp.float32)[:, None] * frequencies
    angles = angles.reshape(tokens, *[1] * (x.ndim - 3), features // 2)
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attention(params: Params, x: jax.Array) -> jax.Array:
    """Causal attention in which several query heads share one head of keys and values."""
    tokens = x.shape[1]
    # t and s: tokens, k: heads of keys and values, g: query heads of each, h: features of a head.
    query = rotary(jnp.einsum("btd,dkgh->btkgh", x, params["query"]))
    key = rotary(jnp.einsum("bsd,dkh->bskh", x, params["key"]))
    value = jnp.einsum("bsd,dkh->bskh", x, params["value"])
    scores = jnp.einsum("btkgh,bskh->bkgts", query, key) / math.sqrt(query.shape[-1])
    position = jnp.arange(tokens)
    scores = jnp.where(position[:, None] >= position[None, :], scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bkgts,bskh->btkgh", weights, value)
    return jnp.einsum("btkgh,kghd->btd", mixed, params["out"])


def swiglu(params: Params, x: jax.Array) -> jax.Array:
    return (jax.nn.silu(x @ params["gate"]) * (x @ params["up"])) @ params["down"]


def decoder(layers: list[Params], x: jax.Array) -> jax.Array:
    for params in layers:
        x = x + attention(params, rms_norm(params["attention_norm"], x))
        x = x + swiglu(params, rms_norm(params["mlp_norm"], x))
    return x


def create_layer(
    rng: np.random.Generator, width: int, heads: int, kv_heads: int, dtype: Any
) -> Params:
    groups, features, inner = heads // kv_heads, width // heads, 8 * width // 3

    def kernel(inputs: int, *shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(0.0, 1.0 / math.sqrt(inputs), shape), dtype)

    return {
        "attention_norm": jnp.asarray(rng.uniform(0.5, 1.5, width), dtype),
        "query": kernel(width, width, kv_heads, groups, features),
        "key": kernel(width, width, kv_heads, features),
        "value": kernel(width, width, kv_heads, features),
        "out": kernel(width, kv_heads, groups, features, width),
        "mlp_norm": jnp.asarray(rng.uniform(0.5, 1.5, width), dtype),
        "gate": kernel(width, width, inner),
        "up": kernel(width, width, inner),
        "down": kernel(inner, inner, width),
    }


def build(
    layers: int = 2,
    width: int = 128,
    heads: int = 8,
    kv_heads: int = 2,
    tokens: int = 32,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return a stack of decoder blocks, with its weights closed over, and embedded tokens."""
    rng = np.random.default_rng(0)
    params = [create_layer(rng, width, heads, kv_heads, dtype) for _ in range(layers)]
    embedded = jnp.asarray(rng.normal(size=(batch, tokens, width)), dtype)
    return partial(decoder, params), (embedded,)


EXAMPLE = Example(
    name="decoder",
    summary="Llama-style decoder blocks in plain JAX with grouped-query attention",
    build=build,
    small={"width": 48, "heads": 4, "tokens": 8},
    dynamic={0: "b, s, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

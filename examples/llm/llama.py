"""Llama in plain JAX, with the inputs and outputs of Hugging Face's ONNX models.

`step` is both the prefill and a decoding step: it takes new tokens and a cache that grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Params = dict[str, Any]
Cache = tuple[jax.Array, jax.Array]
"""Keys and values of a layer, shape [batch, kv_heads, position, head_dim]."""

Append = Callable[[jax.Array, jax.Array], jax.Array]
"""Gives the keys or values of a cache with those of new tokens."""


@dataclass(frozen=True)
class Config:
    """The sizes of a model."""

    vocab: int = 32000
    width: int = 512
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 1376
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def rms_norm(scale: jax.Array, x: jax.Array, eps: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps) * scale


def rotary(x: jax.Array, position_ids: jax.Array, theta: float) -> jax.Array:
    """Rotate x[batch, token, head, feature]; the halves of the features are pairs."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = position_ids[:, :, None, None].astype(jnp.float32) * frequencies
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def seen(attention_mask: jax.Array, tokens: int) -> jax.Array:
    """Which keys each new token sees: real ones, not later ones. [batch, 1, 1, token, key]"""
    keys = attention_mask.shape[1]
    position = jnp.arange(tokens) + keys - tokens
    causal = jnp.arange(keys) <= position[:, None]
    return (causal & (attention_mask[:, None, :] > 0))[:, None, None]


def grow(past: jax.Array, new: jax.Array) -> jax.Array:
    return jnp.concatenate([past, new], axis=2)


def attention(
    config: Config,
    params: Params,
    x: jax.Array,
    position_ids: jax.Array,
    mask: jax.Array,
    past: Cache,
    append: Append,
) -> tuple[jax.Array, Cache]:
    batch, tokens, _ = x.shape
    kv, groups = config.kv_heads, config.heads // config.kv_heads
    query = (x @ params["q_proj"]).reshape(batch, tokens, config.heads, config.head_dim)
    key = (x @ params["k_proj"]).reshape(batch, tokens, kv, config.head_dim)
    value = (x @ params["v_proj"]).reshape(batch, tokens, kv, config.head_dim)
    query = rotary(query, position_ids, config.rope_theta)
    key = rotary(key, position_ids, config.rope_theta)
    keys = append(past[0], key.swapaxes(1, 2))
    values = append(past[1], value.swapaxes(1, 2))
    query = query.reshape(batch, tokens, kv, groups, config.head_dim)
    scores = jnp.einsum("bskgd,bktd->bkgst", query, keys) / math.sqrt(config.head_dim)
    weights = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(scores.dtype).min), axis=-1)
    mixed = jnp.einsum("bkgst,bktd->bskgd", weights, values)
    return mixed.reshape(batch, tokens, config.width) @ params["o_proj"], (keys, values)


def mlp(params: Params, x: jax.Array) -> jax.Array:
    return (jax.nn.silu(x @ params["gate_proj"]) * (x @ params["up_proj"])) @ params["down_proj"]


def step(
    config: Config,
    params: Params,
    input_ids: jax.Array,
    attention_mask: jax.Array,
    position_ids: jax.Array,
    past: Sequence[Cache],
) -> tuple[jax.Array, list[Cache]]:
    """The logits of new tokens and the cache with them.

    Args:
        params: As `create_params` makes them.
        input_ids: The new tokens, i64[batch, tokens].
        attention_mask: Which positions are tokens and not padding, i64[batch, past + tokens].
        position_ids: Their positions, i64[batch, tokens].
        past: The cache of each layer, f32[batch, kv_heads, past, head_dim] twice.

    Returns:
        Logits, f32[batch, tokens, vocab], and the new cache of each layer.
    """
    mask = seen(attention_mask, input_ids.shape[1])
    return transformer(config, params, input_ids, position_ids, mask, past, grow)


def transformer(
    config: Config,
    params: Params,
    input_ids: jax.Array,
    position_ids: jax.Array,
    mask: jax.Array,
    past: Sequence[Cache],
    append: Append,
) -> tuple[jax.Array, list[Cache]]:
    """`step` for any mask [batch, 1, 1, token, key] and any way to append to a cache."""
    x = params["embed_tokens"][input_ids]
    return decoder(config, params, x, position_ids, mask, past, append)


def decoder(
    config: Config,
    params: Params,
    x: jax.Array,
    position_ids: jax.Array,
    mask: jax.Array,
    past: Sequence[Cache],
    append: Append,
) -> tuple[jax.Array, list[Cache]]:
    """`transformer` of embedded tokens f32[batch, token, width]."""
    present = []
    for layer, cache in zip(params["layers"], past, strict=True):
        normed = rms_norm(layer["input_layernorm"], x, config.norm_eps)
        mixed, cache = attention(config, layer, normed, position_ids, mask, cache, append)
        x = x + mixed
        x = x + mlp(layer, rms_norm(layer["post_attention_layernorm"], x, config.norm_eps))
        present.append(cache)
    return rms_norm(params["norm"], x, config.norm_eps) @ params["lm_head"], present


def create_params(config: Config, seed: int = 0) -> Params:
    """Random weights under Hugging Face's names; matrices are [inputs, outputs]."""
    rng = np.random.default_rng(seed)

    def kernel(inputs: int, outputs: int) -> np.ndarray:
        return rng.normal(0.0, 1.0 / math.sqrt(inputs), (inputs, outputs)).astype(np.float32)

    def scale() -> np.ndarray:
        return rng.uniform(0.5, 1.5, config.width).astype(np.float32)

    inner = config.kv_heads * config.head_dim
    layers = [
        {
            "input_layernorm": scale(),
            "q_proj": kernel(config.width, config.width),
            "k_proj": kernel(config.width, inner),
            "v_proj": kernel(config.width, inner),
            "o_proj": kernel(config.width, config.width),
            "post_attention_layernorm": scale(),
            "gate_proj": kernel(config.width, config.hidden),
            "up_proj": kernel(config.width, config.hidden),
            "down_proj": kernel(config.hidden, config.width),
        }
        for _ in range(config.layers)
    ]
    embedding = rng.normal(0.0, 1.0, (config.vocab, config.width)).astype(np.float32)
    head = kernel(config.width, config.vocab)
    return {"embed_tokens": embedding, "layers": layers, "norm": scale(), "lm_head": head}

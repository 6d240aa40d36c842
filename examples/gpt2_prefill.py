"""GPT-2 over a whole prompt, in plain JAX, parameters as an argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

Params = dict[str, Any]


def layer_norm(params: Params, x: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * params["scale"] + params["bias"]


def dense(params: Params, x: jax.Array) -> jax.Array:
    return x @ params["kernel"] + params["bias"]


def attention(params: Params, x: jax.Array, heads: int) -> jax.Array:
    batch, tokens, width = x.shape
    qkv = dense(params["qkv"], x).reshape(batch, tokens, 3, heads, width // heads)
    query, key, value = (jnp.swapaxes(part, 1, 2) for part in jnp.moveaxis(qkv, 2, 0))
    scores = query @ jnp.swapaxes(key, -1, -2) / math.sqrt(width // heads)
    causal = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, jnp.finfo(scores.dtype).min), axis=-1)
    mixed = jnp.swapaxes(weights @ value, 1, 2).reshape(batch, tokens, width)
    return dense(params["out"], mixed)


def gpt2(params: Params, tokens: jax.Array, *, heads: int) -> jax.Array:
    """Return the logits of the next token at every position."""
    positions = jnp.arange(tokens.shape[1])
    x = jnp.take(params["wte"], tokens, axis=0) + jnp.take(params["wpe"], positions, axis=0)
    for layer in params["layers"]:
        x = x + attention(layer["attention"], layer_norm(layer["ln_1"], x), heads)
        inner = jax.nn.gelu(dense(layer["expand"], layer_norm(layer["ln_2"], x)), approximate=True)
        x = x + dense(layer["project"], inner)
    # The output embedding is the transposed input embedding.
    return layer_norm(params["ln_f"], x) @ params["wte"].T


def create_params(
    rng: np.random.Generator, layers: int, width: int, vocab: int, positions: int, dtype: Any
) -> Params:
    """Draw parameters on the scale of a trained GPT-2."""

    def normal(std: float, *shape: int, mean: float = 0.0) -> jax.Array:
        return jnp.asarray(rng.normal(mean, std, shape), dtype)

    def dense_params(inputs: int, outputs: int) -> Params:
        return {
            "kernel": normal(1.0 / math.sqrt(inputs), inputs, outputs),
            "bias": normal(0.1, outputs),
        }

    def norm_params() -> Params:
        return {"scale": normal(0.2, width, mean=1.0), "bias": normal(0.1, width)}

    def layer_params() -> Params:
        return {
            "ln_1": norm_params(),
            "attention": {"qkv": dense_params(width, 3 * width), "out": dense_params(width, width)},
            "ln_2": norm_params(),
            "expand": dense_params(width, 4 * width),
            "project": dense_params(4 * width, width),
        }

    return {
        "wte": normal(0.1, vocab, width),
        "wpe": normal(0.05, positions, width),
        "layers": [layer_params() for _ in range(layers)],
        "ln_f": norm_params(),
    }


def build(
    layers: int = 2,
    width: int = 128,
    heads: int = 4,
    tokens: int = 32,
    vocab: int = 512,
    batch: int = 1,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[Params, jax.Array], jax.Array], tuple[Params, jax.Array]]:
    """Return the model, its parameters and a prompt.

    GPT-2 small is ``build(layers=12, width=768, heads=12, tokens=1024, vocab=50257)``.
    """
    rng = np.random.default_rng(0)
    # A model accepts longer prompts than the one it is traced with.
    params = create_params(rng, layers, width, vocab, 2 * tokens, dtype)
    prompt = jnp.asarray(rng.integers(0, vocab, (batch, tokens)), jnp.int32)
    return partial(gpt2, heads=heads), (params, prompt)


EXAMPLE = Example(
    name="gpt2_prefill",
    summary="GPT-2 prefill in plain JAX, parameters passed as an argument",
    build=build,
    small={"width": 32, "tokens": 8, "vocab": 64},
    dynamic={1: "b, s"},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

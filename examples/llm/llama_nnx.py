"""The Llama of llama.py as a flax nnx module, with JAX's own attention."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import llama
from flax import nnx


class Attention(nnx.Module):
    def __init__(self, config: llama.Config, rngs: nnx.Rngs) -> None:
        self.config, inner = config, config.kv_heads * config.head_dim
        self.q_proj = nnx.Linear(config.width, config.width, use_bias=False, rngs=rngs)
        self.k_proj = nnx.Linear(config.width, inner, use_bias=False, rngs=rngs)
        self.v_proj = nnx.Linear(config.width, inner, use_bias=False, rngs=rngs)
        self.o_proj = nnx.Linear(config.width, config.width, use_bias=False, rngs=rngs)

    def __call__(
        self,
        x: jax.Array,
        position_ids: jax.Array,
        mask: jax.Array,
        past: llama.Cache,
        append: llama.Append,
    ) -> tuple[jax.Array, llama.Cache]:
        size, theta = self.config.head_dim, self.config.rope_theta
        query, key, value = (
            project(x).reshape(*x.shape[:2], -1, size)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        query = llama.rotary(query, position_ids, theta)
        key = llama.rotary(key, position_ids, theta)
        keys = append(past[0], key.swapaxes(1, 2))
        values = append(past[1], value.swapaxes(1, 2))
        mixed = jax.nn.dot_product_attention(
            query, keys.swapaxes(1, 2), values.swapaxes(1, 2), mask=mask[:, 0]
        )
        return self.o_proj(mixed.reshape(x.shape)), (keys, values)


class Layer(nnx.Module):
    def __init__(self, config: llama.Config, rngs: nnx.Rngs) -> None:
        width, hidden, eps = config.width, config.hidden, config.norm_eps
        self.input_layernorm = nnx.RMSNorm(width, epsilon=eps, rngs=rngs)
        self.self_attn = Attention(config, rngs)
        self.post_attention_layernorm = nnx.RMSNorm(width, epsilon=eps, rngs=rngs)
        self.gate_proj = nnx.Linear(width, hidden, use_bias=False, rngs=rngs)
        self.up_proj = nnx.Linear(width, hidden, use_bias=False, rngs=rngs)
        self.down_proj = nnx.Linear(hidden, width, use_bias=False, rngs=rngs)

    def __call__(self, x: jax.Array, *context: object) -> tuple[jax.Array, llama.Cache]:
        mixed, cache = self.self_attn(self.input_layernorm(x), *context)
        x = x + mixed
        normed = self.post_attention_layernorm(x)
        return x + self.down_proj(nnx.silu(self.gate_proj(normed)) * self.up_proj(normed)), cache


class Llama(nnx.Module):
    def __init__(self, config: llama.Config, rngs: nnx.Rngs) -> None:
        self.embed_tokens = nnx.Embed(config.vocab, config.width, rngs=rngs)
        self.layers = nnx.List([Layer(config, rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.width, epsilon=config.norm_eps, rngs=rngs)
        self.lm_head = nnx.Linear(config.width, config.vocab, use_bias=False, rngs=rngs)

    def __call__(
        self,
        input_ids: jax.Array,
        position_ids: jax.Array,
        mask: jax.Array,
        past: Sequence[llama.Cache],
        append: llama.Append = llama.grow,
    ) -> tuple[jax.Array, list[llama.Cache]]:
        """As `llama.transformer`."""
        x, present = self.embed_tokens(input_ids), []
        for layer, cache in zip(self.layers, past, strict=True):
            x, cache = layer(x, position_ids, mask, cache, append)
            present.append(cache)
        return self.lm_head(self.norm(x)), present


def from_params(config: llama.Config, params: llama.Params) -> Llama:
    """The module with the weights of `llama.create_params`."""
    model = nnx.eval_shape(lambda: Llama(config, nnx.Rngs(0)))
    graph, state = nnx.split(model)

    def weight(path: tuple[object, ...], _: object) -> jax.Array:
        names = [name for name in path if name != "self_attn"]
        found = params
        for name in names[:-1]:
            found = found[name]
        return jnp.asarray(found)

    return nnx.merge(graph, nnx.map_state(weight, state))

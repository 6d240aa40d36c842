"""A small Llama of examples/llm, and the tokens that it generates in JAX."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from llm import llama

SIZES = llama.Config(vocab=300, width=64, layers=2, heads=4, kv_heads=2, hidden=96)
PARAMS = llama.create_params(SIZES)
STEP = partial(llama.step, SIZES)
ADAPTERS = {
    "other": {"layers": [{"q_proj": 2 * PARAMS["layers"][0]["q_proj"]}], "norm": -PARAMS["norm"]}
}

_LAYERS = [{**PARAMS["layers"][0], **ADAPTERS["other"]["layers"][0]}, PARAMS["layers"][1]]
ADAPTED = {**PARAMS, "layers": _LAYERS, "norm": ADAPTERS["other"]["norm"]}
"""`PARAMS` with the adapter "other"."""

PAD = 298
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": [299],
    "pad_token_id": PAD,
}
PROMPTS = [[5, 6, 7], [10, 11, 12, 13, 14], [20], [30, 31, 32, 33]]
LONGEST = 5
COUNT = 12


def shared(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> Any:
    """A step whose cache is a buffer that does not grow."""
    start = mask.shape[1] - ids.shape[1]
    old = [tuple(x[:, :, :start] for x in pair) for pair in past]
    logits, present = STEP(params, ids, mask, positions, old)
    write = jax.lax.dynamic_update_slice
    return logits, [
        tuple(write(x, y[:, :, start:], (0, 0, start, 0)) for x, y in zip(*pairs, strict=True))
        for pairs in zip(past, present, strict=True)
    ]


def buffered(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> Any:
    """A step that attends to the whole buffer, as it has written into it."""
    start, room = mask.shape[1] - ids.shape[1], past[0][0].shape[2]
    new, all_positions = jnp.arange(ids.shape[1])[:, None], jnp.arange(room)
    real = jnp.pad(mask, ((0, 0), (0, room - mask.shape[1]))) > 0
    seen = ((all_positions <= start + new) & real[:, None])[:, None, None]

    def append(cache: jax.Array, keys: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_slice_in_dim(cache, keys, start, 2)

    return llama.transformer(SIZES, params, ids, positions, seen, past, append)


def new_cache(batch: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.zeros((batch, 2, 0, 16), np.float32),) * 2] * 2


@jax.jit
def all_logits(params: Any, ids: np.ndarray, mask: np.ndarray) -> jax.Array:
    """Without a cache: one program for all lengths, as tokens do not see later ones."""
    positions = jnp.maximum(jnp.cumsum(mask, 1) - 1, 0)
    return jax.nn.log_softmax(STEP(params, ids, mask, positions, new_cache(len(ids)))[0])


def padded(prompts: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Prompts padded on the left, and their mask."""
    ids = [[PAD] * (LONGEST - len(x)) + list(x) for x in prompts]
    mask = [[0] * (LONGEST - len(x)) + [1] * len(x) for x in prompts]
    return np.array(ids, np.int32), np.array(mask, np.int32)


def in_jax(prompts: Sequence[Sequence[int]], params: Any = PARAMS) -> list[list[int]]:
    """The most likely tokens after prompts."""
    ids, mask = (np.pad(x, ((0, 0), (0, COUNT)), constant_values=1) for x in padded(prompts))
    for place in range(LONGEST, LONGEST + COUNT):
        ids[:, place] = all_logits(params, ids, mask)[:, place - 1].argmax(-1)
    found: list[list[int]] = ids[:, LONGEST:].tolist()
    return found


def beams(prompt: Sequence[int], width: int) -> list[list[int]]:
    """The likeliest sequences that a beam search finds after a prompt of the longest length."""
    found = [(0.0, list(prompt))] + [(-np.inf, list(prompt))] * (width - 1)
    for place in range(LONGEST, LONGEST + COUNT):
        rows = [tokens + [0] * (LONGEST + COUNT - place) for _, tokens in found]
        ids = np.array(rows, np.int32)
        scores = np.asarray(all_logits(PARAMS, ids, np.ones_like(ids)))[:, place - 1]
        candidates = [
            (score + scores[row, token], [*tokens, int(token)])
            for row, (score, tokens) in enumerate(found)
            for token in np.argsort(-scores[row])[:width]
        ]
        found = sorted(candidates, key=lambda item: -item[0])[:width]
    return [tokens for _, tokens in found]


def conversation(
    turns: Sequence[tuple[int | None, Sequence[int]]], ends: Sequence[int], length: int
) -> list[int]:
    """The most likely tokens after each turn, up to a token that ends it or up to a length.

    Args:
        turns: How many of the tokens before are kept, None for all, and the new ones.
    """
    found: list[int] = []
    for kept, prompt in turns:
        found = [*found[:kept], *prompt]
        while len(found) < length:
            ids = np.array([found + [0] * (length - len(found))], np.int32)
            token = int(all_logits(PARAMS, ids, np.ones_like(ids))[0, len(found) - 1].argmax())
            if token in ends:
                break
            found.append(token)
    return found

"""Llama 3 of tunix, of the sizes of `examples/llm/llama.py`, beside the twins of that model.

python -m tools.llm.tunix FOLDER     translates it, in the environment `tunix`

Weights are random, and not those of the twins: only nodes and times are compared.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from tools.llm.running import KEY_VALUE

LAYERS, WIDTH, HEADS, KV_HEADS, FEATURES, VOCAB, HIDDEN = 4, 512, 8, 4, 64, 32000, 1376


def ours(folder: str) -> None:
    """Translates a step with free batch, tokens and length of the caches."""
    import jax
    from flax import nnx
    from tunix.models.llama3 import model as llama3

    import hlo2onnx

    sizes: dict[str, Any] = {"num_layers": LAYERS, "vocab_size": VOCAB, "embed_dim": WIDTH}
    sizes |= {"hidden_dim": HIDDEN, "num_heads": HEADS, "head_dim": FEATURES}
    sizes |= {"num_kv_heads": KV_HEADS, "norm_eps": 1e-5, "rope_theta": 10000}
    config = llama3.ModelConfig(**sizes, weight_tying=False)
    graph, params = nnx.split(llama3.Llama3(config, rngs=nnx.Rngs(0)))

    def step(params: Any, tokens: Any, positions: Any, cache: Any, mask: Any) -> tuple[Any, Any]:
        logits, after = nnx.merge(graph, params)(tokens, positions, cache, mask)
        return logits, after

    b, s, t = jax.export.symbolic_shape("b, s, t", constraints=["t >= s"])
    ids = jax.ShapeDtypeStruct((b, s), np.int32)
    part = jax.ShapeDtypeStruct((b, t, KV_HEADS, FEATURES), np.float32)
    layer = {"k": part, "v": part, "end_index": jax.ShapeDtypeStruct((b,), np.int32)}
    translated = hlo2onnx.translate(
        jax.jit(step, donate_argnums=3),
        *(params, ids, ids, {f"layer_{i}": layer for i in range(LAYERS)}),
        jax.ShapeDtypeStruct((b, s, t), np.bool_),
        bind=0,
        input_names=["tokens", "positions", *_names("past_index", KEY_VALUE[0]), "mask"],
        output_names=["logits", *_names("index", KEY_VALUE[1])],
    )
    Path(folder).mkdir(exist_ok=True)
    translated.save(Path(folder) / "model.onnx", external_data=True)


def _names(index: str, cache: str) -> list[str]:
    """Of the caches, in the order of the program."""
    layers = ([f"{index}.{i}", f"{cache}{i}.key", f"{cache}{i}.value"] for i in range(LAYERS))
    return [name for layer in layers for name in layer]


def inputs(new: int, past: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Those of a step with new tokens after others."""
    total = past + new
    shape = (1, total, KV_HEADS, FEATURES)
    made = {
        name: rng.normal(size=shape).astype(np.float32)
        for name in _names("past_index", KEY_VALUE[0])
    }
    made |= {f"past_index.{layer}": np.array([past], np.int32) for layer in range(LAYERS)}
    made["tokens"] = rng.integers(3, VOCAB, (1, new)).astype(np.int32)
    made["positions"] = np.arange(past, total, dtype=np.int32)[None]
    return made | {"mask": np.tril(np.ones((total, total), np.bool_))[None, past:]}


if __name__ == "__main__":
    ours(*sys.argv[1:])

"""Llama 3 of tunix, of the sizes of `examples/llm/llama.py`, beside the twins of that model.

python -m tools.llm.tunix FOLDER     translates it, in the environment `tunix`

Weights are random, and not those of the twins: only nodes and times are compared.
"""

from __future__ import annotations

import sys
from typing import Any

from tools.llm.hub import FEATURES, HEADS, KV_HEADS, LAYERS, VOCAB, WIDTH, save

HIDDEN = 1376


def ours(folder: str) -> None:
    """Saves a step with caches as onnxruntime-genai has them."""
    import jax.numpy as jnp
    from flax import nnx
    from tunix.models.llama3 import model as llama3

    sizes: dict[str, Any] = {"num_layers": LAYERS, "vocab_size": VOCAB, "embed_dim": WIDTH}
    sizes |= {"hidden_dim": HIDDEN, "num_heads": HEADS, "head_dim": FEATURES}
    sizes |= {"num_kv_heads": KV_HEADS, "norm_eps": 1e-5, "rope_theta": 10000}
    config = llama3.ModelConfig(**sizes, weight_tying=False)
    graph, params = nnx.split(llama3.Llama3(config, rngs=nnx.Rngs(0)))

    def step(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> tuple[Any, Any]:
        (batch, new), total = ids.shape, mask.shape[1]

        def with_room(x: Any) -> Any:
            x = x.swapaxes(1, 2)
            return jnp.concatenate([x, jnp.zeros((batch, new, *x.shape[2:]), x.dtype)], 1)

        index = jnp.full(1, total - new, jnp.int32)
        pairs = ({"k": with_room(k), "v": with_room(v), "end_index": index} for k, v in past)
        caches = {f"layer_{i}": cache for i, cache in enumerate(pairs)}
        seen = jnp.arange(total) <= jnp.arange(new)[:, None] + total - new
        model = nnx.merge(graph, params)
        logits, after = model(ids, positions, caches, seen & (mask[:, None] > 0))
        return logits, [(x["k"].swapaxes(1, 2), x["v"].swapaxes(1, 2)) for x in after.values()]

    save(folder, step, params)


if __name__ == "__main__":
    ours(*sys.argv[1:])

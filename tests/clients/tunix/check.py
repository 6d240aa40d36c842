"""Llama 3 of tunix with LoRA weights of qwix, in onnxruntime-genai with and without the adapter.

The sizes are small, and the weights are random.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import qwix
from flax import nnx
from tunix.models.llama3.model import Llama3, ModelConfig

import hlo2onnx

SIZES = {"num_layers": 2, "embed_dim": 64, "hidden_dim": 96, "num_heads": 4, "num_kv_heads": 2}
DEFINITION = ModelConfig(
    **SIZES, vocab_size=300, head_dim=16, norm_eps=1e-5, rope_theta=10000, weight_tying=False
)
PROMPTS = [[5, 6, 7, 8], [20, 21, 22, 23], [40, 41, 42, 43]]
COUNT = 12


def export(folder, model, config, adapters):
    """Writes a folder for onnxruntime-genai; `adapters` are trees of LoRA weights by name."""
    graph, params = nnx.split(model)

    def step(params, ids, mask, positions, past):
        (batch, new), total = ids.shape, mask.shape[1]

        def with_room(x):
            x = x.swapaxes(1, 2)
            return jnp.concatenate([x, jnp.zeros((batch, new, *x.shape[2:]), x.dtype)], 1)

        index = jnp.full(1, total - new, jnp.int32)
        pairs = ({"k": with_room(k), "v": with_room(v), "end_index": index} for k, v in past)
        caches = {f"layer_{i}": cache for i, cache in enumerate(pairs)}
        seen = jnp.arange(total) <= jnp.arange(new)[:, None] + total - new
        model = nnx.merge(graph, params)
        logits, after = model(ids, positions, caches, seen & (mask[:, None] > 0))
        return logits, [(x["k"].swapaxes(1, 2), x["v"].swapaxes(1, 2)) for x in after.values()]

    hlo2onnx.genai.save(folder, step, params, config, adapters=adapters)


GENERATE = """
import json, sys
import onnxruntime_genai as genai

given = json.loads(sys.argv[1])
model = genai.Model("model")
parameters = genai.GeneratorParams(model)
parameters.set_search_options(batch_size=len(given["ids"]), max_length=given["length"])
generator = genai.Generator(model, parameters)
adapters = genai.Adapters(model)
if given["adapter"]:
    adapters.load(given["adapter"], "adapter")
    generator.set_active_adapter(adapters, "adapter")
generator.append_tokens(given["ids"])
while not generator.is_done():
    generator.generate_next_token()
print(json.dumps([generator.get_sequence(i).tolist() for i in range(len(given["ids"]))]))
"""


def in_genai(adapter=""):
    """The most likely tokens after the prompts."""
    length = len(PROMPTS[0]) + COUNT
    given = json.dumps({"ids": PROMPTS, "length": length, "adapter": adapter})
    command = [sys.executable, "-c", GENERATE, given]
    return json.loads(subprocess.check_output(command, text=True).splitlines()[-1])


def in_tunix(model):
    """The same by tunix, without a cache."""
    ids = np.array(PROMPTS)
    for _ in range(COUNT):
        positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
        seen = jnp.tril(jnp.ones((1, ids.shape[1], ids.shape[1]), bool))
        logits, _ = model(jnp.asarray(ids), positions, None, seen)
        ids = np.concatenate([ids, np.asarray(logits)[:, -1:].argmax(-1)], 1)
    return ids.tolist()


def main() -> int:
    model = Llama3(DEFINITION, rngs=nnx.Rngs(0))
    places = qwix.LoraProvider(module_path=".*(q_proj|v_proj|down_proj)", rank=4, alpha=8.0)
    model = qwix.apply_lora_to_model(model, places, **model.get_model_input(), rngs=nnx.Rngs(1))
    rng = np.random.default_rng(0)
    weights = nnx.state(model, nnx.LoRAParam)
    trained = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32) / 4, weights)
    plain = in_tunix(model)
    config = {"model_type": "llama", "vocab_size": DEFINITION.vocab_size, "hidden_size": 64}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config |= {"head_dim": 16, "max_position_embeddings": 64, "eos_token_id": 299}
    export("model", model, config, {"poet": trained})
    found, adapted = in_genai(), in_genai("model/poet.onnx_adapter")
    nnx.update(model, trained)
    tuned = in_tunix(model)
    figures = {"nodes": len(onnx.load("model/model.onnx", load_external_data=False).graph.node)}
    figures["adapter_bytes"] = Path("model/poet.onnx_adapter").stat().st_size
    figures["equal"] = [found == plain, adapted == tuned, plain != tuned]
    names = ("google-tunix", "qwix", "jax", "onnxruntime", "onnxruntime-genai")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return not all(figures["equal"])


if __name__ == "__main__":
    sys.exit(main())

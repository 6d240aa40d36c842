"""Measures models of keras-hub and tunix beside twins of the same configuration.

    python -m tools.llm.hub ours NAME FOLDER     translates a model, in the environment `hub`
    python -m tools.llm.hub twin NAME FOLDER     saves one for Hugging Face, in `optimum`

Weights are random, and not the same: only nodes and times are compared. The second command does not
import hlo2onnx.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, KV_HEADS, FEATURES, VOCAB, HIDDEN = 4, 512, 8, 4, 64, 32000, 1536
WINDOW = 512
SETTINGS: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": WIDTH, "head_dim": FEATURES}
SETTINGS |= {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
SETTINGS |= {"num_key_value_heads": KV_HEADS}
"""Sizes of all models, under Hugging Face's names."""

STEPS = {"prefill 128": (128, 0), "decode at 128": (1, 128), "decode at 900": (1, 900)}
NAMES = {"gemma": "Gemma 2 of keras-hub", "qwen": "Qwen 3 of keras-hub"}
KINDS = ("ours", "optimum", "builder")


def ours(name: str, folder: str) -> None:
    """Saves `call_with_cache` with caches as onnxruntime-genai has them."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax.numpy as jnp
    import keras
    from keras_hub import models

    keras.utils.set_random_seed(0)
    common: dict[str, Any] = {"vocabulary_size": VOCAB, "num_layers": LAYERS, "hidden_dim": WIDTH}
    common |= {"num_query_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": FEATURES}
    gemma = {"attention_logit_soft_cap": 50, "final_logit_soft_cap": 30, "use_post_ffw_norm": True}
    gemma |= {"use_sliding_window_attention": True, "sliding_window_size": WINDOW}
    gemma |= {"use_post_attention_norm": True, "intermediate_dim": 2 * HIDDEN}
    if name == "gemma":
        model = models.GemmaCausalLM(backbone=models.GemmaBackbone(**common, **gemma))
    else:
        qwen = {"intermediate_dim": HIDDEN, "tie_word_embeddings": True}
        model = models.Qwen3CausalLM(backbone=models.Qwen3Backbone(**common, **qwen))
    variables = [*model.trainable_variables, *model.non_trainable_variables]

    def step(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> tuple[Any, Any]:
        (batch, new), total = ids.shape, mask.shape[1]

        def with_room(x: Any) -> Any:
            x = x.swapaxes(1, 2)
            return jnp.concatenate([x, jnp.zeros((batch, new, *x.shape[2:]), x.dtype)], 1)

        cache = jnp.stack([jnp.stack([*map(with_room, pair)], 1) for pair in past], 1)
        with keras.StatelessScope(state_mapping=list(zip(variables, params, strict=True))):
            logits, _, cache = model.call_with_cache(ids, cache, total - new)
        layers = [jnp.unstack(layer, axis=1) for layer in jnp.unstack(cache, axis=1)]
        return logits, [[part.swapaxes(1, 2) for part in layer] for layer in layers]

    save(folder, step, [each.value for each in variables])


def save(folder: str, step: Callable[..., Any], params: Any) -> None:
    """Writes a folder for onnxruntime-genai with GroupQueryAttention, whose cache may be shared."""
    import hlo2onnx

    limits = {"model_type": "decoder", "max_position_embeddings": 4096, "eos_token_id": 2}
    search = {"past_present_share_buffer": True}
    hlo2onnx.genai.save(folder, step, params, SETTINGS | limits, search=search, attention="gqa")


def twin(name: str, folder: str) -> None:
    """Saves a random model and a tokenizer for Hugging Face."""
    import transformers

    from tools.llm.folder import save_tokenizer

    sizes = SETTINGS | {"intermediate_size": HIDDEN}
    if name == "gemma":
        config = transformers.Gemma2Config(**sizes, sliding_window=WINDOW)
    else:
        config = transformers.Qwen3Config(**sizes, tie_word_embeddings=True)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    save_tokenizer(VOCAB, folder)


def make(folder: Path, run: Callable[..., None]) -> None:
    """Makes FOLDER/hub-NAME-{ours, optimum, builder}: ours anew, others if they are missing."""
    for name in NAMES:
        run("hub", "tools.llm.hub", "ours", name, f"hub-{name}-ours")
        if not (folder / f"hub-{name}").exists():
            run("optimum", "tools.llm.hub", "twin", name, f"hub-{name}")
        if not (folder / f"hub-{name}-optimum").exists():
            run("optimum", "tools.llm.export", "optimum", f"hub-{name}", f"hub-{name}-optimum")
        if not (folder / f"hub-{name}-builder").exists():
            options = ["-o", f"hub-{name}-builder", "-p", "fp32", "-e", "cpu"]
            run("builder", "onnxruntime_genai.models.builder", "-i", f"hub-{name}", *options)


def measure(folder: Path) -> dict[str, Any]:
    """The figures of each model whose folders are there, by its title."""
    found: dict[str, Any] = {}
    for name, title in NAMES.items():
        paths = {kind: folder / f"hub-{name}-{kind}" for kind in KINDS}
        if paths["ours"].exists():
            # The builder's window needs a buffer that is as long, which ours then has as well.
            found[title] = _measured(title, paths, WINDOW if name == "gemma" else None)
    if (folder / "tunix-ours").exists():
        twins = {kind: folder / f"{kind}-fp32" for kind in KINDS[1:]}
        paths = {"ours": folder / "tunix-ours", **twins}
        found["Llama 3 of tunix"] = _measured("tunix", paths, None)
    return found


def _measured(title: str, folders: dict[str, Path], window: int | None) -> dict[str, Any]:
    """Nodes, milliseconds of ours with one thread, and ratios to the twins, by step."""
    import onnx

    from tools.llm.running import KEY_VALUE, bound, feeds, session, times

    rng = np.random.default_rng(0)
    paths = {kind: path / "model.onnx" for kind, path in folders.items()}
    loaded = {kind: session(path, 1) for kind, path in paths.items()}
    graphs = {k: onnx.load(path, load_external_data=False).graph for k, path in paths.items()}
    found: dict[str, Any] = {"nodes": {kind: len(graph.node) for kind, graph in graphs.items()}}
    found["steps"] = {}
    for step, (new, past) in STEPS.items():
        tokens, shape = rng.integers(3, VOCAB, (1, new)), (1, KV_HEADS, past, FEATURES)
        calls = {}
        for kind in KINDS:
            names = (each.name for each in loaded[kind].get_inputs())
            caches = [each for each in names if each.startswith(KEY_VALUE[0])]
            values = {each: rng.normal(size=shape).astype(np.float32) for each in caches}
            room = window + past + new if window and kind != "optimum" else None
            calls[kind] = bound(loaded[kind], feeds(loaded[kind], tokens, values), room)[0]
        middle, ratios = times(list(calls.values()))
        each = dict(zip(calls, ratios.tolist(), strict=True))
        found["steps"][step] = {"ms": float(middle[0]), "ratios": each}
        print(title, step, found["steps"][step], flush=True)
    return found


if __name__ == "__main__":
    {"ours": ours, "twin": twin}[sys.argv[1]](*sys.argv[2:])

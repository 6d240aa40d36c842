"""Saves the weights of a Llama as a folder of Hugging Face: config, safetensors and a tokenizer.

    python -m tools.llm.folder WEIGHTS.npz CONFIG.json FOLDER

CONFIG.json has the arguments of `LlamaConfig`. The builder needs a tokenizer: its words are
numbers, their own indices. The command needs torch and transformers, not hlo2onnx.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

BLOCKS = {f"{name}_proj": "self_attn." for name in "qkvo"}
BLOCKS |= {f"{name}_proj": "mlp." for name in ("gate", "up", "down")}


def weights(params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Parameters of examples/llm/llama.py under Hugging Face's names; matrices are transposed."""
    found = {
        "model.embed_tokens.weight": params["embed_tokens"],
        "model.norm.weight": params["norm"],
        "lm_head.weight": np.ascontiguousarray(params["lm_head"].T),
    }
    for index, layer in enumerate(params["layers"]):
        for name, value in layer.items():
            path = f"model.layers.{index}.{BLOCKS.get(name, '')}{name}.weight"
            found[path] = np.ascontiguousarray(value.T)
    return found


def settings(config: Any) -> dict[str, Any]:
    """The arguments of `LlamaConfig` for a `Config` of examples/llm/llama.py."""
    return {
        "vocab_size": config.vocab,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "max_position_embeddings": 4096,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
    }


def save_tokenizer(words: int, folder: str | Path) -> None:
    """Writes a tokenizer whose words are numbers."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {str(index): index for index in range(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="2").save_pretrained(folder)


def main() -> None:
    """Writes the folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    given, config, folder = map(Path, sys.argv[1:])
    model = LlamaForCausalLM(LlamaConfig(**json.loads(config.read_text())))
    with np.load(given) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    model.save_pretrained(folder)
    save_tokenizer(model.config.vocab_size, folder)


if __name__ == "__main__":
    main()

"""Saves the weights of a Llama as a folder of Hugging Face: config, safetensors and a tokenizer.

    python -m tools.llm.folder WEIGHTS.npz CONFIG.json FOLDER

WEIGHTS.npz has the tensors under the names of Hugging Face, matrices as [outputs, inputs].
CONFIG.json has the arguments of `LlamaConfig`. Each word of the tokenizer is a number, its own
index. The command needs torch and transformers, and does not import hlo2onnx.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def weights(params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The parameters of examples/llm/llama.py under the names of Hugging Face."""
    found = {
        "model.embed_tokens.weight": params["embed_tokens"],
        "model.norm.weight": params["norm"],
        "lm_head.weight": params["lm_head"].T,
    }
    for index, layer in enumerate(params["layers"]):
        for name, value in layer.items():
            part = {"q": "self_attn.", "k": "self_attn.", "v": "self_attn.", "o": "self_attn."}
            part |= {"gate": "mlp.", "up": "mlp.", "down": "mlp."}
            path = f"model.layers.{index}.{part.get(name.partition('_')[0], '')}{name}.weight"
            found[path] = value.T
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


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
        "tie_word_embeddings": False,
    }


def main() -> int:
    """Writes the folder."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    given, config, folder = map(Path, sys.argv[1:])
    model = LlamaForCausalLM(LlamaConfig(**json.loads(config.read_text())))
    with np.load(given) as arrays:
        model.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays})
    model.save_pretrained(folder)
    vocabulary = {str(index): index for index in range(model.config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens = {"unk_token": "0", "bos_token": "1", "eos_token": "2"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokens).save_pretrained(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

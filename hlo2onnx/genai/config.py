"""The content of genai_config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlo2onnx.errors import UsageError

IDS = ("input_ids", "attention_mask", "position_ids")
PARTS = ("key", "value")
TOKENS = ("bos_token_id", "pad_token_id")
SIZES = ("hidden_size", "num_attention_heads", "num_hidden_layers")
KEYS = ("model_type", "vocab_size", *SIZES, "max_position_embeddings", "eos_token_id")
"""The entries that a config must have."""

SEARCH: Mapping[str, float | bool] = {
    "batch_size": 1,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "early_stopping": True,
    "length_penalty": 1.0,
    "max_length": 0,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "past_present_share_buffer": False,
    "random_seed": -1,
    "repetition_penalty": 1.0,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
}
"""The search options of onnxruntime-genai with their defaults; `max_length` is the context."""


def heads_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """The number of heads of keys, and the size of a head."""
    heads = config["num_attention_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    return config.get("num_key_value_heads") or heads, size


def genai_config(
    config: Mapping[str, Any], inputs: Sequence[str], search: Mapping[str, object]
) -> dict[str, Any]:
    """The content of genai_config.json for a model with these inputs."""
    heads, size = heads_of(config)
    end = config["eos_token_id"]
    model = {
        "type": config["model_type"],
        "vocab_size": config["vocab_size"],
        "context_length": config["max_position_embeddings"],
        "eos_token_id": end,
        "pad_token_id": end if isinstance(end, int) else end[0],
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "filename": "model.onnx",
            "head_size": size,
            "num_key_value_heads": heads,
            **{key: config[key] for key in SIZES},
            "inputs": {name: name for name in IDS if name in inputs}
            | {f"past_{part}_names": f"past_key_values.%d.{part}" for part in PARTS},
            "outputs": {"logits": "logits"}
            | {f"present_{part}_names": f"present.%d.{part}" for part in PARTS},
        },
    }
    ids = {key: config[key] for key in TOKENS if config.get(key) is not None}
    return {"model": model | ids, "search": dict(search)}


def searched(given: Mapping[str, object], config: Mapping[str, Any]) -> dict[str, object]:
    """All search options.

    Raises:
        UsageError: There is none of a name.
    """
    for name in given.keys() - SEARCH.keys():
        raise UsageError(f"search has no option {name!r}; it has {', '.join(SEARCH)}")
    return {**SEARCH, "max_length": config["max_position_embeddings"], **given}

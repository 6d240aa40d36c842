"""Exports a folder of Hugging Face to OUT/model.onnx as a decoder with a growing cache.

    python -m tools.llm.export optimum FOLDER OUT
    python -m tools.llm.export dynamo FOLDER OUT

It needs torch, and optimum-onnx or onnxscript, and does not import hlo2onnx.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

NAMES = ["input_ids", "attention_mask", "position_ids"]
PARTS = ("key", "value")


def optimum(folder: str, out: Path) -> None:
    """With optimum-onnx."""
    from optimum.exporters.onnx import main_export

    main_export(folder, output=out, task="text-generation-with-past", do_validation=False)


def dynamo(folder: str, out: Path) -> None:
    """With torch.onnx."""
    import torch
    from transformers import DynamicCache, LlamaForCausalLM

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = LlamaForCausalLM.from_pretrained(folder).eval()

        def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
            cache = DynamicCache.from_legacy_cache(past)
            found = self.model(input_ids, attention_mask, position_ids, cache, use_cache=True)
            return found.logits, found.past_key_values.to_legacy_cache()

    step = Step()
    config = step.model.config
    shape = (2, config.num_key_value_heads, 5, config.hidden_size // config.num_attention_heads)
    layers = range(config.num_hidden_layers)
    past = tuple((torch.randn(shape), torch.randn(shape)) for _ in layers)
    tokens = torch.ones(2, 3, dtype=torch.int64)
    mask, positions = torch.ones(2, 8, dtype=torch.int64), torch.arange(5, 8) + 0 * tokens
    free = torch.export.Dim.DYNAMIC
    both = {0: free, 1: free}
    program = torch.onnx.export(
        step,
        (tokens, mask, positions, past),
        dynamo=True,
        opset_version=23,
        dynamic_shapes=(both, both, both, tuple(({0: free, 2: free},) * 2 for _ in layers)),
        input_names=NAMES + [f"past_key_values.{i}.{part}" for i in layers for part in PARTS],
        output_names=["logits"] + [f"present.{i}.{part}" for i in layers for part in PARTS],
    )
    assert program is not None
    program.save(out / "model.onnx")


if __name__ == "__main__":
    out = Path(sys.argv[3])
    out.mkdir(exist_ok=True)
    {"optimum": optimum, "dynamo": dynamo}[sys.argv[1]](sys.argv[2], out)

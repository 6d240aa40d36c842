"""Generates with onnxruntime-genai: {"folder": ..., "runs": [[ids, options], ...]} on stdin.

The option "adapter" is the path of an adapter; "then" has further turns: how many tokens are kept,
None for all, and the new ids. Prints a list of sequences for each run.
It imports neither hlo2onnx nor JAX.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import onnxruntime_genai as genai


def generated(model: Any, ids: list[list[int]], options: dict[str, Any]) -> list[list[int]]:
    adapter = options.pop("adapter", None)
    turns = [(None, ids), *options.pop("then", [])]
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(batch_size=len(ids), **options)
    generator = genai.Generator(model, parameters)
    adapters = genai.Adapters(model)
    if adapter is not None:
        adapters.load(adapter, "adapter")
        generator.set_active_adapter(adapters, "adapter")
    for kept, new in turns:
        if kept is not None:
            generator.rewind_to(kept)
        generator.append_tokens(np.array(new, np.int32))
        while not generator.is_done():
            generator.generate_next_token()
    count = len(ids) * options.get("num_return_sequences", 1)
    return [generator.get_sequence(index).tolist() for index in range(count)]


given = json.load(sys.stdin)
loaded = genai.Model(given["folder"])
print(json.dumps([generated(loaded, ids, options) for ids, options in given["runs"]]))

"""Prints the peak memory of a model's load and of greedy tokens after a prompt (Linux only).

    python -m tools.llm.memory MODEL.onnx

The result is JSON: "load" and "tokens" in MB, and the tokens. The cache grows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tools.llm.running import KEY_VALUE, feeds, session

PROMPT, TOKENS = 128, 200


def peak() -> float:
    """The largest resident memory of the process so far, in MB."""
    status = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
    return int(status.split()[0]) * 1024 / 1e6


def main() -> int:
    """Loads the model and generates."""
    loaded = session(Path(sys.argv[1]), 1)
    figures = {"load": peak()}
    names = [value.name for value in loaded.get_outputs()]
    pasts = [value for value in loaded.get_inputs() if value.name.startswith(KEY_VALUE[0])]
    width = (int(pasts[0].shape[1]), 0, 64)
    cache = {value.name: np.zeros((1, *width), np.float32) for value in pasts}
    step, tokens = np.random.default_rng(1).integers(3, 32000, (1, PROMPT)), []
    for _ in range(TOKENS):
        logits, *rest = loaded.run(None, feeds(loaded, step, cache))
        cache = {n.replace(*reversed(KEY_VALUE)): v for n, v in zip(names[1:], rest, strict=True)}
        step = logits[:, -1:].argmax(-1)
        tokens.append(int(step[0, 0]))
    print(json.dumps({**figures, "tokens": peak(), "made": tokens}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

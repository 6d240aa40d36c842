"""Prints the memory of a model's load and of greedy tokens after a prompt as JSON (Linux only).

python -m tools.llm.memory MODEL.onnx KV_HEADS HEAD_DIM
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from tools.llm.running import KEY_VALUE, feeds, session

PROMPT, TOKENS = 128, 200


def size(name: str) -> int:
    """MB of the process under a name of /proc/self/status."""
    return int(Path("/proc/self/status").read_text().partition(name)[2].split()[1]) * 1024 // 10**6


def main(model: str, heads: str, features: str) -> None:
    """Loads the model and generates; the cache grows.

    The files are read from the disk, for all models alike: pages that are in memory already may
    count to the peak.
    """
    for file in Path(model).parent.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    loaded = session(Path(model), 1)
    figures = {"peak of load": size("VmHWM")}
    names = [each.name.replace(*reversed(KEY_VALUE)) for each in loaded.get_outputs()]
    cache = dict.fromkeys(names[1:], np.zeros((1, int(heads), 0, int(features)), np.float32))
    step, tokens = np.random.default_rng(1).integers(3, 1000, (1, PROMPT)), []
    for _ in range(TOKENS):
        logits, *rest = loaded.run(None, feeds(loaded, step, cache))
        cache = dict(zip(names[1:], rest, strict=True))
        step = logits[:, -1:].argmax(-1)
        tokens.append(int(step[0, 0]))
    figures |= {"peak of 200 tokens": size("VmHWM"), "without mapped files": size("RssAnon")}
    print(json.dumps([figures, tokens]))


if __name__ == "__main__":
    main(*sys.argv[1:])

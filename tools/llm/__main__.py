"""Measures a Llama in JAX beside the models of PyTorch's route, and writes docs/llm.md.

    python -m tools.llm --envs DIR              makes the models, measures, prints the tables
    python -m tools.llm --envs DIR --write      ... and writes docs/llm.json and docs/llm.md

DIR has the environments `optimum` (optimum-onnx, onnxscript) and `builder` (onnxruntime-genai,
onnx_ir), both with torch; docs/llm.md has the commands. The models are in DIR/models; ours are made
anew each time. Times are those of ONNX Runtime of this environment. The exit code is 1 if the
logits of a model differ from ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tools import ROOT, command_line, environment, write_page
from tools.llm import cache, page, running
from tools.llm.models import CONFIG, MODELS, PRECISIONS, make

STEPS = {"prefill 128": (128, 0), "prefill 900": (900, 0)}
STEPS |= {"decode at 128": (1, 128), "decode at 900": (1, 900)}
"""New tokens and past of each step."""

ROUNDS = 9
ROOM = 1024
LIMITS = {"fp32": 1e-3, "int4": 0.03}
"""The largest difference of logits by the largest logit. int4 rounds activations to 8 bits, and a
value at the border of two steps falls to either side."""


def measured(models: Path, precision: str, threads: int) -> dict[str, Any]:
    """Milliseconds, ratios and differences of each step, by model."""
    paths = {name: models / f"{name}-{precision}" / "model.onnx" for name in MODELS}
    sessions = {name: running.session(path, threads) for name, path in paths.items()}
    rng, found = np.random.default_rng(0), {}
    for title, (new, past) in STEPS.items():
        tokens = rng.integers(3, CONFIG.vocab, (1, new))
        shape = (1, CONFIG.kv_heads, past, CONFIG.head_dim)
        names = [value.name for value in sessions["ours"].get_inputs()]
        caches = [name for name in names if name.startswith(running.KEY_VALUE[0])]
        values = {name: rng.normal(size=shape).astype(np.float32) for name in caches}
        steps = {
            name: running.bound(each, running.feeds(each, tokens, values))
            for name, each in sessions.items()
        }
        builder = sessions["builder"]
        steps[page.SHARED] = running.bound(builder, running.feeds(builder, tokens, values), ROOM)
        taken = running.times([call for call, _ in steps.values()], ROUNDS)
        logits = {name: read() for name, (_, read) in steps.items()}
        scale = np.abs(logits["ours"]).max()
        found[title] = {
            name: {
                "ms": 1e3 * float(middle),
                "ratio": ratio,
                "difference": float(np.abs(logits[name] - logits["ours"]).max() / scale),
            }
            for name, middle, ratio in zip(
                steps, np.median(taken, axis=0), running.ratios(taken), strict=True
            )
        }
        print(precision, threads, page.row(title, found[title]), flush=True)
    return found


def memory(path: Path) -> dict[str, Any]:
    """What `tools.llm.memory` finds in a process of its own."""
    command = [sys.executable, "-m", "tools.llm.memory", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def files(models: Path) -> dict[str, Any]:
    """Nodes and memory of each model, and whether it generates our tokens."""
    found: dict[str, Any] = {}
    for precision in PRECISIONS:
        for name in MODELS:
            path = models / f"{name}-{precision}" / "model.onnx"
            figures = memory(path)
            made = figures.pop("made")
            ours = made if name == "ours" else ours
            graph = onnx.load(path, load_external_data=False).graph
            same = next(
                (i for i, pair in enumerate(zip(made, ours)) if len({*pair}) > 1), len(made)
            )
            figures |= {"nodes": len(graph.node), "same tokens": same}
            found.setdefault(precision, {})[name] = figures
    return found


def versions(envs: Path) -> dict[str, str]:
    """Versions of the packages, by name; those of the twins by environment and name."""
    found = {name: version(name) for name in ("onnxruntime", "jax")}
    code = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"
    packages = {"optimum": ["optimum-onnx", "transformers", "torch", "onnxscript"]}
    packages["builder"] = ["onnxruntime-genai", "transformers", "torch"]
    for name, each in packages.items():
        command = [envs / name / "bin" / "python", "-c", code, *each]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        titles = [f"{package} ({name})" for package in each]
        found |= dict(zip(titles, done.stdout.split(), strict=True))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = command_line("llm", __doc__)
    parser.add_argument("--envs", type=Path, required=True, help="the folder of environments")
    parser.add_argument("--write", action="store_true", help="write docs/llm.json and docs/llm.md")
    given = parser.parse_args(argv)
    models = given.envs / "models"
    make(given.envs, models)
    record: dict[str, Any] = {"date": f"{date.today()}", "versions": versions(given.envs)}
    record["cache"] = cache.measure()
    record["files"] = files(models)
    record["times"] = {
        precision: {str(threads): measured(models, precision, threads) for threads in (1, 2)}
        for precision in PRECISIONS
    }
    text = page.text(record)
    print(text)
    if given.write:
        (ROOT / "docs" / "llm.json").write_text(json.dumps(record, indent=1) + "\n")
        write_page(ROOT / "docs" / "llm.md", text)
    return int(
        any(
            figures["difference"] > LIMITS[precision]
            for precision, by_threads in record["times"].items()
            for steps in by_threads.values()
            for row in steps.values()
            for figures in row.values()
        )
    )


if __name__ == "__main__":
    sys.exit(main())

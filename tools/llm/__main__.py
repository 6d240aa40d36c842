"""Measures a Llama in JAX beside the models of PyTorch's route, and writes docs/llm.md.

    python -m tools.llm --envs DIR              makes the models, measures, prints the tables
    python -m tools.llm --envs DIR --write      ... and writes docs/llm.json and docs/llm.md

DIR has the environments `optimum` and `builder`, and may have `hub` and `tunix`; docs/llm.md has
the commands.
The models are in DIR/models. Ours are made anew each time, others if they are missing. ONNX Runtime
is that of this environment. The exit code is 1 if the logits of a twin differ from ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tools import ROOT, command_line, environment, write_page
from tools.llm import cache, hub, page
from tools.llm.models import CONFIG, MODELS, PRECISIONS, make
from tools.llm.running import KEY_VALUE, bound, feeds, session, times

STEPS = {"prefill 128": (128, 0), "prefill 900": (900, 0)}
STEPS |= {"decode at 128": (1, 128), "decode at 900": (1, 900)}
"""New tokens and past of each step."""

ROOM = 1024
LIMITS = {"fp32": 1e-3, "int4": 0.03}
"""The largest difference of logits by the largest logit. With int4 weights, activations become
8-bit integers, and rounding errors take a value between two of them to either side."""

PACKAGES = {
    "optimum": ["optimum-onnx", "transformers", "torch", "onnxscript"],
    "builder": ["onnxruntime-genai", "transformers", "torch"],
    "hub": ["keras-hub", "jax"],
    "tunix": ["google-tunix", "jax"],
}


def measured(paths: dict[str, Path], threads: int) -> dict[str, Any]:
    """Our milliseconds, the ratios and the largest difference of each step."""
    sessions, found = {name: session(path, threads) for name, path in paths.items()}, {}
    rng = np.random.default_rng(0)
    inputs = [each.name for each in sessions["ours"].get_inputs()]
    for title, (new, past) in STEPS.items():
        shape = (1, CONFIG.kv_heads, past, CONFIG.head_dim)
        parts = (name for name in inputs if name.startswith(KEY_VALUE[0]))
        past_of = {name: rng.normal(size=shape).astype(np.float32) for name in parts}
        tokens = rng.integers(3, CONFIG.vocab, (1, new))
        steps = {n: bound(each, feeds(each, tokens, past_of)) for n, each in sessions.items()}
        builder = sessions["builder"]
        for name, given in ((page.OURS_SHARED, sessions["ours"]), (page.SHARED, builder)):
            steps[name] = bound(given, feeds(given, tokens, past_of), ROOM)
        middle, ratios = times([call for call, _ in steps.values()])
        ours, *logits = (read() for _, read in steps.values())
        found[title] = {
            "ms": float(middle[0]),
            "ratios": dict(zip(list(steps)[1:], ratios[1:].tolist(), strict=True)),
            "difference": float(max(abs(each - ours).max() for each in logits) / abs(ours).max()),
        }
        print(title, threads, found[title], flush=True)
    return found


def files(paths: dict[str, Path]) -> dict[str, Any]:
    """Nodes and MB of each model, and how many of our tokens it generates."""
    found: dict[str, Any] = {}
    ours: list[int] = []
    for name, path in paths.items():
        sizes = [str(CONFIG.kv_heads), str(CONFIG.head_dim)]
        command = [sys.executable, "-m", "tools.llm.memory", str(path), *sizes]
        figures, tokens = json.loads(subprocess.check_output(command, env=environment()))
        ours = ours or tokens
        equal = np.equal(ours, tokens)
        found[name] = {"nodes": len(onnx.load(path, load_external_data=False).graph.node)}
        found[name] |= {f"MB, {title}": each for title, each in figures.items()}
        found[name]["equal tokens"] = int(np.append(equal, False).argmin())
    return found


def versions(envs: Path) -> dict[str, str]:
    """The version of each package; those of the twins by name and environment."""
    found = {name: version(name) for name in ("onnxruntime", "jax")}
    for name in [name for name in PACKAGES if (envs / name).exists()]:
        packages = PACKAGES[name]
        (site,) = (envs / name).glob("lib/*/site-packages")
        for package in packages:
            (each,) = distributions(name=package, path=[str(site)])
            found[f"{package} ({name})"] = each.version
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = command_line("llm", __doc__)
    parser.add_argument("--envs", type=Path, required=True, help="the folder of environments")
    parser.add_argument("--write", action="store_true", help="write docs/llm.json and docs/llm.md")
    given = parser.parse_args(argv)
    make(given.envs)
    record: dict[str, Any] = {"date": f"{date.today()}", "versions": versions(given.envs)}
    record |= {"times": {}, "files": {}, "cache": cache.measure()}
    record["hub"] = hub.measure(given.envs / "models")
    right = True
    for each in PRECISIONS:
        paths = {name: given.envs / "models" / f"{name}-{each}" / "model.onnx" for name in MODELS}
        record["files"][each] = files(paths)
        for threads in (1, 2):
            steps = measured(paths, threads)
            right &= all(step["difference"] <= LIMITS[each] for step in steps.values())
            record["times"][f"{each}, {threads} thread{'s' * (threads > 1)}"] = steps
    print(page.text(record))
    if given.write:
        (ROOT / "docs" / "llm.json").write_text(json.dumps(record, indent=1) + "\n")
        write_page(ROOT / "docs" / "llm.md", page.text(record))
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())

"""Translates a program and applies the tools to it, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.verify.inputs import random_array
from tools import EXAMPLES, run_module

SECONDS = 300


def apply(name: str, tools: Sequence[str]) -> dict[str, str]:
    """The problem of each tool with a program; an empty text if it has none."""
    program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
    rng = np.random.default_rng(0)
    ports = program._source.signature.inputs
    feeds = to_model(program.input_names, [random_array(port, rng) for port in ports], ports)
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "model.onnx")
        arrays = {str(index): array for index, array in enumerate(feeds.values())}
        np.savez(Path(folder) / "inputs.npz", **arrays)  # type: ignore[arg-type]
        return {tool: _problem(folder, tool) for tool in tools}


def _problem(folder: str, tool: str) -> str:
    try:
        done = run_module("tools.interop.worker", [folder, tool], folder=folder, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    if done.returncode < 0:
        return f"killed by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return done.stderr.strip()[-1000:]
    return str(json.loads(done.stdout.splitlines()[-1]))

"""Translates a program and applies the tools to it, in processes of their own."""

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
        return _results(Path(folder), tools)


def _results(folder: Path, tools: Sequence[str]) -> dict[str, str]:
    """Runs the tools in a process, and in another one those after a tool that ended it."""
    results: dict[str, str] = {}
    while left := [name for name in tools if name not in results]:
        found, end = _process(folder, left)
        results |= found
        if end:
            ended = next((name for name in left if name not in found), left[-1])
            results[ended] = end
    return results


def _process(folder: Path, tools: Sequence[str]) -> tuple[dict[str, str], str]:
    arguments = [str(folder), *tools]
    try:
        done = run_module("tools.interop.worker", arguments, folder=folder, seconds=SECONDS)
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        text = output.decode() if isinstance(output, bytes) else output
        return _lines(text), f"no end after {SECONDS} s"
    end = ""
    if done.returncode < 0:
        end = f"killed by {signal.Signals(-done.returncode).name}"
    elif done.returncode:
        end = done.stderr.strip()[-1000:]
    return _lines(done.stdout), end


def _lines(text: str) -> dict[str, str]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"tool"')]
    return {line["tool"]: line["problem"] for line in lines}

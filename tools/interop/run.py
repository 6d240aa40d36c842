"""Translates a program and applies the tools to it, each in a process of its own.

Such a process runs this module as a command with a tool, the path of a JSON file to write its
problem to, and a folder with model.onnx and inputs.npz, whose arrays are in the order of the
model's inputs.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnxruntime as ort

from tools import EXAMPLES, result_of
from tools.interop.checks import TOOLS, Arrays, Given, fault

SECONDS = 300


def apply(name: str, tools: Sequence[str]) -> dict[str, str]:
    """The problem of each tool with a program; an empty text if it has none."""
    import hlo2onnx
    from hlo2onnx.runtime.calling import to_model
    from hlo2onnx.verify.inputs import random_array

    program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
    rng = np.random.default_rng(0)
    ports = program._source.signature.inputs
    feeds = to_model(program.input_names, [random_array(port, rng) for port in ports], ports)
    with tempfile.TemporaryDirectory() as folder:
        program.save(Path(folder) / "model.onnx")
        arrays = {str(index): array for index, array in enumerate(feeds.values())}
        np.savez(Path(folder) / "inputs.npz", **arrays)
        return {tool: _problem_in_process(folder, tool) for tool in tools}


def _problem_in_process(folder: str, tool: str) -> str:
    found, problem, log = result_of(
        "tools.interop.run", tool, [folder], seconds=SECONDS, python=sys.executable
    )
    return str(found) if found is not None else problem or log.strip()[-1000:]


def run(path: Path, inputs: Arrays) -> Arrays:
    """Calls a model in ONNX Runtime."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def given(folder: Path) -> Given:
    """The model in a folder, with its call."""
    path = folder / "model.onnx"
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    with np.load(folder / "inputs.npz") as arrays:
        inputs = dict(zip(names, (arrays[str(i)] for i in range(len(names))), strict=True))
    return Given(path, inputs, run(path, inputs), run)


def problem(name: str, model: Given) -> str:
    """What goes wrong when a tool is applied; empty if nothing does."""
    tool = TOOLS[name]
    try:
        version(tool.package)
    except PackageNotFoundError:
        return "skipped"
    try:
        made = tool.apply(model)
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return f"the tool fails: {type(error).__name__}: {error}"
    try:
        found = run(made.model, made.inputs)
    except Exception as error:  # noqa: BLE001 - likewise of ONNX Runtime
        return f"the result does not run: {error}"
    return fault(tool, found, made.outputs)


if __name__ == "__main__":
    logging.disable()
    Path(sys.argv[2]).write_text(json.dumps(problem(sys.argv[1], given(Path(sys.argv[3])))))

"""Applies a tool to one model, and prints what is wrong as JSON.

    python -m tools.interop.worker FOLDER TOOL

The folder has model.onnx and inputs.npz, whose arrays are in the order of the model's inputs.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import onnxruntime as ort

from tools.interop.checks import TOOLS, Arrays, Given, fault


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
    warnings.simplefilter("ignore")
    logging.disable()
    print(json.dumps(problem(sys.argv[2], given(Path(sys.argv[1])))))

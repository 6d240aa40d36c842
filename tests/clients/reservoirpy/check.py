"""An echo state network of reservoirpy as an ONNX file that runs without JAX."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from reservoirpy.jax.nodes import Reservoir, Ridge

import hlo2onnx

STEPS = 500
FORECAST = 50


def export(model, path):
    """Writes a model with one output as an ONNX file: a series of free length, and the state.

    Inputs: x (t, features) and a state for each node. Outputs: y (t, targets) and the next state.
    """
    (source,), (target,) = model.inputs, model.outputs

    def run(x, state):
        before = model.feedback_buffers, dict(zip(model.nodes, state, strict=True))
        (_, after), series = model._run(before, {source: x})
        return {"y": series[target], "state": [after[node] for node in model.nodes]}

    state = [node.state for node in model.nodes]
    hlo2onnx.translate(run, f"t, {source.input_dim}", state).save(path)


ALONE = """
import sys, time
import numpy as np
sys.modules["jax"] = sys.modules["jaxlib"] = None  # an import of JAX fails
import hlo2onnx.runtime

path, steps, forecast = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
saved = np.load(path + ".npz")
model = hlo2onnx.runtime.load(path)
state = [{"out": saved["state_0"]}, {"out": saved["state_1"]}]
result = model(saved["x"], state)
x, free, state = result["y"][-1:], [], result["state"]
for _ in range(forecast):  # the outputs are the next inputs
    step = model(x, state)
    x, state = step["y"], step["state"]
    free.append(x[0])
run, step = [], []
for _ in range(50):
    start = time.perf_counter()
    model(saved["x"], state)
    run.append(time.perf_counter() - start)
    start = time.perf_counter()
    model(x, state)
    step.append(time.perf_counter() - start)
times = [min(run) * 1e3, min(step) * 1e3]
np.savez(path + ".out.npz", y=result["y"], last=result["state"][0]["out"], free=free, times=times)
"""


def milliseconds(call: Callable[[], Any]) -> float:
    """The time of the fastest of many calls."""
    times = []
    for _ in range(50):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1e3, 3)


def main() -> int:
    phase = np.linspace(0, 60, 2000)
    series = np.stack([np.sin(phase), np.cos(2 * phase)], 1).astype(np.float32)
    reservoir = Reservoir(200, lr=0.3, sr=1.1, seed=1, dtype=np.float32)
    model = reservoir >> Ridge(ridge=1.0)
    model.fit(series[:-1], series[1:], warmup=100)
    model.reset()
    start = [np.asarray(node.state["out"]) for node in model.nodes]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "esn.onnx"
        export(model, path)
        np.savez(f"{path}.npz", x=series[:STEPS], state_0=start[0], state_1=start[1])
        command = [sys.executable, "-c", ALONE, str(path), str(STEPS), str(FORECAST)]
        subprocess.run(command, check=True)
        found = dict(np.load(f"{path}.out.npz"))
        figures: dict[str, Any] = {"nodes": len(onnx.load(path).graph.node)}
        figures["bytes"] = path.stat().st_size
    expected = np.asarray(model.run(series[:STEPS]))
    last = np.asarray(reservoir.state["out"])
    free, x = [], expected[-1]
    for _ in range(FORECAST):
        x = model.step(x)
        free.append(np.asarray(x))
    figures |= {
        "error": float(np.abs(found["y"] - expected).max()),
        "error_of_state": float(np.abs(found["last"] - last).max()),
        "error_of_forecast": float(np.abs(found["free"] - np.array(free)).max()),
        "ort_ms": [round(float(value), 3) for value in found["times"]],
        "own_ms": [
            milliseconds(lambda: jax.block_until_ready(model.run(series[:STEPS]))),
            milliseconds(lambda: jax.block_until_ready(model.step(series[0]))),
        ],
    }
    names = ("reservoirpy", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return max(value for name, value in figures.items() if name.startswith("error")) > 1e-4


if __name__ == "__main__":
    sys.exit(main())

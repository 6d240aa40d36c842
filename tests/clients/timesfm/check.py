"""TimesFM 2.5 (flax) as an ONNX file that forecasts without JAX.

The weights are random, and there are 4 of the 20 layers.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
import onnx
from flax import nnx
from timesfm.timesfm_2p5.timesfm_2p5_flax import TimesFM_2p5_200M_flax_module
from timing import microseconds

import hlo2onnx

HORIZON = 256
DEFINITION = TimesFM_2p5_200M_flax_module.config
LAYERS = replace(DEFINITION.stacked_transformers, num_layers=4)
SHAPES = ((3, 256), (1, 1024))


class Small(TimesFM_2p5_200M_flax_module):
    """The network with fewer layers."""

    config = replace(DEFINITION, stacked_transformers=LAYERS)


def export(model, path, horizon):
    """Writes `model.decode` as an ONNX file: any number of series, of any number of patches."""
    graph, state = nnx.split(model)

    def decode(state, inputs, masks):
        return nnx.merge(graph, state).decode(horizon, inputs, masks)

    series = f"b, {model.p}*n"
    types = f"float32[{series}]", f"bool[{series}]"
    hlo2onnx.translate(decode, state, *types, bind="state").save(path)


ALONE = """
import sys
import numpy as np
sys.modules["jax"] = sys.modules["jaxlib"] = None  # an import of JAX fails
import hlo2onnx.runtime
from timing import microseconds

folder, count = sys.argv[1], int(sys.argv[2])
model = hlo2onnx.runtime.load(folder + "/timesfm.onnx", threads=2)
for i in range(count):
    given = np.load(f"{folder}/{i}.npz")
    series, masks = given["series"], given["masks"]
    time = microseconds(lambda: model(series, masks), 20)
    np.savez(f"{folder}/{i}.out.npz", *model(series, masks), time=time)
"""


def main() -> int:
    model = Small()
    graph, state = nnx.split(model)
    rng = np.random.default_rng(0)
    given = []
    for shape in SHAPES:
        masks = np.arange(shape[1]) < rng.integers(0, 100, (shape[0], 1))
        given.append((np.cumsum(rng.normal(size=shape), 1).astype(np.float32), masks))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timesfm.onnx"
        export(model, path, HORIZON)
        for i, (series, masks) in enumerate(given):
            np.savez(f"{folder}/{i}.npz", series=series, masks=masks)
        command = [sys.executable, "-c", ALONE, folder, str(len(given))]
        subprocess.run(command, check=True)
        found = [dict(np.load(f"{folder}/{i}.out.npz")) for i in range(len(given))]
        figures = {"nodes": len(onnx.load(path, load_external_data=False).graph.node)}
        figures["bytes"] = sum(file.stat().st_size for file in Path(folder).glob("timesfm.onnx*"))
    run = jax.jit(lambda *inputs: nnx.merge(graph, inputs[0]).decode(HORIZON, *inputs[1:]))
    errors, times, own = [], [], []
    for inputs, results in zip(given, found, strict=True):
        times.append(round(float(results.pop("time")) / 1e3, 1))
        own.append(microseconds(lambda: jax.block_until_ready(run(state, *inputs)), 20) / 1e3)  # noqa: B023
        for wanted, made in zip(run(state, *inputs), results.values(), strict=True):
            errors.append(float(np.abs(made - wanted).max() / np.abs(wanted).max()))
    figures |= {"error": max(errors), "ort_ms": times, "own_ms": [round(x, 1) for x in own]}
    names = ("timesfm", "flax", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return figures["error"] > 1e-5


if __name__ == "__main__":
    sys.exit(main())

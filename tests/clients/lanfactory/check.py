"""The ONNX export of lanfactory with hlo2onnx in jax2onnx' place, and with jax2onnx."""

from __future__ import annotations

import json
import pickle
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from jaxonnxruntime import call_onnx
from lanfactory.onnx import assert_single_trial_contract, transform_jax_to_onnx
from lanfactory.trainers import JaxMLPFactory
from timing import microseconds

import hlo2onnx.compat.jax2onnx

WIDTH = 6
COUNT = 1000
"""Trials on which the outputs are compared."""
CASES = {
    "LAN, tanh": ("tanh", "logprob"),
    "LAN, relu": ("relu", "logprob"),
    "LAN, sigmoid": ("sigmoid", "logprob"),
    "CPN, tanh": ("tanh", "logits"),
}


def measured(path: Path, trials: np.ndarray, expected: np.ndarray) -> dict[str, Any]:
    """What ONNX Runtime and jaxonnxruntime, which HSSM reads the file with, make of a file."""
    contract = assert_single_trial_contract(path, expected_input_width=WIDTH)
    session = onnxruntime.InferenceSession(path)
    name = session.get_inputs()[0].name
    found = np.concatenate([session.run(None, {name: trial[None]})[0] for trial in trials])
    model = onnx.load(path)
    function, weights = call_onnx.call_onnx_model(model, {name: trials[:1]})
    # HSSM maps the model of one trial over all of them.
    mapped = jax.vmap(lambda trial: function(weights, {name: trial[None]})[0][0])(trials)
    return {
        "error": float(np.abs(found - expected).max()),
        "error_in_jaxonnxruntime": float(np.abs(mapped - expected).max()),
        "operators": contract["ops"],
        "bytes": path.stat().st_size,
        "ort_us": microseconds(lambda: session.run(None, {name: trials[:1]})),
    }


def compare(case: str, folder: Path) -> dict[str, Any]:
    """Exports a network with random weights twice."""
    activation, output = CASES[case]
    config = {
        "layer_sizes": [100, 100, 100, 1],
        "activations": [activation] * 3 + ["linear"],
        "train_output_type": output,
    }
    network = JaxMLPFactory(network_config=config, train=False)
    state = network.init(jax.random.key(0), jnp.zeros((1, WIDTH)))
    (folder / "config.pickle").write_bytes(pickle.dumps(config))
    (folder / "state.jax").write_bytes(flax.serialization.to_bytes(state))
    trials = np.random.default_rng(0).normal(0, 2, (COUNT, WIDTH)).astype(np.float32)
    forward = jax.jit(network.apply)
    expected = np.asarray(forward(state, trials))

    def exported(name: str) -> dict[str, Any]:
        path = folder / name
        files = (str(folder / "config.pickle"), str(folder / "state.jax"))
        transform_jax_to_onnx(*files, WIDTH, str(path))
        return measured(path, trials, expected)

    with mock.patch.dict(sys.modules, {"jax2onnx": hlo2onnx.compat.jax2onnx}):
        ours = exported("ours.onnx")
    try:
        theirs = exported("theirs.onnx")
    except Exception as error:  # noqa: BLE001, any failure of the other exporter is a figure
        theirs = {"fails": repr(error)}
    one = jnp.asarray(trials[:1])
    predict = microseconds(lambda: forward(state, one).block_until_ready())
    return {"hlo2onnx": ours, "jax2onnx": theirs, "flax_us": predict}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
    names = ("lanfactory", "jax2onnx", "jaxonnxruntime", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    ours = [figure["hlo2onnx"] for figure in figures.values()]
    errors = [figure[key] for figure in ours for key in ("error", "error_in_jaxonnxruntime")]
    return max(errors) > 1e-5


if __name__ == "__main__":
    sys.exit(main())

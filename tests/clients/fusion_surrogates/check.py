"""The plasma networks of fusion-surrogates: their JAX models beside the ONNX file in its wheel."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import unittest
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from fusion_surrogates.fast_ion_stabilization import fast_ion_model
from fusion_surrogates.qlknn import qlknn_model
from fusion_surrogates.qlknn.models import qlknn_7_11_onnx_test, registry
from timing import microseconds

import hlo2onnx

NAME = "qlknn_7_11_v1"
COUNT = 1000
"""Random inputs on which the fluxes are compared."""


def export_onnx(model, path):
    """Writes `model.predict` as an ONNX file: a batch of inputs to one output for each flux."""
    inputs = f"batch_size, {model.num_inputs}"
    program = hlo2onnx.translate(model.predict, inputs, input_names=["input"], opset=17)
    program.save(path)


def exact(model: qlknn_model.QLKNNModel, inputs: np.ndarray) -> dict[str, Any]:
    """The fluxes in float64."""
    with jax.enable_x64(True):
        double = qlknn_model.QLKNNModel.load_model_from_name(NAME)
        widen = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), tree)  # noqa: E731
        double.params = widen(model.params)
        stats = double.config.stats_data
        for name, value in vars(model.config.stats_data).items():
            setattr(stats, name, widen(value))
        return jax.tree.map(np.asarray, double.predict(widen(inputs)))


def largest(found: dict[str, Any], expected: dict[str, Any]) -> float:
    """The largest error of a flux, in units of its largest value."""
    assert found.keys() == expected.keys()
    errors = [np.abs(found[name] - expected[name]).max() for name in expected]
    sizes = [np.abs(value).max() for value in expected.values()]
    return max(float(e / s) for e, s in zip(errors, sizes, strict=True))


def measured(path: Path, inputs: np.ndarray, reference: dict[str, Any]) -> dict[str, Any]:
    """A file's fluxes and figures."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    names = [port.name for port in session.get_outputs()]
    fluxes = dict(zip(names, session.run(None, {"input": inputs}), strict=True))
    nodes = [node.op_type for node in onnx.load(path).graph.node]
    figures = {
        "error": largest(fluxes, reference),
        "nodes": len(nodes) - nodes.count("Constant"),
        "bytes": path.stat().st_size,
        "ort_us": microseconds(lambda: session.run(None, {"input": inputs[:1]})),
        "ort_us_batch": microseconds(lambda: session.run(None, {"input": inputs})),
    }
    return {"fluxes": fluxes, **figures}


def own_test(path: Path) -> bool:
    """Whether the package's test of its ONNX file passes with another file."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(qlknn_7_11_onnx_test)
    with mock.patch.object(registry, "ONNX_MODELS", {NAME: str(path)}):
        return suite.countTestCases() > 0 and unittest.TextTestRunner().run(suite).wasSuccessful()


def fast_ions(inputs: np.ndarray) -> float:
    """The largest error of the models of fast ions, which have no ONNX file."""
    errors = []
    for name in ("fast_ion_H_v1", "fast_ion_He3_v1"):
        model = fast_ion_model.FastIonStabilizationModel.load_model_from_name(name)
        stats = model.config.input_stats
        low, high = np.asarray(stats.min), np.asarray(stats.max)
        # A part of the inputs is outside of the training data.
        points = (low + inputs[:, : low.size] * (high - low) * 1.2).astype(np.float32)
        predict = functools.partial(model.predict, clip_inputs=True)
        factor, outside = hlo2onnx.translate(predict, f"b, {low.size}")(points)
        expected, expected_outside = jax.jit(predict)(points)
        assert np.array_equal(outside, expected_outside)
        errors.append(float(np.abs(factor - expected).max()))
    return max(errors)


def main() -> int:
    model = qlknn_model.QLKNNModel.load_model_from_name(NAME)
    ranges = model.inputs_and_ranges.values()
    unit = np.random.default_rng(0).uniform(size=(COUNT, model.num_inputs))
    low, high = (np.array([bounds[key] for bounds in ranges]) for key in ("min", "max"))
    inputs = (low + unit * (high - low)).astype(np.float32)
    reference = exact(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        export_onnx(model, path)
        ours = measured(path, inputs, reference)
        passes = own_test(path)
    shipped = measured(Path(registry.ONNX_MODELS[NAME]), inputs, reference)
    apart = largest(ours.pop("fluxes"), shipped.pop("fluxes"))
    predict = jax.jit(model.predict)
    figures = {
        "hlo2onnx": ours,
        "shipped": shipped,
        "apart": apart,
        "error_of_jax": largest(jax.tree.map(np.asarray, predict(inputs)), reference),
        "own_test": passes,
        "jax_us": microseconds(lambda: jax.block_until_ready(predict(inputs[:1]))),
        "jax_us_batch": microseconds(lambda: jax.block_until_ready(predict(inputs))),
        "error_of_fast_ions": fast_ions(unit),
    }
    names = ("fusion-surrogates", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    rounding = max(ours["error"], apart, figures["error_of_fast_ions"]) < 1e-5
    return not (rounding and passes and ours["nodes"] <= shipped["nodes"])


if __name__ == "__main__":
    sys.exit(main())

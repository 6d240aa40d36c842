"""Trained estimators of bayesflow as ONNX files: log_prob and sample beside its own."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import bayesflow as bf
import keras
import numpy as np
import onnx
import onnxruntime

import hlo2onnx

DRAWS = 50
"""Samples for each data set."""
DATA = 20
"""Data sets of the comparison."""
CASES: dict[str, tuple[Callable[[], Any], bool]] = {
    # A network, and whether JAX can trace its log_prob for a free number of data sets.
    "CouplingFlow, affine": (lambda: bf.networks.CouplingFlow(depth=2), True),
    "CouplingFlow, spline": (lambda: bf.networks.CouplingFlow(depth=2, transform="spline"), True),
    "FlowMatching": (lambda: bf.networks.FlowMatching(subnet_kwargs={"widths": (64, 64)}), False),
}


def export(estimator, data, folder, num_samples, dynamic=True):
    """Writes `log_prob.onnx` and `sample.onnx` of a trained estimator.

    The inputs are adapted data; `seed` of sample is that of keras: uint32[2], (seed, 0).
    """
    adapted = estimator.adapter(data, strict=False, stage="inference")
    conditions = {name: value for name, value in adapted.items() if name != "inference_variables"}

    def log_prob(data):
        return estimator.log_prob(data, to_numpy=False)

    def sample(conditions, seed):
        generator = keras.random.SeedGenerator(0)
        with keras.StatelessScope(state_mapping=[(generator.state, seed)]):
            draws = estimator.sample(
                num_samples=num_samples, conditions=conditions, seed=generator, to_numpy=False
            )
        return draws["inference_variables"]

    adapter, estimator.adapter = estimator.adapter, bf.Adapter()  # the data is adapted
    try:
        free = {0: "b, ..."}
        density = hlo2onnx.translate(log_prob, adapted, dynamic=free if dynamic else None)
        density.save(folder / "log_prob.onnx")
        draws = hlo2onnx.translate(sample, conditions, np.zeros(2, np.uint32), dynamic=free)
        draws.save(folder / "sample.onnx")
    finally:
        estimator.adapter = adapter


random = np.random.default_rng(0)


def prior() -> dict[str, np.ndarray]:
    return {"theta": random.normal(size=2)}


def likelihood(theta: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": random.normal(theta, 0.5, size=(10, 2))}


def milliseconds(call: Callable[[], Any]) -> float:
    """The time of the fastest of some calls."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1e3, 2)


def measured(path: Path, inputs: list[np.ndarray], own: Callable[[], Any]) -> dict[str, Any]:
    """The figures of a file beside the estimator's own numbers."""
    session = onnxruntime.InferenceSession(path)
    names = [port.name for port in session.get_inputs()]
    call = dict(zip(names, map(np.asarray, inputs), strict=True))
    (found,) = session.run(None, call)
    expected = np.asarray(own())
    assert found.shape == expected.shape and found.dtype == expected.dtype
    return {
        "error": float(np.abs(found - expected).max() / np.abs(expected).max()),
        "nodes": len(onnx.load(path).graph.node),
        "bytes": path.stat().st_size,
        "ort_ms": milliseconds(lambda: session.run(None, call)),
        "own_ms": milliseconds(own),
    }


def compare(case: str, folder: Path) -> dict[str, Any]:
    """Trains an estimator for a few steps, exports it, and compares its numbers."""
    network, dynamic = CASES[case]
    keras.utils.set_random_seed(0)
    simulator = bf.simulators.make_simulator([prior, likelihood])
    workflow = bf.BasicWorkflow(
        simulator=simulator,
        inference_network=network(),
        summary_network=bf.networks.DeepSet(summary_dim=4, depth=1),
        inference_variables=["theta"],
        summary_variables=["x"],
    )
    workflow.fit_online(epochs=2, batch_size=32, num_batches_per_epoch=20, verbose=0)
    estimator = workflow.estimator
    # A free size is exported at another size than it is called with.
    data = simulator.sample(DATA)
    export(estimator, simulator.sample(3) if dynamic else data, folder, DRAWS, dynamic)
    adapted = estimator.adapter(data, strict=False, stage="inference")
    theta, x = adapted["inference_variables"], adapted["summary_variables"]
    own_sample = lambda: estimator.sample(num_samples=DRAWS, conditions=data, seed=7)["theta"]  # noqa: E731
    return {
        "log_prob": measured(
            folder / "log_prob.onnx", [theta, x], lambda: estimator.log_prob(data)
        ),
        "sample": measured(folder / "sample.onnx", [x, np.uint32([7, 0])], own_sample),
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
    names = ("bayesflow", "keras", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return max(file["error"] for case in figures.values() for file in case.values()) > 2e-5


if __name__ == "__main__":
    sys.exit(main())

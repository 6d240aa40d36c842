"""`Model.export` of Keras on JAX, with hlo2onnx in jax2onnx' place: its own tests, and more."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np
import onnxruntime
from keras import layers
from timing import microseconds

import hlo2onnx.compat.jax2onnx

SKIP = 'backend.backend() in ("jax", "tensorflow")'
"""Keras skips the LSTM for jax2onnx."""


def own_tests(folder: Path) -> int:
    """Count of Keras' tests of the export to ONNX; all of them pass, and none is skipped."""
    tests = Path(keras.__file__).parent / "src" / "export" / "onnx_test.py"
    text = tests.read_text(encoding="utf-8")
    assert SKIP in text
    text = text.replace(SKIP, 'backend.backend() == "tensorflow"')
    (folder / "test_export.py").write_text(text, encoding="utf-8")
    stub = "from hlo2onnx.compat.jax2onnx import to_onnx\n"
    (folder / "jax2onnx.py").write_text(stub, encoding="utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_export.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.search(r"^(\d+) passed(?!.*skipped)", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and counts, done.stdout + done.stderr
    return int(counts[1])


def recurrent(*parts: Any) -> keras.Model:
    """A network of sequences of free length."""
    return keras.Sequential([keras.Input((None, 8)), *parts, layers.Dense(3)])


def transformer() -> keras.Model:
    """A block with attention, for texts of free length."""
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(50, 16)(tokens)
    y = layers.MultiHeadAttention(4, 4)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + y)
    y = layers.Dense(16)(layers.Dense(32, activation="gelu")(x))
    return keras.Model(tokens, layers.Dense(50)(layers.LayerNormalization()(x + y)))


def images() -> keras.Model:
    """A convolutional network for images of free size."""
    return keras.Sequential(
        [
            keras.Input((None, None, 3)),
            layers.Conv2D(8, 3, strides=2, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.SeparableConv2D(16, 3, padding="same"),
            layers.MaxPooling2D(2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ]
    )


CASES: dict[str, tuple[Callable[[], keras.Model], list[tuple[int, ...]]]] = {
    "LSTM": (lambda: recurrent(layers.LSTM(16, return_sequences=True)), [(2, 5, 8), (3, 9, 8)]),
    "Bidirectional LSTM": (
        lambda: recurrent(layers.Bidirectional(layers.LSTM(16, return_sequences=True))),
        [(2, 5, 8), (3, 9, 8)],
    ),
    "GRU, reset_after": (
        lambda: recurrent(layers.GRU(16, reset_after=True)),
        [(2, 5, 8), (3, 9, 8)],
    ),
    "GRU, reset before": (
        lambda: recurrent(layers.GRU(16, reset_after=False)),
        [(2, 5, 8), (3, 9, 8)],
    ),
    "Bidirectional GRU, stacked": (
        lambda: recurrent(
            layers.Bidirectional(layers.GRU(16, return_sequences=True)),
            layers.Bidirectional(layers.GRU(8, reset_after=False), merge_mode="sum"),
        ),
        [(2, 5, 8), (3, 9, 8)],
    ),
    "transformer": (transformer, [(2, 7), (3, 12)]),
    "images": (images, [(2, 32, 32, 3), (1, 48, 40, 3)]),
}


def compare(case: str, folder: Path) -> dict[str, Any]:
    """Exports a model with free dimensions, and compares it at two sizes."""
    make, shapes = CASES[case]
    keras.utils.set_random_seed(0)
    model = make()
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:  # also biases, which are zeros at first
        variable.assign(variable + rng.normal(0, 0.1, variable.shape))
    model(np.zeros(shapes[0], model.inputs[0].dtype))  # Keras wants it called
    path = folder / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    (port,) = session.get_inputs()
    errors = []
    for shape in shapes:
        is_text = port.type == "tensor(int32)"
        x = rng.integers(0, 50, shape, np.int32) if is_text else rng.normal(size=shape)
        x = x.astype(np.int32 if is_text else np.float32)
        (found,) = session.run(None, {port.name: x})
        expected = model.predict(x, verbose=0)
        assert found.shape == expected.shape
        errors.append(float(np.abs(found - expected).max()))
    proto = hlo2onnx.compat.jax2onnx.onnx.load(path)
    return {
        "free": sum(isinstance(size, str) for size in port.shape),
        "error": max(errors),
        "operators": sorted({node.op_type for node in proto.graph.node}),
        "bytes": path.stat().st_size,
        "ort_us": microseconds(lambda: session.run(None, {port.name: x}), 200),
        "predict_us": microseconds(lambda: model.predict(x, verbose=0), 10),
    }


def main() -> int:
    sys.modules["jax2onnx"] = hlo2onnx.compat.jax2onnx
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
        passed = own_tests(Path(folder))
    versions = {name: version(name) for name in ("keras", "jax", "onnxruntime")}
    print(json.dumps({"versions": versions, "own tests": passed, **figures}))
    return passed < 16 or max(figure["error"] for figure in figures.values()) > 1e-5


if __name__ == "__main__":
    sys.exit(main())

"""OnnxProgram: the model itself, saving and verifying it."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import hlo2onnx
from hlo2onnx.runtime import saving

X = np.array([1.0, -2.0, 0.5], np.float32)
WEIGHTS = np.arange(1500, dtype=np.float32).reshape(3, 500)


def test_model_proto_and_repr() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(X))
    assert [value.name for value in program.model_proto.graph.input] == ["x"]
    assert program.model_proto.SerializeToString()
    assert "x -> result" in repr(program)
    assert "1 Add" in str(program.report)


@pytest.mark.parametrize("as_string", [False, True])
def test_save(as_string: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    hlo2onnx.translate(lambda x: x + X, X).save(str(path) if as_string else path)
    onnx.checker.check_model(str(path), full_check=True)
    assert [item.name for item in tmp_path.iterdir()] == ["model.onnx"]


def test_save_with_external_data(tmp_path: Path) -> None:
    program = hlo2onnx.translate(lambda x: x @ WEIGHTS, X)
    program.save(tmp_path / "model.onnx", external_data=True)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    assert any(tensor.external_data for tensor in model.graph.initializer)
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    np.testing.assert_allclose(session.run(None, {"x": X})[0], program(X))


def test_large_models_run_and_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = hlo2onnx.translate(lambda x: x @ WEIGHTS, X)
    monkeypatch.setattr(saving, "EXTERNAL_DATA_BYTES", 1000)
    np.testing.assert_allclose(program(X), X @ WEIGHTS, rtol=1e-6)
    program.save(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx.data").exists()


@pytest.mark.parametrize("room", [0, -1])
def test_a_model_of_the_largest_size(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything in it counts; where it does not fit, what is there stays there."""
    program, path = hlo2onnx.translate(lambda x: x @ WEIGHTS, X), tmp_path / "model.onnx"
    program.save(path, external_data=False)
    content = path.read_bytes()
    monkeypatch.setattr(saving, "MAX_MODEL_BYTES", len(content) + room)
    if room < 0:
        with pytest.raises(hlo2onnx.UsageError, match="2 GB"):
            program.save(path, external_data=False)
    else:
        program.save(path, external_data=False)
    assert path.read_bytes() == content


def test_save_into_no_folder(tmp_path: Path) -> None:
    program = hlo2onnx.translate(lambda x: x, X)
    with pytest.raises(hlo2onnx.UsageError, match="no folder"):
        program.save(tmp_path / "missing" / "model.onnx")


def test_verify() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x, unused, *, s: {"y": jnp.tanh(x) * s}), X, 1, s=2)
    assert program.verify()
    assert program.verify(X, 1, s=3)
    with pytest.raises(hlo2onnx.SignatureError):
        program.verify(X)

"""Programs can be pickled and copied, and their sessions chosen."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import onnxruntime as ort
import pytest

import hlo2onnx
from hlo2onnx.runtime import sessions

X = np.array([1.0, -2.0, 0.5], np.float32)
CPU = ["CPUExecutionProvider"]


def again(program: Any) -> Any:
    return pickle.loads(pickle.dumps(program))


@pytest.mark.wide
@pytest.mark.parametrize("made", [again, copy.copy, copy.deepcopy])
def test_a_copy_is_called_and_verified(made: Any) -> None:
    def function(p: Any, key: jax.Array) -> Any:
        return {"y": p["x"] * 2, "bits": jax.random.bits(key), "key": key}

    args = ({"x": X}, jax.random.key(0))
    program = hlo2onnx.translate(function, *args, dynamic={"p": "b"}, denormals="keep")
    program(*args)
    found = made(program)
    assert found.report == program.report
    want, got = program(*args), found(*args)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert got["key"].dtype == want["key"].dtype
    np.testing.assert_array_equal(got["y"], 2 * X)
    assert found.verify(*args)
    assert str(found.explain("relu")) == str(program.explain("relu"))
    assert found._runtime is not program._runtime


@pytest.mark.wide
def test_arguments_with_functions() -> None:
    """The functions cannot be pickled, so the source is left out."""
    mlp = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    program = hlo2onnx.translate(lambda m, x: (m(x), m.layers[0]), mlp, X)
    found = again(again(program))
    want, got = program(mlp, X), found(mlp, X)
    np.testing.assert_array_equal(got[0], want[0])
    assert isinstance(got[1], eqx.nn.Linear)
    with pytest.raises(hlo2onnx.UsageError, match="source"):
        found.verify()


def test_new_weights() -> None:
    """A pickled model does not know its weights; a copy of the program does."""
    params = {"w": np.ones(3, np.float32)}
    program = hlo2onnx.translate(lambda p, x: p["w"] * x, params, X, bind="p")
    with pytest.raises(hlo2onnx.UsageError, match="loaded or pickled"):
        again(program).apply_weights({"p": params})
    np.testing.assert_array_equal(again(program)(X), X)
    program.apply_weights({"p": {"w": 2 * params["w"]}})
    np.testing.assert_array_equal(again(program)(X), 2 * X)
    assert again(program).verify(X)


def test_custom_translations_that_cannot_be_pickled() -> None:
    program = hlo2onnx.translate(lambda x: x, X, custom_calls={"mine": lambda x: x})
    np.testing.assert_array_equal(again(program)(X), X)


def test_a_light_program(tmp_path: Path) -> None:
    hlo2onnx.translate(lambda x: x + 1, X).save(tmp_path / "m.onnx")
    program = hlo2onnx.runtime.load(tmp_path / "m.onnx", threads=1)
    for found in (again(program), copy.copy(program), copy.deepcopy(program)):
        np.testing.assert_array_equal(found(X), X + 1)
        assert found._runtime is not program._runtime


def test_too_large_to_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    program = hlo2onnx.translate(lambda x: x * np.arange(3, dtype=np.float32), X)
    monkeypatch.setattr("hlo2onnx.pickling.MODEL_BYTES", 10)
    with pytest.raises(hlo2onnx.UsageError, match="save and load it instead"):
        pickle.dumps(program)


# -- sessions ---------------------------------------------------------------------------------


def test_a_session_of_your_own(tmp_path: Path) -> None:
    program = hlo2onnx.translate(lambda x: x + 1, X)
    program.save(tmp_path / "m.onnx")
    options = ort.SessionOptions()
    for item in (program, hlo2onnx.runtime.load(tmp_path / "m.onnx")):
        session = item.session(CPU, options, threads=1)
        assert session.get_providers() == CPU
        assert session.get_session_options().intra_op_num_threads == 1
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 1)


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ("CPUExecutionProvider", "is not a list of names"),
        ([], "is not a list of names"),
        (["CudaExecutionProvider"], "names 'CudaExecutionProvider'; this build .* has .*CPU"),
        ([("NoExecutionProvider", {})], "names 'NoExecutionProvider'"),
        ([3], "holds 3, which is not a name or pair of a name and options"),
        ([("CPUExecutionProvider", 3)], "which is not a name or pair"),
    ],
)
def test_providers_that_do_not_exist(providers: Any, message: str, tmp_path: Path) -> None:
    program = hlo2onnx.translate(lambda x: x + 1, X)
    program.save(tmp_path / "m.onnx")
    with pytest.raises(hlo2onnx.UsageError, match=message):
        program.providers = providers
    for load in (hlo2onnx.load, hlo2onnx.runtime.load):
        with pytest.raises(hlo2onnx.UsageError, match=message):
            load(tmp_path / "m.onnx", providers=providers)
    np.testing.assert_array_equal(program(X), X + 1)


def test_providers_reach_every_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls, steps, verifications and profiles ask for the providers of the program."""
    asked = []
    original = ort.InferenceSession

    def session(model: Any, options: Any, providers: Any) -> Any:
        asked.append(providers)
        return original(model, options, providers=CPU)

    monkeypatch.setattr(ort, "InferenceSession", session)
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["FastProvider", *CPU])
    program = hlo2onnx.translate(jax.jit(lambda x: x + 1, donate_argnums=0).lower(X))
    program(X)
    assert asked == [CPU]
    wanted = [("FastProvider", {"device_id": 1}), *CPU]
    program.providers = wanted
    for use in (
        program,
        program.step,
        program.verify,
        program.profile,
        lambda x: program.session(),
    ):
        asked.clear()
        with pytest.raises(hlo2onnx.VerificationError, match="FastProvider does not start"):
            use(X)
        assert asked == [wanted]
    assert tuple(CPU) == sessions.DEFAULT_PROVIDERS

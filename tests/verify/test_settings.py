"""The options of a verification."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest

import hlo2onnx
from hlo2onnx.verify import judge

X = np.linspace(0.5, 2, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def product() -> hlo2onnx.OnnxProgram:
    """A program whose factor is wrong by 1e-4."""
    program = hlo2onnx.translate(jax.jit(lambda x: x * 3).lower(X))
    for value in program.model.graph.initializers.values():
        value.const_value = oir.Tensor(np.float32(3) + np.float32(1e-4), name=value.name)
    return program


@pytest.mark.parametrize(
    ("given", "ok"),
    [({}, False), ({"rtol": 1e-4}, True), ({"rtol": 1e-5}, False), ({"atol": 3e-4}, True),
     ({"atol": 1e-5}, False)],
)  # fmt: skip
def test_tolerances(product: hlo2onnx.OnnxProgram, given: dict[str, float], ok: bool) -> None:
    assert product.verify(X, **given).ok == ok


def test_inputs() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x, y: x + y).lower(X, X))
    assert program.verify(inputs=(X, X)).samples == 1
    program = hlo2onnx.translate(jax.jit(lambda x, y: x + y).lower(x=X, y=X))
    assert program.verify(inputs={"x": X, "y": X}).ok


def test_keywords_with_the_name_of_an_option() -> None:
    lowered = jax.jit(lambda inputs, *, samples: inputs + samples).lower(inputs=X, samples=X)
    found = hlo2onnx.translate(lowered).verify(inputs={"inputs": X, "samples": X})
    assert found.ok
    assert found.samples == 1


def test_inputs_from_a_function_of_a_seed() -> None:
    seeds = []

    def make(seed: int) -> np.ndarray:
        seeds.append(seed)
        return X + seed

    program = hlo2onnx.translate(jax.jit(jnp.sin).lower(X))
    found = program.verify(inputs=make, seed=5, samples=4)
    assert seeds == [5, 6, 7, 8]
    assert found.samples == 4


def test_a_difference_names_its_sample(product: hlo2onnx.OnnxProgram) -> None:
    found = product.verify(inputs=lambda seed: X if seed == 1 else 0 * X)
    assert "DIFFERS in inputs of seed 1" in str(found)


WRONG: dict[str, dict[str, Any]] = {
    "samples=0": {"samples": 0},
    "samples=True": {"samples": True},
    "rtol=-1": {"rtol": -1},
    "rtol=nan": {"rtol": float("nan")},
    "atol='1'": {"atol": "1"},
    "sizes=3": {"sizes": 3},
    "no dimension b": {"sizes": {"b": 3}},
    "samples= has no meaning with inputs": {"inputs": X, "samples": 2},
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_options(product: hlo2onnx.OnnxProgram, text: str) -> None:
    with pytest.raises(hlo2onnx.UsageError, match=text):
        product.verify(**WRONG[text])
    with pytest.raises(hlo2onnx.UsageError, match="inputs= has no meaning with arguments"):
        product.verify(X, inputs=X)


def test_rounded_weights() -> None:
    """The reference has the weights of the model, also where these are constants."""
    weights = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    lowered = jax.jit(lambda x: x @ weights).lower(X)
    exact = hlo2onnx.translate(lowered)
    rounded = hlo2onnx.translate(lowered, weights_dtype="float16")
    assert rounded.verify().ok
    assert not np.allclose(exact(X), rounded(X), rtol=1e-5)


def test_slow_models_run_on_few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    program = hlo2onnx.translate(jax.jit(jnp.sin).lower(X))
    monkeypatch.setattr(judge, "_SECONDS", 0.0)
    monkeypatch.setattr(judge, "_SHARE", 0.0)
    found = program.verify()
    assert found.ok
    assert found.samples == 2
    assert "note     2 of these samples ran: the model is slow" in str(found)
    assert program.verify(samples=5).samples == 5

"""Arguments that become initializers of the model."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.errors import UsageError


def apply(params: Any, x: jax.Array, *, scale: jax.Array) -> jax.Array:
    for layer in params["layers"]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ params["layers"][0]["w"]) * scale


def params() -> Any:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((32, 32)).astype(np.float32)
    biases = rng.standard_normal((2, 32)).astype(np.float32)
    return {"layers": [{"w": shared, "b": bias} for bias in biases]}


X = np.ones((3, 32), np.float32)
SCALE = np.float32(2)


def programs() -> dict[str, Any]:
    weights = params()
    lowered = jax.jit(apply).lower(weights, X, scale=SCALE)
    exported = jax.export.export(jax.jit(apply))(weights, X, scale=SCALE)
    return {
        "by name": lambda: hlo2onnx.translate(apply, weights, X, scale=SCALE, bind="params"),
        "by position": lambda: hlo2onnx.translate(apply, weights, X, scale=SCALE, bind=0),
        "lowered": lambda: hlo2onnx.translate(lowered, bind={"params": weights}),
        "exported": lambda: hlo2onnx.translate(exported, bind={0: weights}),
        "dynamic": lambda: hlo2onnx.translate(
            apply, weights, "b, 32", scale=SCALE, bind={"params": weights}
        ),
    }


@pytest.mark.parametrize("kind", programs())
def test_weights_are_named_initializers(kind: str) -> None:
    program = programs()[kind]()
    assert len(program.input_names) == 2
    names = {name for name in program.model.graph.initializers if "layers" in name}
    # The weight that two layers share is stored once.
    assert {name.split("/", 1)[1] for name in names} == {
        "layers/0/w",
        "layers/0/b",
        "layers/1/b",
    }
    np.testing.assert_allclose(program(X, scale=SCALE), apply(params(), X, scale=SCALE), rtol=1e-5)
    assert program.verify(X, scale=SCALE).ok


@pytest.mark.wide
def test_keyword_arguments() -> None:
    program = hlo2onnx.translate(apply, params(), X, scale=SCALE, bind=["params", "scale"])
    assert program.input_names == ["x"]
    assert program.verify(X).ok


def test_memory_is_not_copied() -> None:
    weights = params()
    program = hlo2onnx.translate(apply, weights, X, scale=SCALE, bind="params")
    stored = next(
        value.const_value.numpy()
        for name, value in program.model.graph.initializers.items()
        if name.endswith("layers/0/w")
    )
    assert np.shares_memory(stored, weights["layers"][0]["w"])


def test_static_arguments_stay_in_place() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def power(x: jax.Array, n: int, y: jax.Array) -> jax.Array:
        return x**n + y

    program = hlo2onnx.translate(power, X, 3, X, bind=0)
    np.testing.assert_array_equal(program(3, X), X**3 + X)
    np.testing.assert_array_equal(program(X), X**3 + X)
    last = hlo2onnx.translate(power, X, 3, X, bind=2)
    np.testing.assert_array_equal(last(X, 3), X**3 + X)


def test_a_bare_module() -> None:
    text = """
      func.func public @main(%x: tensor<2xf32>, %y: tensor<2xcomplex<f32>>)
          -> (tensor<2xf32>, tensor<2xcomplex<f32>>) {
        %0 = stablehlo.negate %y : tensor<2xcomplex<f32>>
        return %x, %0 : tensor<2xf32>, tensor<2xcomplex<f32>>
      }"""
    y = np.array([1 + 2j, 3 - 4j], np.complex64)
    program = hlo2onnx.translate(text, bind={1: y})
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(program(x)[1], -y)
    assert program.verify(x).ok


@pytest.mark.parametrize(
    "bind",
    ["z", 7, {"params": {"layers": []}}, {"params": params(), "y": X}, {"x": X[:, :2]}],
)
def test_what_does_not_fit(bind: Any) -> None:
    with pytest.raises(UsageError):
        hlo2onnx.translate(apply, params(), X, scale=SCALE, bind=bind)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_are_stored_in_a_narrower_type(dtype: str) -> None:
    """Bound weights are rounded before the program is verified with them."""
    program = hlo2onnx.translate(
        apply, params(), X, scale=SCALE, bind="params", weights_dtype=dtype
    )
    types = {str(v.dtype).lower() for n, v in program.model.graph.initializers.items() if "/w" in n}
    assert types == {dtype}
    assert program.verify(X, scale=SCALE).ok
    assert not program.report.notes


def test_constants_are_stored_in_a_narrower_type() -> None:
    weights = params()
    program = hlo2onnx.translate(
        lambda x: apply(weights, x, scale=SCALE), X, weights_dtype="bfloat16"
    )
    assert "stored in bfloat16" in str(program.report)
    expected = apply(weights, X, scale=SCALE)
    np.testing.assert_allclose(program(X), expected, rtol=0.05, atol=0.05)
    assert program.verify(X).ok  # XLA's weights are rounded, too

"""Inputs and outputs whose channels the model has second, and the program last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest

import hlo2onnx
from hlo2onnx.cli import main
from hlo2onnx.errors import UsageError

X = np.random.default_rng(0).normal(size=(2, 8, 6, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 3, 3, 4)).astype(np.float32)


def model(x: jax.Array) -> jax.Array:
    dims = ("NHWC", "HWIO", "NHWC")
    y = jax.lax.conv_general_dilated(x, W, (1, 1), "SAME", dimension_numbers=dims)
    return jax.nn.relu(y) * 2


def shapes(values: object) -> list[list[int | str]]:
    return [
        [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in values  # type: ignore[attr-defined]
    ]


def test_no_transpose_is_left() -> None:
    program = hlo2onnx.translate(
        jax.jit(model).lower(X), inputs_as_nchw=["x"], outputs_as_nchw=["result"]
    )
    graph = program.model_proto.graph
    assert (shapes(graph.input), shapes(graph.output)) == ([[2, 3, 8, 6]], [[2, 4, 8, 6]])
    assert "Transpose" not in program.report.nodes
    np.testing.assert_allclose(program(X), jax.jit(model)(X), rtol=1e-5, atol=1e-5)
    assert program.verify(X).ok and program.verify().ok
    assert program.profile(X, runs=1).milliseconds > 0


@pytest.mark.parametrize("names", [{"inputs_as_nchw": ["x"]}, {"outputs_as_nchw": ["result"]}])
def test_one_side_alone(names: dict[str, list[str]]) -> None:
    program = hlo2onnx.translate(jax.jit(model).lower(X), **names)
    assert program.report.nodes["Transpose"] == 1
    assert program.verify(X).ok


def test_free_dimensions_and_sequences() -> None:
    def mean(x: jax.Array) -> jax.Array:
        return x.mean(1)

    program = hlo2onnx.translate(mean, "b, t, 5", inputs_as_nchw=["x"])
    assert shapes(program.model_proto.graph.input) == [["b", 5, "t"]]
    x = np.ones((2, 7, 5), np.float32)
    np.testing.assert_array_equal(program(x), x.mean(1))


WRONG: dict[str, tuple[Callable[..., jax.Array], np.ndarray, str]] = {
    "another name": (lambda y: y * 2, X, "no input named x"),
    "a matrix": (lambda x: x * 2, X[0, 0], "not an image"),
    "complex": (lambda x: x * 2, X.astype(np.complex64), "not an image"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_moved(name: str) -> None:
    function, x, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        hlo2onnx.translate(jax.jit(function).lower(x), inputs_as_nchw=["x"])


def test_states_keep_their_layout() -> None:
    lowered = jax.jit(lambda x: x + 1, donate_argnums=0).lower(X)
    with pytest.raises(UsageError, match="state"):
        hlo2onnx.translate(lowered, inputs_as_nchw=["x"])


def test_command_line(tmp_path: Path) -> None:
    module, output = tmp_path / "model.mlir", tmp_path / "model.onnx"
    module.write_text(jax.jit(lambda x: jnp.exp(x)).lower(X).as_text())
    names = ["--inputs-as-nchw", "arg0", "--outputs-as-nchw", "result"]
    assert main([str(module), "-o", str(output), "--verify", *names]) == 0
    graph = onnx.load(output).graph
    assert [node.op_type for node in graph.node] == ["Exp"]
    assert shapes(graph.input) == [[2, 3, 8, 6]]

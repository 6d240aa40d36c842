"""Dimensions that stay free: where they come from, what they are called, and how they are fixed."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.errors import SignatureError, UsageError


def scaled(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Uses the dimensions as numbers, as shapes and in arithmetic."""
    b, s = x.shape
    return jnp.broadcast_to(x[:, None], (b, 2, s)) * b, jnp.tile(y[: s // 2], 2)


X = np.arange(12, dtype=np.float32).reshape(3, 4)
Y = np.arange(7, dtype=np.float32)


def spelled(shapes: list[tuple[str, Any]]) -> Any:
    scope = jax.export.SymbolicScope()
    return [
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(text, scope=scope), dtype)
        for text, dtype in shapes
    ]


def sources() -> dict[str, Any]:
    specs = spelled([("b, s", jnp.float32), ("s + b", jnp.float32)])
    exported = jax.export.export(jax.jit(scaled))(*specs)
    return {
        "exported": lambda: hlo2onnx.translate(exported),
        "serialized": lambda: hlo2onnx.translate(bytes(exported.serialize())),
        "lowered": lambda: hlo2onnx.translate(jax.jit(scaled).lower(*specs)),
        "texts": lambda: hlo2onnx.translate(scaled, "b, s", "float32[s + b]"),
        "mapping": lambda: hlo2onnx.translate(scaled, X, Y, dynamic={"x": "b, s", 1: "s + b"}),
        "module": lambda: hlo2onnx.translate(exported.mlir_module()),
    }


@pytest.mark.wide
@pytest.mark.parametrize("kind", sources())
def test_every_source(kind: str) -> None:
    program = sources()[kind]()
    for b, s in ((3, 4), (1, 1), (2, 7)):
        x = np.arange(b * s, dtype=np.float32).reshape(b, s)
        y = np.arange(b + s, dtype=np.float32)
        want = scaled(x, y)
        for have, expected in zip(program(x, y), want, strict=True):
            np.testing.assert_array_equal(have, expected)
        assert program.verify(x, y).ok
    shapes = [[str(dim) for dim in value.shape] for value in program.model.graph.outputs]
    if kind == "module":
        assert len(set(shapes[0])) == 3
    else:
        assert shapes == [["b", "2", "s"], ["2*floor(s/2)"]]
        assert [str(dim) for dim in program.model.graph.inputs[1].shape] == ["b + s"]


def test_shapes_are_checked() -> None:
    program = sources()["exported"]()
    with pytest.raises(SignatureError, match=r"6 is not b \+ s where b = 3, s = 4"):
        program(X, Y[:6])


def test_constraints_are_noted() -> None:
    scope = jax.export.SymbolicScope(("b >= 8",))
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b", scope=scope), jnp.float32)
    program = hlo2onnx.translate(jax.export.export(jax.jit(lambda x: x[:8]))(spec))
    (note,) = program.report.notes
    assert note == "the model leaves out an assertion of the program: b >= 8"


def test_specialized() -> None:
    exported = jax.export.export(jax.jit(scaled))(
        *spelled([("b, s", jnp.float32), ("s + b", jnp.float32)])
    )
    program = hlo2onnx.translate(exported, specialize={"b": 3, "s": 4})
    assert [tuple(value.shape) for value in program.model.graph.inputs] == [(3, 4), (7,)]
    assert program.verify(X, Y).ok
    static = hlo2onnx.translate(scaled, X, Y)
    assert program.report.nodes == static.report.nodes


@pytest.mark.parametrize(
    "dynamic",
    [{"z": "b"}, {-1: "s + b"}, {0: "b"}, {"x": "b, ..., c, d"}, {"x": "2b, 4"}, {"x": "b, 5"}],
)
def test_dimensions_that_do_not_fit(dynamic: dict[str | int, str]) -> None:
    with pytest.raises(UsageError):
        hlo2onnx.translate(scaled, X, Y, dynamic=dynamic)


def test_unnamed_dimensions() -> None:
    """Modules of other producers have no names for their dimensions."""
    text = """
      func.func public @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x8xf32> {
        %0 = stablehlo.add %x, %y : tensor<?x4xf32>
        %1 = stablehlo.concatenate %0, %y, dim = 1
            : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x8xf32>
        return %1 : tensor<?x8xf32>
      }"""
    program = hlo2onnx.translate(text)
    for rows in (0, 1, 5):
        x = np.ones((rows, 4), np.float32)
        assert program.verify(x, x).ok
    assert [str(program.model.graph.inputs[0].shape[0])] == ["arg0_dim0"]

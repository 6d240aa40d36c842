"""Short loops, and loops over layers, are written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from verified import nodes

import hlo2onnx

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 3, 4)).astype(np.float32)
W = RNG.normal(size=(6, 40, 40)).astype(np.float32) / 6
WIDE = RNG.normal(size=(2, 40)).astype(np.float32)


def loops(found: Counter[str]) -> int:
    """How many loops there are."""
    return found["Loop"] + found["Scan"]


def with_rows(state: Any, row: jax.Array) -> Any:
    h, before = state
    h = jnp.tanh(h * row)
    return (h, row), (h, before, row + 1)


SHORT: dict[str, Callable[[Any], Any]] = {
    "counted": lambda x: lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h) * 2, x[0]),
    "number": lambda x: lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h) * i, x[0]),
    "row": lambda x: lax.fori_loop(0, 2, lambda i, h: jnp.tanh(h) + x[2 - i], x[0]),
    "stacks": lambda x: lax.scan(with_rows, (x[0], x[1]), x),
    "backwards": lambda x: lax.scan(with_rows, (x[0], x[1]), x, reverse=True),
    "swapped": lambda x: lax.fori_loop(0, 3, lambda i, s: (s[1], jnp.sin(s[0])), (x[0], x[1])),
    "nested": lambda x: lax.scan(
        lambda h, r: (lax.fori_loop(0, 2, lambda i, g: jnp.tanh(g + r), h), h), x[0], x
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", SHORT)
def test_short_loops(name: str) -> None:
    found = nodes(SHORT[name], X)
    assert loops(found) == 0
    assert loops(nodes(SHORT[name], X, without={"loop-unroll"})) > 0


def layers(x: jax.Array) -> Any:
    """Six layers, whose weights are stacked."""

    def layer(h: jax.Array, w: Any) -> Any:
        matrix, bias = w
        for _ in range(4):
            h = jnp.sin(h) * jnp.cos(h) + jnp.exp(-h * h)
        return jnp.tanh(h @ matrix + bias), None

    return lax.scan(layer, x, (jnp.asarray(W), jnp.asarray(W[:, 0])))[0]


def test_layers_of_constant_weights() -> None:
    """Their matrices are constants, which runtimes pack."""
    program = hlo2onnx.translate(jax.jit(layers).lower(WIDE))
    assert program.verify(WIDE).ok
    products = [node for node in program.model.graph if node.op_type in ("MatMul", "Gemm")]
    assert len(products) == 6
    assert all(x is not None and x.is_initializer() for x in (n.inputs[1] for n in products))


def test_layers_of_weights_that_are_arguments() -> None:
    def function(x: jax.Array, w: jax.Array) -> jax.Array:
        def layer(h: jax.Array, matrix: jax.Array) -> Any:
            for _ in range(4):
                h = jnp.sin(h) * jnp.cos(h) + jnp.exp(-h * h)
            return h @ matrix, None

        return lax.scan(layer, x, w)[0]

    assert loops(nodes(function, WIDE, W)) == 1


STAYS: dict[str, Callable[..., Any]] = {
    "long": lambda x, n: lax.fori_loop(0, 60, lambda i, h: jnp.tanh(h), x[0]),
    "large": lambda x, n: lax.fori_loop(
        0, 8, lambda i, h: jnp.tanh(jnp.sin(h) * jnp.cos(h) + jnp.exp(-h * h)), x[0]
    ),
    "trips-not-known": lambda x, n: lax.fori_loop(0, n, lambda i, h: jnp.tanh(h), x[0]),
    "condition": lambda x, n: lax.while_loop(lambda h: h.sum() < n, lambda h: jnp.abs(h) + 1, x[0]),
    "branch": lambda x, n: lax.fori_loop(
        0, 2, lambda i, h: lax.cond(h.sum() > n, jnp.sin, jnp.cos, h), x[0]
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_the_rest_stays(name: str) -> None:
    assert loops(nodes(STAYS[name], X, np.int32(2))) == 1


def test_symbolic_batch() -> None:
    (b,) = jax.export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((3, b, 4), np.float32)
    function = lambda x: lax.scan(lambda h, r: (jnp.tanh(h + r), h), jnp.zeros_like(x[0]), x)  # noqa: E731
    program = hlo2onnx.translate(jax.export.export(jax.jit(function))(spec))
    assert loops(Counter(node.op_type for node in program.model.graph.all_nodes())) == 0
    for batch in (1, 3):
        assert program.verify(X[:, :batch]).ok


GROWING = """
func.func @main(%x: tensor<?x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %columns = stablehlo.constant dense<4> : tensor<1xi32>
  %starts = stablehlo.constant dense<0> : tensor<2xi32>
  %steps = stablehlo.constant dense<1> : tensor<2xi32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %s = %none) : tensor<i32>, tensor<f32> cond {
    %on = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %on : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %rows = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
    %limits = stablehlo.concatenate %rows, %columns, dim = 0
        : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %part = stablehlo.real_dynamic_slice %x, %starts, %limits, %steps
        : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x4xf32>
    %e = stablehlo.exponential %part : tensor<?x4xf32>
    %sum = stablehlo.reduce(%e init: %none) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<?x4xf32>, tensor<f32>) -> tensor<f32>
    %next = stablehlo.add %s, %sum : tensor<f32>
    stablehlo.return %n, %next : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
"""


def test_extents_that_grow_from_trip_to_trip_share_no_name() -> None:
    """Runtimes give the memory of one value to another whose extents have the same names."""
    program = hlo2onnx.translate(GROWING)
    graph = program.model.graph
    assert loops(Counter(node.op_type for node in graph.all_nodes())) == 0
    named = {dim for node in graph for x in node.outputs for dim in x.shape if dim != 4}
    assert named <= {None}
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(program(x), sum(np.exp(x[:k]).sum() for k in (1, 2, 3)), rtol=1e-5)

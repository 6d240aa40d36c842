"""Quotients by constants: XLA multiplies by their reciprocals."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

NUMBERS = np.random.default_rng(0)
X = np.append(NUMBERS.standard_normal(500) * 100, [0, -0.0, np.inf, -np.inf, np.nan])
DIVISORS = NUMBERS.standard_normal(X.size) + 5
EDGES = [8e37, 1e-37, 0.0, -0.0, np.inf, np.nan]

SAME: dict[str, Callable[[jax.Array, np.ndarray], jax.Array]] = {
    "one number": lambda x, c: x / c[0],
    "one number on the whole shape": lambda x, c: x / jnp.broadcast_to(c[0], x.shape),
    "a vector": lambda x, c: x / c,
    "a formula of constants": lambda x, c: x / jnp.sqrt(jnp.abs(jnp.asarray(c))),
    "a call": lambda x, c: jax.jit(lambda x, y: x / y)(x, jnp.asarray(c)),
    "a branch": lambda x, c: jax.lax.cond(x[0] > 0, lambda x: x / c, lambda x: x / c[0], x),
    "an iota": lambda x, c: x / (jnp.arange(x.size) + 3).astype(x.dtype),
}


def check(function: Callable[[jax.Array, np.ndarray], jax.Array], x: np.ndarray, c: object) -> None:
    """Whether the model has XLA's bits."""
    with jax.enable_x64(True):
        made = hlo2onnx.translate(lambda x: function(x, c), x)
        expected = jax.jit(lambda x: function(x, c))(x)
        # numpy does not take NaN of bf16 for equal.
        found = np.asarray(made(x)).astype(np.float64)
        np.testing.assert_array_equal(found, np.asarray(expected).astype(np.float64))


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_same_bits(name: str, dtype: str) -> None:
    check(SAME[name], X.astype(dtype), DIVISORS.astype(dtype))


@pytest.mark.parametrize("c", EDGES)
def test_edges(c: float) -> None:
    with np.errstate(all="ignore"):
        x = np.array([0, -0.0, 1, -2.5, 1e30, np.inf, -np.inf, np.nan], np.float32)
        check(lambda x, c: x / c, x, np.float32(c))


@pytest.mark.parametrize("c", [2e4, 65504, 6e-5, 0])
def test_edges_of_f16(c: float) -> None:
    check(lambda x, c: x / c, X.astype(np.float16), np.float16(c))


def test_operators() -> None:
    """The operator that computes each quotient."""

    def quotients(x: jax.Array, weight: jax.Array) -> tuple[jax.Array, ...]:
        return x / 3, x / weight, x / jnp.arange(1.0, 5.0), x / jnp.float32(3e38), 3 / x, x / x[0]

    x = jnp.ones(4)
    made = hlo2onnx.translate(quotients, x, x, bind={1: x})
    operators = [node.op_type for node in made.model.graph if node.op_type in ("Div", "Mul")]
    assert sorted(operators) == ["Div"] * 5 + ["Mul"]


LOOPS: dict[str, Callable[[jax.Array], object]] = {
    "loop-unroll": lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c / 3), x),
    "partition-loop": lambda x: jax.lax.map(lambda row: jnp.sin(row / 3), x),
}


@pytest.mark.parametrize("rule", LOOPS)
def test_copies_of_bodies(rule: str) -> None:
    made = hlo2onnx.translate(LOOPS[rule], jnp.ones((40, 3)))
    assert made.report.rules[rule]
    assert "Div" not in {node.op_type for node in made.model.graph.all_nodes()}


def test_integers() -> None:
    made = hlo2onnx.translate(lambda x: jax.lax.div(x, jnp.int32(3)), jnp.arange(4))
    assert [node.op_type for node in made.model.graph] == ["Div"]

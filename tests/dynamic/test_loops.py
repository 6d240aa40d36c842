"""Loops whose number of trips, or whose states, are symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

import hlo2onnx


def summed(c: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return c + x, c * 2


LOOPS: dict[str, Callable[[jax.Array], Any]] = {
    "scan": lambda x: lax.scan(summed, jnp.zeros(8), x),
    "scan, reverse": lambda x: lax.scan(summed, jnp.zeros(8), x, reverse=True),
    "scan over a static axis": lambda x: lax.scan(summed, jnp.zeros(x.shape[0]), x.T),
    "gradient of a scan": jax.grad(
        lambda x: (lax.scan(summed, jnp.zeros(8), jnp.sin(x))[1] ** 2).sum()
    ),
    "fori_loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, jnp.zeros(8)),
    "fori_loop from 1": lambda x: lax.fori_loop(
        1, x.shape[0], lambda i, c: c + x[i] - x[i - 1], jnp.zeros(8)
    ),
    "fori_loop that writes rows": lambda x: lax.fori_loop(
        0, x.shape[0], lambda i, c: c.at[i].set(x[i] * 2), x
    ),
    "rows written elsewhere": lambda x: lax.fori_loop(
        0, x.shape[0], lambda i, c: c.at[jnp.minimum(i, 3)].set(x[i] * 2), x
    ),
    "rows of another buffer": lambda x: lax.fori_loop(
        0,
        x.shape[0],
        lambda i, c: c.at[i].set(x[i] * 2),
        jnp.zeros((x.shape[0] + 2, 8)),
    ),
    "rows that are read": lambda x: lax.fori_loop(
        1, x.shape[0], lambda i, c: c.at[i].set(c[i - 1] + x[i]), x
    ),
    "a counter that overflows": lambda x: lax.fori_loop(
        0,
        x.shape[0],
        lambda i, c: c + (i * 1664525 + 1013904223) // 7,
        jnp.int32(0),
    ),
    "a counter of one byte": lambda x: lax.fori_loop(
        0, x.shape[0], lambda i, c: c + (100 * i).astype(jnp.int8), jnp.int8(0)
    ),
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c * 2 + 1, abs(x)),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x),
    "switch": lambda x: lax.switch(
        jnp.argmax(x[0]), [jnp.sin, jnp.cos, lambda y: y * 0 + y.shape[0]], x
    ),
    "map": lambda x: lax.map(lambda row: jnp.sort(row).sum(), x),
    "each row its own number of trips": lambda x: jax.vmap(
        lambda row: lax.while_loop(lambda c: c < 10, lambda c: c * 2, abs(row[0]) + 1)
    )(x),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name: str) -> None:
    every_size(LOOPS[name], "b, 8", sizes=(1, 2, 7, 40))


@pytest.mark.parametrize("name", ["scan", "scan, reverse"])
def test_a_scan_has_stacked_results(name: str) -> None:
    """As the one of static length."""
    symbolic = hlo2onnx.translate(LOOPS[name], "b, 8")
    static = hlo2onnx.translate(LOOPS[name], np.ones((5, 8), np.float32))
    assert symbolic.report.nodes.total() - static.report.nodes.total() <= 3
    assert not symbolic.report.nodes.keys() & {"ScatterND", "ScatterElements", "Where"}
    assert [str(dim) for dim in symbolic.model.graph.outputs[1].shape] == ["b", "8"]


def recurrent(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An LSTM over (time, batch, 8): the states after and before each step."""
    rng = np.random.default_rng(0)
    w, r = (rng.standard_normal((8, 32)).astype(np.float32) * 0.3 for _ in range(2))

    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ r, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (new, c), (new, h)

    zero = jnp.zeros((x.shape[1], 8))
    after, before = lax.scan(step, (zero, zero), x)[1]
    return after, before


@pytest.mark.wide
def test_an_lstm_of_symbolic_length_is_the_operator() -> None:
    program = every_size(recurrent, "t, b, 8", sizes=(1, 2, 9))
    assert program.report.nodes["LSTM"] == 1
    assert not program.report.nodes["Loop"]


def test_no_trips() -> None:
    """JAX's dimensions are at least 1, those of other producers are not."""
    program = hlo2onnx.translate("""
      func.func public @main(%x: tensor<?x2xf32>) -> (tensor<?x2xf32>, tensor<i32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
        %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<?x2xf32>
          cond {
            %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %1 : tensor<i1>
          } do {
            %2 = stablehlo.add %i, %one : tensor<i32>
            %row = stablehlo.constant dense<3.0> : tensor<1x2xf32>
            %3 = stablehlo.dynamic_update_slice %y, %row, %i, %zero
              : (tensor<?x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<?x2xf32>
            stablehlo.return %2, %3 : tensor<i32>, tensor<?x2xf32>
          }
        return %0#1, %0#0 : tensor<?x2xf32>, tensor<i32>
      }""")
    for rows in (1, 5):
        assert program.verify(np.zeros((rows, 2), np.float32)).ok
    rows, count = program(np.zeros((0, 2), np.float32))  # XLA does not take it
    assert rows.shape == (0, 2)
    assert count == 0


def test_parts_of_rows_of_symbolic_extent_are_refused() -> None:
    """The types alone do not tell a part of a row from a whole one."""

    def write(x: jax.Array, y: jax.Array) -> jax.Array:
        row = jnp.sin(x[:1, 1:])
        return lax.fori_loop(
            0, y.shape[0], lambda i, y: lax.dynamic_update_slice(y, row, (i, 0)), y
        )

    with pytest.raises(hlo2onnx.TranslationError, match="less than a whole row"):
        hlo2onnx.translate(write, "b, c", "b, c")

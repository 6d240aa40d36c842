"""Nested control flow, and what does not change from trip to trip."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from lowered_loops import W, X, against_jax, body, loops, rnn


def test_what_does_not_change_is_computed_once() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            return lax.fori_loop(0, 3, lambda i, d: jnp.tanh(d @ w.T) * jnp.exp(b), c) + row, None

        return lax.scan(body, jnp.zeros(3), x)[0]

    run = against_jax(f, X, W, W[0]).close()
    outside = [node.op_type for node in run.program.model.graph]
    assert "Exp" in outside
    found = loops(run)
    assert found
    assert all("Transpose" not in [n.op_type for n in body(loop)] for loop in found)


def test_weights_are_widened_once() -> None:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (c @ w + row, None), x[0], x)[0]

    run = against_jax(f, X.astype(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16)).close()
    readers = run.program.model.graph.inputs[1].consumers()
    assert [node.graph for node in readers] == [run.program.model.graph]


def test_nodes_of_branches_stay_where_they_are() -> None:
    def f(x: Any, n: Any) -> Any:
        return lax.fori_loop(
            0, n, lambda i, c: lax.cond(i > 2, lambda: c + jnp.exp(x), lambda: c), x
        )

    run = against_jax(f, X, np.int32(5)).close()
    assert "Exp" not in [node.op_type for node in run.program.model.graph]


@pytest.mark.wide
def test_loops_in_branches_and_branches_in_loops() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return lax.cond(
                i % 2 == 0,
                lambda c: c + x,
                lambda c: lax.fori_loop(0, i, lambda j, d: d * 0.5, c),
                c,
            )

        return lax.cond(n > 2, lambda: lax.fori_loop(0, n, step, x), lambda: rnn(x, W)[1][0])

    for n in (0, 2, 3, 6):
        against_jax(f, X, np.int32(n)).close()


def test_names_follow_the_program() -> None:
    run = against_jax(rnn, X, W)
    (loop,) = loops(run)
    assert loop.name is not None and loop.name.startswith("while")
    assert all(str(value.name).startswith("while/") for value in body(loop).inputs)

"""lax.scan: what its Loop stacks, carries and captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from lowered_loops import W, X, against_jax, loops, rnn, stacked, states


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_stacks_its_outputs_and_captures_its_weights(reverse: bool) -> None:
    run = against_jax(lambda x, w: rnn(x, w, reverse), X, W).close()
    (loop,) = loops(run)
    assert states(loop) == [(3,)]
    assert stacked(loop) == [(5, 3), (5,)]
    run.has_no("ScatterND", "ScatterElements", "Clip", "Max", "Min")


def test_scan_with_a_length_only() -> None:
    run = against_jax(lambda c: lax.scan(lambda c, _: (c * 2, c), c, length=4), W).close()
    assert stacked(loops(run)[0]) == [(4, 3, 3)]


def test_scan_of_nothing() -> None:
    against_jax(rnn, X[:0], W).close().has_no("Loop")


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, ml_dtypes.bfloat16, np.complex64, np.uint32])
def test_scan_in_every_kind_of_type(dtype: Any) -> None:
    x = np.array([[1, 0, 3], [2, 2, 1]]).astype(dtype)
    run = against_jax(lambda x: lax.scan(lambda c, r: (r, jnp.stack([c, r])), x[0], x), x)
    run.bit_exact()
    parts = 2 if dtype == np.complex64 else 1
    assert stacked(loops(run)[0]) == [(2, 2, 3)] * parts


def test_nested_scans() -> None:
    def f(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, row: (c + row, rnn(x + c, w)[1][0]), jnp.zeros(3), x)

    run = against_jax(f, X, W).close()
    assert [stacked(loop) for loop in loops(run)] == [[(5, 5, 3)], [(5, 3)]]


def test_buffers_that_are_not_stacks_are_carried() -> None:
    """Read while written, written in part, written off the end, or given a bound at run time."""

    def fibonacci(y: Any, i: Any) -> Any:
        row = y[jnp.maximum(i - 1, 0)] + y[jnp.maximum(i - 2, 0)]
        return lax.dynamic_update_index_in_dim(y, row, i, 0)

    def write(offset: int) -> Callable[..., Any]:
        return lambda i, y: lax.dynamic_update_index_in_dim(y, W[0] * i, i + offset, 0)

    cases: list[tuple[int, Callable[..., Any]]] = [
        (5, lambda i, y: fibonacci(y, i)),
        (3, write(0)),
        (5, write(2)),
        (5, write(-1)),
    ]
    for bound, body in cases:
        run = against_jax(lambda y, n=bound, b=body: lax.fori_loop(0, n, b, y), X).close()
        assert states(loops(run)[0]) == [(5, 3)]
        assert not stacked(loops(run)[0])
    for bound in (0, 5, 7):
        run = against_jax(lambda y, n: lax.fori_loop(0, n, write(0), y), X, np.int32(bound)).close()
        assert not stacked(loops(run)[0])


def test_a_buffer_that_becomes_another_state_is_carried() -> None:
    def body(i: Any, states: Any) -> Any:
        y, _ = states
        return lax.dynamic_update_index_in_dim(y, W[0] * i, i, 0), y

    run = against_jax(lambda y: lax.fori_loop(0, 5, body, (y, y)), X).close()
    assert states(loops(run)[0]) == [(5, 3), (5, 3)]
    assert not stacked(loops(run)[0])


ROW_BY_ROW: dict[str, Callable[[Any, Any], Any]] = {
    "row": lambda y, i: y.at[i].set(W[0] * i),
    "downwards": lambda y, i: y.at[4 - i].set(W[0] * i),
    "known_columns": lambda y, i: y.at[i, :].set(W[0] * i),
    "broadcast": lambda y, i: y.at[i].set(i.astype(y.dtype)),
    "promised": lambda y, i: y.at[i].set(W[0] * i, mode="promise_in_bounds"),
}


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_rows_set_one_by_one_are_stacked(name: str) -> None:
    function = ROW_BY_ROW[name]
    run = against_jax(lambda y: lax.fori_loop(0, 5, lambda i, y: function(y, i), y), X).close()
    assert stacked(loops(run)[0]) == [(5, 3)]
    assert not states(loops(run)[0])


CARRIED_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "added": lambda y, i: y.at[i].add(W[0] * i),
    "part": lambda y, i: y.at[i, :2].set(W[0, :2] * i),
    "column": lambda y, i: y.at[:, i % 3].set(W[0, 0] * i),
    "beyond": lambda y, i: y.at[i + 1].set(W[0] * i),
    "twice": lambda y, i: y.at[i].set(W[0] * i).at[i].set(W[1]),
    "two": lambda y, i: y.at[jnp.stack([i, i])].set(W[:2]),
    "repeated": lambda y, i: y.at[i // 2].set(W[0] * i),
}


@pytest.mark.parametrize("name", CARRIED_ROWS)
def test_other_writes_are_carried(name: str) -> None:
    function = CARRIED_ROWS[name]
    run = against_jax(lambda y: lax.fori_loop(0, 5, lambda i, y: function(y, i), y), X).close()
    assert not stacked(loops(run)[0])
    assert states(loops(run)[0]) == [(5, 3)]


def test_what_nobody_reads_is_neither_stacked_nor_carried() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            a, _ = c
            return (a @ w + row, jnp.exp(a)), (a.sum(), row * 2)

        return lax.scan(body, (x[0], x[0]), x)[1][0]

    run = against_jax(f, X, W).close().has_no("Exp")
    (loop,) = loops(run)
    assert (states(loop), stacked(loop)) == ([(3,)], [(5,)])


def test_map_is_one_loop() -> None:
    run = against_jax(lambda x: lax.map(lambda row: jnp.exp(row).sum(), x), X).close()
    run.graph_is("Loop", "Gather", "Exp", "ReduceSum", "Identity")


def test_gradient_of_a_scan() -> None:
    def loss(x: Any, w: Any) -> Any:
        final, (rows, _) = rnn(x, w)
        return (rows**2).sum() + final.sum()

    run = against_jax(jax.grad(loss, argnums=(0, 1)), X, W).close()
    assert len(loops(run)) == 2
    assert all((5, 3) not in states(loop) for loop in loops(run))

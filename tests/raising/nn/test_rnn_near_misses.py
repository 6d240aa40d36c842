"""Loops that differ from recurrent cells in one ingredient.

The batch is as large as the state is wide, so that a transposed matrix fits where the matrix does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.nn import sigmoid
from verified import nodes

RNG = np.random.default_rng(0)
TRIPS, WIDTH, INPUTS = 6, 4, 5


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X = normal(TRIPS, WIDTH, INPUTS)
H, C, M = normal(WIDTH, WIDTH), normal(WIDTH, WIDTH), normal(WIDTH, WIDTH)
W, R = normal(INPUTS, 4 * WIDTH), normal(WIDTH, 4 * WIDTH)
B = normal(WIDTH, 4 * WIDTH)
W3, R3 = W[:, : 3 * WIDTH], R[:, : 3 * WIDTH]


def cell(z: Any, c: Any) -> tuple[Any, Any]:
    """The new state and memory of an LSTM from the sums of its gates and its memory."""
    i, f, g, o = jnp.split(z, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(c), c


def lstm(gates: Callable[[Any, Any], Any], memory: Callable[[Any], Any] = lambda c: c) -> Any:
    """A scan over an LSTM, the memory of which something is done to before each trip."""

    def step(state: Any, x: Any) -> Any:
        h, c = state
        h, c = cell(gates(x, h), memory(c))
        return (h, c), h

    return lambda x: lax.scan(step, (jnp.asarray(H), jnp.asarray(C)), x)


def gru(candidate: Callable[[Any, Any, Any], Any], mix: Callable[[Any, Any, Any], Any]) -> Any:
    """A scan over a GRU with another candidate, or another mixture of it and the state."""

    def step(h: Any, x: Any) -> Any:
        r, z = jnp.split(sigmoid((x @ W3 + h @ R3)[:, : 2 * WIDTH]), 2, axis=-1)
        h = mix(z, jnp.tanh(x @ W3[:, 2 * WIDTH :] + candidate(r, h, R3[:, 2 * WIDTH :])), h)
        return h, h

    return lambda x: lax.scan(step, jnp.asarray(H), x)


def plain(r: Any, h: Any, m: Any) -> Any:
    return r * (h @ m)


def mixed(z: Any, n: Any, h: Any) -> Any:
    return (1 - z) * n + z * h


def memory_carried_twice(x: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, earlier, c = state
        h, c = cell(x @ W + h @ R, c)
        return (h, c, c), h + earlier

    return lax.scan(step, (jnp.asarray(H), jnp.asarray(M), jnp.asarray(C)), x)


def memory_captured(x: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        h, new = cell(x @ W + h @ R, c)
        return (h, new), lax.cond(x[0, 0] > 0, lambda: h + c, lambda: h)

    return lax.scan(step, (jnp.asarray(H), jnp.asarray(C)), x)


def states_swapped(x: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        h, c = state
        h, c = cell(x @ W + h @ R, c)
        return (c, h), h

    return lax.scan(step, (jnp.asarray(H), jnp.asarray(C)), x)


def masked(x: Any) -> Any:
    """What keras and others do for sequences of unlike lengths."""

    def step(state: Any, x: Any) -> Any:
        new = cell(x @ W + state[0] @ R, state[1])
        state = jax.tree.map(lambda one, other: jnp.where(x[:, :1] > 0, one, other), new, state)
        return state, state[0]

    return lax.scan(step, (jnp.asarray(H), jnp.asarray(C)), x)


def weights_by_trip(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        x, w = row
        state = cell(x @ w + state[0] @ R, state[1])
        return state, state[0]

    weights = jnp.stack([W * k for k in range(1, TRIPS + 1)])
    return lax.scan(step, (jnp.asarray(H), jnp.asarray(C)), (x, weights))


NO_CELLS: dict[str, Callable[[Any], Any]] = {
    "a-bias-for-each-row": lstm(lambda x, h: x @ W + h @ R + B),
    "a-bias-for-each-row-of-a-joint-product": lstm(
        lambda x, h: jnp.concatenate([x, h], -1) @ np.concatenate([W, R]) + B
    ),
    "state-transposed": lstm(lambda x, h: x @ W + h.T @ R),
    "rows-turned-round": lstm(lambda x, h: x @ W + h[::-1] @ R),
    "memory-transposed": lstm(lambda x, h: x @ W + h @ R, jnp.transpose),
    "memory-carried-twice": memory_carried_twice,
    "memory-captured": memory_captured,
    "states-swapped": states_swapped,
    "masked": masked,
    "weights-by-trip": weights_by_trip,
    "gru-state-transposed": gru(plain, lambda z, n, h: (1 - z) * n + z * h.T),
    "gru-step-from-transposed": gru(plain, lambda z, n, h: n + z * (h.T - n)),
    "gru-gate-transposed": gru(plain, lambda z, n, h: (1 - z.T) * n + z * h),
    "gru-candidate-of-transposed": gru(lambda r, h, m: (r * h.T) @ m, mixed),
    "gru-product-of-transposed": gru(lambda r, h, m: r * (h.T @ m), mixed),
    "gru-product-from-the-left": gru(lambda r, h, m: r * (m.T @ h), mixed),
    "gru-product-from-the-left-transposed": gru(lambda r, h, m: r * (m.T @ h).T, mixed),
    "gru-bias-for-each-row": gru(lambda r, h, m: M + r * (h @ m), mixed),
    "gru-recurrent-bias-for-each-row": gru(lambda r, h, m: r * (h @ m + M), mixed),
    "gru-reset-turned-round": gru(lambda r, h, m: (1 - r) * (h @ m), mixed),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", NO_CELLS)
def test_no_cell(name: str) -> None:
    found = nodes(NO_CELLS[name], X)
    assert (found["LSTM"], found["GRU"], found["Scan"]) == (0, 0, 1)


def two_of_the_state(x: Any) -> Any:
    """The state of the cell is carried twice, and read by a branch."""

    def step(state: Any, x: Any) -> Any:
        h, c, earlier = state
        h, c = cell(x @ W + h @ R, c)
        return (h, c, h), lax.cond(x[0, 0] > 0, lambda: h * earlier, lambda: earlier)

    return lax.scan(step, (jnp.asarray(H), jnp.asarray(C), jnp.asarray(M)), x)


def test_the_state_is_read_by_the_rest_of_the_body() -> None:
    assert nodes(two_of_the_state, X)["LSTM"] == 1


def test_fewer_trips_than_rows() -> None:
    """Without the rule that takes the rows of the trips before the loop, rows are left over."""

    def function(x: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            return cell(jnp.concatenate([x[i], state[0]], -1) @ np.concatenate([W, R]), state[1])

        return lax.fori_loop(0, TRIPS - 2, step, (jnp.asarray(H), jnp.asarray(C)))

    assert nodes(function, X)["LSTM"] == 1
    assert nodes(function, X, without={"partition-loop"})["LSTM"] == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
def test_numbers_that_are_none(value: float) -> None:
    x = X.copy()
    x[2, 1, 3] = value
    nodes(lstm(lambda x, h: x @ W + h @ R), x)
    nodes(gru(plain, mixed), x)

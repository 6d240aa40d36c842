"""Loops that are no RNN cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.nn import sigmoid
from rnn_steps import (
    BATCH,
    GATES,
    MIXED,
    TRIPS,
    WIDTH,
    B,
    C,
    H,
    R,
    Step,
    W,
    X,
    gru,
    lstm,
    nodes,
    scanned,
)

import hlo2onnx


def peephole(state: Any, x: jax.Array) -> Any:
    h, c = state
    i, f, g, o = jnp.split(x @ W + h @ R, 4, axis=-1)
    c = sigmoid(f + c) * c + sigmoid(i) * jnp.tanh(g)
    h = sigmoid(o) * jnp.tanh(c)
    return (h, c), h


def with_memory(state: Any, x: jax.Array) -> Any:
    (h, c), _ = lstm(GATES["one-bias"])(state, x)
    return (h, c), c


def of_fourth_gate(activation: Callable[[Any], Any], inner: Callable[[Any], Any]) -> Step:
    def step(state: Any, x: jax.Array) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x @ W + h @ R, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * inner(g)
        h = activation(o) * jnp.tanh(c)
        return (h, c), h

    return step


def swapped(state: Any, x: jax.Array) -> Any:
    """The product is taken of the memory."""
    h, c = state
    i, f, g, o = jnp.split(x @ W + c @ R, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    return (sigmoid(o) * jnp.tanh(c), c), h


NO_CELLS: dict[str, tuple[Step, Any]] = {
    "peephole": (peephole, (H, C)),
    "memory-stacked": (with_memory, (H, C)),
    "hard-sigmoid": (of_fourth_gate(jax.nn.hard_sigmoid, jnp.tanh), (H, C)),
    "relu": (of_fourth_gate(sigmoid, jax.nn.relu), (H, C)),
    "product-with-memory": (swapped, (H, C)),
    "no-inputs": (lstm(lambda h, x: h @ R + B), (H, C)),
    "inputs-not-multiplied": (lstm(lambda h, x: jnp.pad(x, ((0, 0), (0, 11))) + h @ R), (H, C)),
    "inputs-by-state": (lstm(lambda h, x: x @ W * h[:, :1] + h @ R), (H, C)),
    "bias-for-each-row": (lstm(lambda h, x: x @ W + h @ R + H[:, :1]), (H, C)),
    "two-products": (lstm(lambda h, x: x @ W + h @ R + (h * 2) @ R), (H, C)),
    "other-update": (gru(lambda z, n, h: (1 - z) * n + sigmoid(z) * h, True), H),
    "not-one": (gru(lambda z, n, h: (2 - z) * n + z * h, True), H),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", NO_CELLS)
def test_no_cells(name: str) -> None:
    step, state = NO_CELLS[name]
    found = nodes(scanned(step, state), X)
    assert (found["LSTM"], found["GRU"], found["Loop"]) == (0, 0, 1)


def test_trips_not_known() -> None:
    def function(x: jax.Array, n: jax.Array) -> Any:
        step = lstm(GATES["one-bias"])
        return lax.fori_loop(0, n, lambda i, s: step(s, x[i])[0], (jnp.asarray(H), jnp.asarray(C)))

    for trips in (0, 4):
        found = nodes(function, X, np.int32(trips))
        assert (found["LSTM"], found["Loop"]) == (0, 1)


@pytest.mark.parametrize("rule", ["lstm", "gru"])
def test_switched_off(rule: str) -> None:
    step = (
        scanned(lstm(GATES["one-bias"]))
        if rule == "lstm"
        else scanned(gru(MIXED["torch"], True), H)
    )
    found = nodes(step, X, without={rule})
    assert (found[rule.upper()], found["Loop"]) == (0, 1)


@pytest.mark.wide
def test_rnn_is_for_other_runtimes() -> None:
    """ONNX Runtime's Loop is faster than its RNN."""

    def step(h: Any, x: jax.Array) -> Any:
        h = jnp.tanh(x @ W[:, :WIDTH] + h @ R[:, :WIDTH] + B[:WIDTH])
        return h, h

    def rectified(h: Any, x: jax.Array) -> Any:
        h = jax.nn.relu(x @ W[:, :WIDTH] + h @ R[:, :WIDTH])
        return h, h

    for function in (scanned(step, H), scanned(rectified, H)):
        assert nodes(function, X)["Loop"] == 1
        found = nodes(function, X, target="onnx")
        assert (found["RNN"], found["Loop"]) == (1, 0)


def test_shapes_are_those_of_the_loop() -> None:
    program = hlo2onnx.translate(jax.jit(scanned(lstm(GATES["one-bias"]))).lower(X))
    shapes = [tuple(value.shape or ()) for value in program.model.graph.outputs]
    assert shapes == [(BATCH, WIDTH), (BATCH, WIDTH), (TRIPS, BATCH, WIDTH)]

"""States that depend on themselves alone get a loop of their own where that is faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from verified import verified

from hlo2onnx.ir.traversal import subgraphs

KEY = np.array([7, 11], np.uint32)
X = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
NAME = "partition-loop"


class Translated:
    """A function in ONNX, compared with XLA, and its outermost loops."""

    def __init__(self, function: Callable[..., Any], *args: Any, without: Any = ()) -> None:
        kept = {"loop-unroll", *without}
        program = verified(function, *args, without=kept)
        self.bodies = [graph for node in program.model.graph for graph in subgraphs(node)]
        self.is_divided = len(self.bodies) > 1


def walk(key: jax.Array, x: jax.Array) -> Any:
    """A random walk: the key is split in each trip."""

    def step(carry: Any, row: Any) -> Any:
        key, h = carry
        key, first, second = jax.random.split(key, 3)
        h = 0.5 * h + jax.random.normal(first, (5,)) * row
        h = jnp.where(jax.random.uniform(second) < 0.3, -h, h)
        return (key, h), (h, key)

    return lax.scan(step, (key, jnp.zeros(5)), x)


@pytest.mark.wide
def test_random_numbers_of_a_key_that_is_carried() -> None:
    run = Translated(walk, KEY, X)
    assert run.is_divided
    last = run.bodies[-1]
    assert not any(map(subgraphs, last)) and len(last) <= 8
    assert len(Translated(walk, KEY, X, without=[NAME]).bodies[-1]) > 100


@pytest.mark.wide
def test_counters_that_are_carried_too() -> None:
    """Two chains, one of which reads the other."""

    def function(key: jax.Array, x: jax.Array) -> Any:
        def step(carry: Any, row: Any) -> Any:
            key, count, h = carry
            count = count * 3 + 1
            key, mine = jax.random.split(jax.random.fold_in(key, count))
            h = jnp.tanh(h + jax.random.normal(mine, (5,)) * row)
            return (key, count, h), h

        return lax.scan(step, (key, 1, jnp.zeros(5)), x)

    run = Translated(function, KEY, X)
    assert run.is_divided and len(run.bodies[-1]) <= 5


@pytest.mark.wide
def test_one_trip_and_large_states() -> None:
    Translated(walk, KEY, X[:1])

    def function(x: jax.Array) -> Any:
        def step(carry: Any, _: Any) -> Any:
            a, h = carry
            b = a
            for _ in range(15):
                b = jnp.sin(b) * b
            return (jnp.cos(a) @ x.T @ x / 30, jnp.tanh(h + b)), h

        return lax.scan(step, (x, x), None, length=6)

    assert Translated(function, X).is_divided


def chained(*steps: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: jax.Array) -> Any:
        def step(states: Any, row: Any) -> Any:
            return tuple(f(*states, row) for f in steps), states

        return lax.scan(step, tuple(x[k] for k in range(len(steps))), x)

    return function


def long(a: jax.Array) -> jax.Array:
    for _ in range(30):
        a = jnp.sin(a) * 0.9
    return a


STAYS: dict[str, Callable[..., Any]] = {
    "one state": chained(lambda a, x: long(jnp.tanh(a + x))),
    "the work is the chain's": chained(
        lambda a, b, x: long(a) + x, lambda a, b, x: jnp.tanh(a * x + b)
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    run = Translated(STAYS[name], X)
    assert len(run.bodies) == 1


@pytest.mark.parametrize("twice", [False, True])
def test_a_loop_whose_work_both_loops_would_do_is_not_divided(twice: bool) -> None:
    """A loop inside makes the next state of a chain; the rest needs its result, or does not."""

    def halved(c: jax.Array) -> jax.Array:
        return jnp.sin(c) * jnp.cos(c) / (1 + jnp.tanh(c)) - jnp.exp(c) / 9 + jnp.sinh(c) / 99

    def step(carry: Any, _: Any) -> Any:
        k, h = carry
        inner = lax.while_loop(lambda c: jnp.sum(c) > 1, halved, k)
        rest = k
        for _ in range(14):
            rest = jnp.sin(rest) * 1.5
        rest += inner if twice else 0
        return (jnp.sqrt(jnp.abs(inner)) + 1, h * 0.5 + rest), None

    function = lambda x: lax.scan(step, (x, x), None, length=20)[0]  # noqa: E731
    x = np.array([0.5, 2.0, 3.0], np.float32)
    assert Translated(function, x).is_divided == (not twice)

"""Loops with trips that only copy the states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes

NAME = "early-exit"
X = np.array([0.5, 2.0, 3.0], np.float32)


def fired(function: Callable[..., Any], *args: Any) -> int:
    return int(verified(function, *args).report.rules[NAME])


def bounded(condition: Callable[..., Any], step: Callable[..., Any], start: Any) -> Any:
    """A while loop that `lax.scan` can differentiate."""
    return lax.scan(lambda s, _: (lax.cond(condition(s), step, lambda s: s, s), None), start,
                    length=40)[0]  # fmt: skip


def halve(s: Any) -> Any:
    x, count = s
    return x / 2, count + 1


def of_a_state(x: Array) -> Any:
    """The condition is computed from a state."""
    return bounded(lambda s: s[0].sum() > 0.1, halve, (x, 0))


def reversed_branches(x: Array) -> Any:
    """The first branch gives the states back."""

    def trip(s: Any, _: Any) -> Any:
        return lax.cond(s[0].sum() < 0.1, lambda s: s, halve, s), None

    return lax.scan(trip, (x, 0), length=40)[0]


def carried(x: Array) -> Any:
    """The condition is a state."""

    def step(s: Any) -> Any:
        x, count, _ = s
        return x / 2, count + 1, x.sum() > 0.3

    return bounded(lambda s: s[2], step, (x, 0, x.sum() > 0))


def numbered(x: Array) -> Any:
    """The branch reads the number of the trip."""

    def trip(s: Any, k: Any) -> Any:
        return lax.cond(s.sum() > 0.1, lambda s: s / (k + 2), lambda s: s, s), None

    return lax.scan(trip, x, jnp.arange(30.0))[0]


@pytest.mark.parametrize("function", [of_a_state, reversed_branches, carried, numbered])
def test_the_loop_ends(function: Callable[..., Any]) -> None:
    compiled = jax.jit(function)
    program = hlo2onnx.translate(compiled.lower(X))
    assert program.report.rules[NAME] == 1
    assert not any(node.op_type == "If" for node in all_nodes(program.model.graph))
    for scale in (1.0, 1e-3, 1e30, np.nan):
        x = X * np.float32(scale)
        leaves = zip(*map(jax.tree.leaves, (program(x), compiled(x))), strict=True)
        for found, wanted in leaves:
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def changes_another_state(x: Array) -> Any:
    """Each trip counts, so the loop has to make them all."""

    def trip(s: Any, _: Any) -> Any:
        x, count = s
        return (lax.cond(x.sum() > 0.1, lambda x: x / 2, lambda x: x, x), count * 2 + 1), None

    return lax.scan(trip, (x, x[0].astype(jnp.int32)), length=9)[0]


def both_change(x: Array) -> Any:
    def trip(s: Any, _: Any) -> Any:
        return lax.cond(s.sum() > 0.1, lambda s: jnp.sin(s), lambda s: jnp.exp(s), s), None

    return lax.scan(trip, x, length=9)[0]


def swaps(x: Array) -> Any:
    """The other branch gives the states back in another order."""

    def trip(s: Any, _: Any) -> Any:
        return lax.cond(s[0].sum() > 0.1, lambda s: (s[0] / 2, s[1]), lambda s: s[::-1], s), None

    return lax.scan(trip, (x, 2 * x), length=9)[0]


def stacked(x: Array) -> Any:
    def trip(s: Any, _: Any) -> Any:
        return lax.cond(s.sum() > 0.1, lambda s: s / 2, lambda s: s, s), s

    return lax.scan(trip, x, length=9)


def by_trip(x: Array) -> Any:
    """A later trip may change the states again."""

    def trip(s: Any, k: Any) -> Any:
        return lax.cond(s.sum() > k, lambda s: s - 1, lambda s: s, s), None

    return lax.scan(trip, x, jnp.asarray([1e3, 0, 1e3, 0, -1e3], np.float32))[0]


def goes_on(x: Array) -> Any:
    """A state that is the condition becomes true in the branch that keeps the others."""

    def trip(s: Any, _: Any) -> Any:
        on, x = s
        return lax.cond(on, lambda x: (x.sum() > 5, x / 2), lambda x: (True, x), x), None

    return lax.scan(trip, (True, x), length=9)[0]


def may_fail(x: Array) -> Any:
    """The condition divides by a state, which may be 0 after the last trip."""

    def trip(s: Any, _: Any) -> Any:
        n, x = s
        return lax.cond(1000 // n < 600, lambda n, x: (n - 1, x / 2), lambda n, x: s, n, x), None

    return lax.scan(trip, (jnp.asarray(x[0] * 0 + 9, jnp.int32), x), length=9)[0]


NEAR_MISSES = [changes_another_state, both_change, swaps, stacked, by_trip, goes_on, may_fail]


@pytest.mark.parametrize("function", NEAR_MISSES)
def test_all_trips_are_made(function: Callable[..., Any]) -> None:
    assert not fired(function, X)


def test_in_batches_every_example_ends_by_itself() -> None:
    assert not fired(jax.vmap(of_a_state), np.stack([X, X * 1e3]))

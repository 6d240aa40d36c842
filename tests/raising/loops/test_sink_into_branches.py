"""Nodes that only read results of a branch move into both branches."""

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
from hlo2onnx.ir.traversal import nodes_in, subgraphs

NAME = "sink-into-branches"
X = np.array([0.5, -2.0, 3.0, -0.0], np.float32)
INPUTS = (X, -X, X * np.float32(np.nan), X * np.float32(1e30), np.full_like(X, np.inf))


def choose(x: Array, then: Callable[[Array], Any], otherwise: Callable[[Array], Any]) -> Any:
    return lax.cond(jnp.sum(x) > 1, then, otherwise, jnp.tanh(x))


def not_of_flag(x: Array) -> Array:
    """A flag is False in one branch."""
    return ~choose(x, lambda y: jnp.all(y * y < 4), lambda _: jnp.array(False))


def scaled(x: Array) -> Array:
    """A step is 1 in one branch, and what the product is for reads another result."""
    step, y, z = choose(x, lambda y: (jnp.float32(1), y * 2, y - 3), lambda y: (y[0], y + 1, y * y))
    return z - step * y


def both_constant(x: Array) -> Array:
    return choose(x, lambda _: jnp.float32(2), lambda _: jnp.float32(-0.0)) * 3


def still_read(x: Array) -> tuple[Array, Array]:
    """Other nodes read the result, too."""
    y = choose(x, lambda y: y * y, jnp.zeros_like)
    return jnp.sqrt(y), y + x


def negative_zero(x: Array) -> Array:
    """x + -0 is x, for -0 too."""
    y, z = choose(x, lambda y: (jnp.full(4, -0.0), y * -1), lambda y: (y * y, y - 1))
    return (y + z) * 2


SUNK: dict[str, Callable[[Array], Any]] = {
    "flag": not_of_flag,
    "scaled": scaled,
    "both constant": both_constant,
    "still read": still_read,
    "-0": negative_zero,
}


def assert_same(program: hlo2onnx.OnnxProgram, function: Callable[[Array], Any]) -> None:
    """The model gives what the one without the rule gives."""
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={NAME})
    for x in INPUTS:
        jax.tree.map(np.testing.assert_array_equal, program(x), plain(x))


@pytest.mark.parametrize("name", SUNK)
def test_moves(name: str) -> None:
    program = verified(SUNK[name], X)
    assert program.report.rules[NAME] == 1
    assert_same(program, SUNK[name])


def test_a_branch_does_without() -> None:
    """Only one of the branches computes what stood behind them."""
    program = verified(not_of_flag, X)
    graph = program.model.graph
    assert all(node.op_type != "Not" for node in graph)
    (branching,) = (node for node in graph if node.op_type == "If")
    found = [sum(node.op_type == "Not" for node in nodes_in(each)) for each in subgraphs(branching)]
    assert sorted(found) == [0, 1]


def in_loop(x: Array) -> Array:
    """The flag of a loop's condition."""
    step = lambda s: (  # noqa: E731
        s[0] + 1, s[1] * 0.5, choose(s[1], lambda y: jnp.sum(y) < 0.5, lambda _: jnp.array(False))
    )  # fmt: skip
    done = jnp.array(False)
    return lax.while_loop(lambda s: ~s[2] & (s[0] < 9), step, (jnp.sum(x > 9), x, done))[1]


def test_condition_of_a_loop() -> None:
    program = verified(in_loop, X)
    assert program.report.rules[NAME] == 1
    assert_same(program, in_loop)


def nothing_folds(x: Array) -> Array:
    return jnp.exp(choose(x, lambda y: y * y, lambda y: y - 1))


def reads_more(x: Array) -> Array:
    """The product reads a value from before the branch."""
    return choose(x, lambda y: y - 1, lambda y: jnp.ones_like(y)) * x


def copied(x: Array) -> Array:
    """The branch would have to copy what the product gives back."""
    step, y = choose(x, lambda y: (jnp.float32(1), y), lambda y: (y[0], y))
    return jnp.cumsum(step * y)


def other_zero(x: Array) -> Array:
    """x + 0 is not x for -0."""
    y, z = choose(x, lambda y: (jnp.zeros(4), y * -1), lambda y: (y * y, y - 1))
    return jnp.signbit(y + z)


def equal_results(x: Array) -> Any:
    """The second result is a copy of the first one."""
    return choose(x, lambda _: (X[:1], X[:1]), lambda _: (X[2:3], X[2:3]))


@pytest.mark.parametrize("function", [equal_results, nothing_folds, reads_more, copied, other_zero])
def test_stays(function: Callable[[Array], Any]) -> None:
    program = verified(function, X)
    assert not program.report.rules[NAME]


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.int32, jnp.uint8])
def test_types(dtype: Any) -> None:
    def function(x: Array) -> Array:
        y = x.astype(dtype)
        step, z = lax.cond(jnp.sum(x) > 1, lambda: (dtype(1), y * y), lambda: (y[2], y + 1))
        return (step * z + 2) * 3

    program = verified(function, X)
    assert program.report.rules[NAME]
    assert_same(program, function)

"""Bodies that apply the same operators to two tensors apply them once to both, joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

RNG = np.random.default_rng(0)
X = (1.5 + RNG.random(size=(3, 20))).astype(np.float32)
ROW = RNG.random(size=(1, 19)).astype(np.float32)


def flux(w: Any) -> Any:
    a, b, c = w
    energy = c / 0.4 + 0.5 * a * b * b
    return jnp.stack([a * b, a * b * b + c, (energy + c) * b])


def speed(w: Any) -> Any:
    return jnp.abs(w[1]) + jnp.sqrt(1.4 * w[2] / w[0])


def faces(f: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A step of a solver with this flux from the states on the left and on the right."""

    def step(x: Any) -> Any:
        slope = jnp.tanh(x[:, 1:] - x[:, :-1])
        left, right = x[:, :-1] + 0.5 * slope, x[:, 1:] - 0.5 * slope
        return x - 0.01 * jnp.pad(jnp.diff(f(left, right)), ((0, 0), (1, 1)))

    return step


def both(lowered: Any) -> tuple[Any, Any]:
    """The program with the rule and without it."""
    rolled = {"loop-unroll"}
    plain = hlo2onnx.translate(lowered, without={"horizontal-fusion", *rolled})
    return hlo2onnx.translate(lowered, without=rolled), plain


def same(results: Any, others: Any) -> None:
    for one, other in zip(jax.tree.leaves(results), jax.tree.leaves(others), strict=True):
        np.testing.assert_array_equal(one, other)


class Body:
    """What a loop over a step becomes, with and without the rule: the same numbers, as in XLA."""

    def __init__(self, step: Callable[[Any], Any], x: Any = X) -> None:
        function = jax.jit(lambda x, trips: lax.fori_loop(0, trips, lambda _, x: step(x), x))
        args = (x, np.int32(3))
        program, plain = both(function.lower(*args))
        assert program.verify(*args).ok, program.verify(*args)
        same(program(*args), plain(*args))
        self.fired = program.report.rules["horizontal-fusion"]
        self.nodes = Counter(node.op_type for node in program.model.graph.all_nodes())
        self.saved = plain.report.nodes.total() - program.report.nodes.total()


TWINS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "sum": (lambda x, y: flux(x) + flux(y), 10),
    "sum-and-largest": (lambda x, y: flux(x) - flux(y) * jnp.maximum(speed(x), speed(y)), 14),
    "an-operand-of-both": (lambda x, y: flux(x) - flux(y) + x[0] * y[1], 8),
    "numbers-of-the-body": (lambda x, y: flux(x * y.max()) - flux(y * y.max()), 10),
    "one-does-more": (lambda x, y: flux(x) - flux(y) + jnp.sin(jnp.cos(y[2])), 9),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_joined(name: str) -> None:
    function, saved = TWINS[name]
    body = Body(faces(function))
    assert (body.fired, body.saved) == (1, saved)


OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "unlike": lambda x, y: flux(x) - jnp.stack([y[2], jnp.sin(y[0]), jnp.cos(y[1])]),
    "little-alike": lambda x, y: jnp.stack(list(x * 2)[::-1]) - jnp.stack(list(y * 2)[::-1]),
    "an-operand-for-each-column": lambda x, y: flux(x) * 0 + sum(
        jnp.exp(p * ROW[0]) * ROW[0] + q * ROW[0] for p, q in zip(x, y, strict=True)
    ),
    "one-after-the-other": lambda x, y: flux(y * flux(x).max()),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    assert Body(faces(OTHERS[name])).fired == 0


def test_the_second_depends_on_the_first() -> None:
    assert Body(faces(lambda x, y: flux(flux(x) + y))).fired == 0


def test_columns_are_joined_along_no_axis_of_theirs() -> None:
    """What is split along the last axis."""

    def step(x: Any) -> Any:
        left, right = jnp.sin(x), jnp.cos(x)
        return flux(left.T).T + flux(right.T).T

    assert Body(step, X.T).fired == 0


def test_large_tensors_stay() -> None:
    x = (1.5 + RNG.random(size=(3, 4000))).astype(np.float32)
    assert Body(faces(TWINS["sum"][0]), x).fired == 0


def test_twins_that_a_body_returns() -> None:
    def step(state: Any, _: Any) -> Any:
        x, y = state
        new = flux(jnp.tanh(x) * 2), flux(jnp.cos(y) * 2)
        return (jnp.tanh(new[0]), jnp.tanh(new[1])), (new, speed(x * x + 1))

    program, plain = both(jax.jit(lambda x: lax.scan(step, (x, x + 1), length=3)).lower(X))
    assert (program.report.rules["horizontal-fusion"], program.verify(X).ok) == (1, True)
    same(program(X), plain(X))


def test_single_columns_stay() -> None:
    """What is read by both could not be told from what is joined."""

    def step(x: Any) -> Any:
        y = jnp.sin(x)
        one = x[:1] * x[1:2] + x[2:]
        other = y[:1] * y[1:2] + y[2:]
        return jnp.tanh(jnp.concatenate([jnp.exp(-(one * one)) + one, other * one, x[2:]]))

    assert Body(step, X[:, :1]).fired == 0


def test_outside_of_loops_twins_stay() -> None:
    program = hlo2onnx.translate(jax.jit(faces(TWINS["sum"][0])).lower(X))
    assert (program.report.rules["horizontal-fusion"], program.verify(X).ok) == (0, True)

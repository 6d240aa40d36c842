"""Inner loops that depend on no state of the outer one run once for all its trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax
from verified import verified

import hlo2onnx
from hlo2onnx.ir.traversal import subgraphs

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(40, 6, 3)).astype(np.float32)
KEYS = RNG.integers(0, 1 << 32, size=(40, 2), dtype=np.uint32)


def depth(graph: oir.Graph) -> int:
    """How deep loops are nested."""
    inner = [g for node in graph for g in subgraphs(node)]
    return 1 + max(map(depth, inner)) if inner else 0


def translated(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    without = {"loop-unroll", *options.pop("without", ())}
    return verified(function, *args, without=without, **options)


def outer(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """A scan that adds f of its row to a state."""

    def function(rows: jax.Array) -> Any:
        like = jax.eval_shape(f, jax.ShapeDtypeStruct(rows.shape[1:], rows.dtype))
        state = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), like)

        def step(h: Any, row: Any) -> Any:
            h = jax.tree.map(lambda a, b: jnp.tanh(a + b), h, f(row))
            return h, h

        return lax.scan(step, state, rows)

    return function


def powers(row: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 30, lambda i, c: jnp.sin(c) * 0.5 + c, row)


def read_within(row: jax.Array) -> jax.Array:
    """The body reads the row itself, and the state starts from a constant."""
    return lax.fori_loop(0, 30, lambda i, c: jnp.sin(c) + row * i, jnp.ones((6, 3)))


def rows_of_rows(row: jax.Array) -> Any:
    """The inner loop takes the row apart and stacks what it makes of it."""
    return lax.scan(lambda c, x: (jnp.cos(c + x), jnp.exp(c)), row[0] * 0, row)


def backwards(row: jax.Array) -> Any:
    return lax.scan(lambda c, x: (jnp.cos(c + x), c), row[0], row, reverse=True)


def some_stay_alike(row: jax.Array) -> Any:
    """A state and a stack that are the same in all trips of the outer loop."""

    def step(c: Any, x: Any) -> Any:
        a, b = c
        return (jnp.sin(a + b), b * 1.01), (b, a)

    return lax.scan(step, (row, jnp.float32(1)), None, length=30)


def products(row: jax.Array) -> jax.Array:
    weights = jnp.asarray(X[0, :3])
    return lax.fori_loop(0, 30, lambda i, c: jnp.tanh(c @ weights), row)


def of_each_row_alone(row: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 30, lambda i, c: jax.nn.softmax(c.T.reshape(6, 3)) - c[::-1] / 2, row)


INNER = [powers, read_within, rows_of_rows, backwards, some_stay_alike, products, of_each_row_alone]


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("trips", [1, 40])
def test_inner_loops_leave(inner: Any, trips: int) -> None:
    program = translated(outer(inner), X[:trips])
    assert depth(program.model.graph) == 1


@pytest.mark.costly
@pytest.mark.parametrize("inner", INNER)
def test_rows_alone(inner: Any) -> None:
    """Nothing is left of the outer loop."""
    program = translated(lambda x: lax.map(inner, x), X)
    assert depth(program.model.graph) == 1
    assert depth(translated(lambda x: lax.map(inner, x), X, without=["partition-loop"]).model.graph)


def test_random_numbers_of_given_keys() -> None:
    def step(h: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        h = h + jax.random.normal(first, (3,))
        return jnp.where(jax.random.uniform(second) < 0.5, h, -h), h

    program = translated(lambda keys: lax.scan(step, jnp.zeros(3), keys), KEYS)
    loops = [node for node in program.model.graph if subgraphs(node)]
    assert depth(program.model.graph) == 1
    assert min(len(graph) for node in loops for graph in subgraphs(node)) <= 6
    assert "BitwiseXor" not in {node.op_type for node in subgraphs(loops[-1])[0]}


@pytest.mark.parametrize("trips", [2, 40])
def test_what_only_an_inner_loop_reads(trips: int) -> None:
    """The row goes with the inner loop, also where the outer one is written out."""

    def inner(row: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 30, lambda i, c: c * 0.9 + row * 0.1 - 0.01, row)

    def function(x: jax.Array) -> Any:
        return lax.scan(lambda h, row: (h * 0.5 + inner(row), None), x[0] * 0, x)[0]

    program = hlo2onnx.translate(jax.jit(function).lower(X[:trips]))
    assert program.verify(X[:trips]).ok
    assert depth(program.model.graph) == 1


def test_what_is_stacked_follows_the_loop() -> None:
    """The inner loop reads a state, but only a stack reads what it makes."""
    program = translated(
        lambda x: lax.scan(lambda h, row: (jnp.tanh(h + row), powers(h)), x[0], x), X
    )
    assert depth(program.model.graph) == 1


def of_a_state(x: jax.Array) -> Any:
    return lax.scan(lambda h, row: (powers(h + row), h), x[0], x)


def with_a_condition(x: jax.Array) -> Any:
    def inner(row: jax.Array) -> jax.Array:
        return lax.while_loop(lambda c: jnp.sum(c) < 5, lambda c: c * c + 1.0, row)

    return outer(inner)(x)


def of_as_many_trips_as_told(x: jax.Array) -> Any:
    def inner(row: jax.Array) -> jax.Array:
        return lax.fori_loop(0, (row[0, 0] * 9 + 9).astype(int), lambda i, c: c + row, row)

    return outer(inner)(x)


def reads_a_state(x: jax.Array) -> Any:
    def step(h: jax.Array, row: jax.Array) -> Any:
        return lax.fori_loop(0, 30, lambda i, c: jnp.sin(c + h), row), h

    return lax.scan(step, x[0], x)


def not_by_rows(x: jax.Array) -> Any:
    def inner(row: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 30, lambda i, c: jnp.sort(c, 0) * 0.9 + row, row)

    return outer(inner)(x)


def large(x: jax.Array) -> Any:
    """Rows of 64 kB, 5 MB in all."""
    return outer(lambda row: powers(jnp.tile(row, (900, 1))))(jnp.tile(x, (2, 1, 1)))


@pytest.mark.costly
@pytest.mark.parametrize(
    "function",
    [of_a_state, with_a_condition, of_as_many_trips_as_told, reads_a_state, not_by_rows, large],
)
def test_stays(function: Any) -> None:
    assert depth(translated(function, X).model.graph) == 2

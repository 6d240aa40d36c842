"""Loops of a known number of trips become Scan; the others stay Loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax
from verified import verified

import hlo2onnx

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3, 4)).astype(np.float32)
H = RNG.normal(size=(3, 4)).astype(np.float32)


def translated(function: Callable[..., Any], *args: Any, **options: Any) -> oir.Graph:
    """The model of a function, the numbers of which are those of XLA."""
    without = {"loop-unroll", *options.pop("without", ())}
    return verified(function, *args, without=without, **options).model.graph


def inside(graph: oir.Graph) -> Counter[str]:
    """The operators of the only Scan's body."""
    (scan,) = (node for node in graph.all_nodes() if node.op_type == "Scan")
    return Counter(node.op_type for node in scan.attributes["body"].as_graph())


def count(graph: oir.Graph) -> tuple[int, int]:
    """How many Scans and Loops there are."""
    found = Counter(node.op_type for node in graph.all_nodes())
    return found["Scan"], found["Loop"]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_inputs_of_the_body(reverse: bool) -> None:
    def step(h: jax.Array, rows: Any) -> Any:
        h = jnp.tanh(h * rows[0] + rows[1].sum())
        return h, h

    graph = translated(lambda x: lax.scan(step, H, (x, x + 1), reverse=reverse), X)
    assert inside(graph) == Counter(Mul=1, Add=1, Tanh=1, Identity=1)


def test_rows_that_are_results_of_the_body() -> None:
    """As states, and as stacks beside what follows from states."""

    def step(state: Any, row: jax.Array) -> Any:
        before, h = state
        return (row, jnp.tanh(h + before)), (before, h)

    graph = translated(lambda x: lax.scan(step, (x[0], H), x), X)
    assert count(graph) == (1, 0)


def test_the_first_rows() -> None:
    graph = translated(lambda x: lax.fori_loop(0, 4, lambda i, h: jnp.tanh(h + x[i]), H), X)
    assert inside(graph) == Counter(Add=1, Tanh=1)


def test_a_body_without_rows_stays() -> None:
    """Some runtimes take the number of trips from the rows that the body reads."""
    graph = translated(lambda h: lax.scan(lambda h, _: (jnp.tanh(h), h), h, length=5), H)
    assert count(graph) == (0, 1)


def test_numbers_where_the_body_reads_them() -> None:
    def step(i: jax.Array, h: jax.Array) -> jax.Array:
        return jnp.tanh(lax.dynamic_update_slice(h, h[:1] * 2, (i % 3, i - i)))

    graph = translated(lambda h: lax.fori_loop(0, 5, step, h), H)
    assert count(graph) == (1, 0)


def test_rows_that_are_the_numbers() -> None:
    """The program's own list of numbers, scanned beside the number of the trip, is the same one."""

    def step(i: jax.Array, h: jax.Array) -> jax.Array:
        number = jnp.arange(len(X))[i]
        return jnp.roll(h, 1) * number + h[number % 2] + i.astype(h.dtype)

    graph = translated(lambda h: lax.fori_loop(0, len(X), step, h), H)
    assert count(graph) == (1, 0)


@pytest.mark.wide
def test_nested() -> None:
    def function(x: jax.Array) -> Any:
        def outer(h: jax.Array, row: jax.Array) -> Any:
            return lax.scan(lambda g, v: (jnp.tanh(g + v * row.sum()), g), h, row + h[0])

        return lax.scan(outer, jnp.ones(4), x)

    assert count(translated(function, X)) == (2, 0)


def test_swapped_states() -> None:
    rows = jnp.asarray(X)
    function = lambda h: lax.fori_loop(0, 3, lambda i, s: (s[1], s[0] * rows[i]), (h, h + 1))  # noqa: E731
    assert count(translated(function, H)) == (1, 0)


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, ml_dtypes.bfloat16, np.float16, np.uint32])
def test_element_types(dtype: Any) -> None:
    x = (X > 0).astype(dtype)
    graph = translated(lambda x: lax.scan(lambda c, r: (r, jnp.stack([c, r])), x[0], x), x)
    assert count(graph)[1] == 0


def test_in_a_branch() -> None:
    def scan(x: jax.Array) -> jax.Array:
        return lax.scan(lambda h, row: (jnp.tanh(h + row), None), x[0], x)[0]

    function = lambda p, x: lax.cond(p, scan, lambda x: x[1], x)  # noqa: E731
    for predicate in (True, False):
        assert count(translated(function, np.array(predicate), X)) == (1, 0)


@pytest.mark.wide
def test_symbolic_rows() -> None:
    (b,) = jax.export.symbolic_shape("b")
    spec = jax.ShapeDtypeStruct((7, b, 4), np.float32)

    def function(x: jax.Array) -> Any:
        return lax.scan(lambda h, row: (jnp.tanh(h * row), h), jnp.ones_like(x[0]), x)

    exported = jax.export.export(jax.jit(function))(spec)
    program = hlo2onnx.translate(exported, without="loop-unroll")
    assert count(program.model.graph) == (1, 0)
    for batch in (1, 3):
        assert program.verify(X[:, :batch]).ok


LOOPS: dict[str, Callable[..., Any]] = {
    "bound": lambda n, h: lax.fori_loop(0, n, lambda i, h: jnp.tanh(h) * 2, h),
    "condition": lambda n, h: lax.while_loop(
        lambda s: s[0].sum() < n, lambda s: (jnp.abs(jnp.tanh(s[0])) + s[0],), (jnp.abs(h),)
    ),
}


@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_trips_that_are_not_known_stay(name: str, trips: int) -> None:
    assert count(translated(LOOPS[name], np.int32(trips), H)) == (0, 1)


def test_switched_off() -> None:
    function = lambda x: lax.scan(lambda h, row: (jnp.tanh(h + row), h), H, x)  # noqa: E731
    assert count(translated(function, X, without={"loop-to-scan"})) == (0, 1)

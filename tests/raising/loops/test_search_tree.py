"""Loops that search a table by halving ranges walk through a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx

RNG = np.random.default_rng(0)
SORTED = np.sort(RNG.normal(size=100)).astype(np.float32)
ODD = np.array([-np.inf, -2, -0.0, 0.0, 0.5, np.inf, np.nan], np.float32)
EQUAL = np.repeat(np.arange(5, dtype=np.float32), 9)
SHUFFLED = RNG.permutation(SORTED)
X = np.concatenate([RNG.normal(size=30).astype(np.float32), ODD, SORTED[:5]])
NAME = "search-tree"


def fired(function: Callable[..., Any], *args: Any, **options: Any) -> int:
    """How often the rule fires in a program that gives XLA's numbers."""
    return verified(function, *args, **options).report.rules[NAME]


@pytest.mark.costly
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("table", [SORTED, ODD, EQUAL, SHUFFLED, X[:2], X[:7], X[:8]])
def test_search(side: str, table: np.ndarray) -> None:
    """Also in tables without an order, where the result depends on the elements that are read."""
    assert fired(lambda t, x: jnp.searchsorted(t, x, side=side), table, X) == 1


@pytest.mark.parametrize("shape", [(), (1,), (6, 7), (2, 3, 7)])
def test_shape_of_what_is_searched(shape: tuple[int, ...]) -> None:
    x = X[:42].reshape(shape) if shape and shape != (1,) else X[0].reshape(shape)
    assert fired(jnp.searchsorted, SORTED, x) == 1


def test_integers() -> None:
    table, x = np.arange(-40, 40, 2, dtype=np.int32), RNG.integers(-50, 50, 64).astype(np.int32)
    assert fired(jnp.searchsorted, table, x) == 1


@pytest.mark.wide
def test_programs_of_numpy() -> None:
    """`digitize` searches in tables of either order, and `interp` as in one of them."""

    def function(x: Array, known: Array, at: Array) -> tuple[Array, ...]:
        return jnp.interp(x, known, at), jnp.digitize(x, known)

    assert fired(function, X, SORTED, SORTED[::-1].copy()) == 2


def test_fewer_nodes_in_the_body() -> None:
    kept = ["loop-unroll"]
    tree = verified(jnp.searchsorted, SORTED, X, without=kept)
    assert tree.report.rules[NAME] == 1
    inside = Counter(
        node.op_type for graph in tree.model.graph.subgraphs() for node in graph if graph.inputs
    )
    walk = Counter({"Gather": 1, "LessOrEqual": 1, "IsNaN": 1, "Or": 1, "Cast": 1, "Add": 2})
    walk["Identity"] = 1  # of the condition, which is true
    assert not inside - walk


def search(
    condition: Callable[[Array, Array, Array, Array], Array] = lambda x, y, low, i: y <= x,
    middle: Callable[[Array, Array, Array], Array] = lambda low, high, i: (low + high) // 2,
    first: Callable[[Array], Any] = lambda x: 0,
    size: int = 100,
) -> Callable[[Array, Array], Any]:
    """A search in a table, and the last element that it has read."""

    def function(table: Array, x: Array) -> Any:
        def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = state
            place = middle(low, high, i)
            right = condition(x, table[jnp.clip(place, 0, size - 1)], low, i)
            return jnp.where(right, place, low), jnp.where(right, high, place)

        low = jnp.zeros(x.shape, jnp.int32) + first(x)
        return lax.fori_loop(0, 7, step, (low, jnp.full(x.shape, size, jnp.int32)))

    return function


@pytest.mark.wide
def test_both_states_are_read() -> None:
    assert fired(search(), SORTED, X) == 1
    assert fired(search(), SHUFFLED, X) == 1


def test_condition_of_several_nodes() -> None:
    def condition(x: Array, y: Array, low: Array, i: Array) -> Array:
        return (y <= x) | (jnp.abs(y - x) < 0.1)

    assert fired(search(condition), SORTED, X) == 1


def test_place_by_constants() -> None:
    """A search that halves nothing is a tree, too."""
    assert fired(search(middle=lambda low, high, i: low + (high - low) // 3), SORTED, X) == 1


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(search(first=lambda x: (x > 0).astype(jnp.int32)), id="start-computed"),
        pytest.param(search(first=lambda x: np.arange(x.size, dtype=np.int32)), id="starts-differ"),
        pytest.param(search(lambda x, y, low, i: (y <= x) & (low < 9)), id="state-in-condition"),
        pytest.param(search(lambda x, y, low, i: (y <= x) & (i < 4)), id="trip-in-condition"),
        pytest.param(search(middle=lambda low, high, i: low + (high - low) // (i + 2)), id="trip"),
        pytest.param(search(middle=lambda low, high, i: low[::-1] + 1), id="others-state"),
    ],
)
def test_near_misses(function: Callable[..., Any]) -> None:
    assert not fired(function, SORTED, X)


@pytest.mark.wide
def test_sum_of_the_elements() -> None:
    """A state that is no integer, or that takes a number from the table."""

    def function(table: Array, x: Array) -> Array:
        def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            place, total = state
            y = table[place]
            return jnp.where(y < x, 2 * place + 1, 2 * place + 2) % 100, total + y

        start = (jnp.zeros(x.shape, jnp.int32), jnp.zeros(x.shape, jnp.float32))
        return lax.fori_loop(0, 7, step, start)[1]

    def places(table: Array, x: Array) -> Array:
        def step(_: Array, place: Array) -> Array:
            y = table[place]
            return jnp.where(y < x, y, place + 1) % 40

        return lax.fori_loop(0, 7, step, jnp.zeros(x.shape, jnp.int32))

    assert not fired(function, SORTED, X)
    table, x = (RNG.integers(0, 40, 40).astype(np.int32) for _ in range(2))
    assert not fired(places, table, x)


@pytest.mark.wide
def test_large_tables_for_few_elements() -> None:
    table = np.arange(5000, dtype=np.float32)
    assert not fired(jnp.searchsorted, table, X)
    assert fired(jnp.searchsorted, table, np.linspace(-1, 6000, 2000, dtype=np.float32)) == 1


def test_free_extents() -> None:
    """The number of elements that are searched must be known."""
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), np.float32)
    exported = jax.export.export(jax.jit(jnp.searchsorted))(SORTED, x)
    program = hlo2onnx.translate(exported)
    assert not program.report.rules[NAME]
    np.testing.assert_array_equal(program(SORTED, X), jnp.searchsorted(SORTED, X))

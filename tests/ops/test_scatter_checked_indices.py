"""Scatters of many elements check all indices at once: one branch clamps none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from target_costs import use_costs

import hlo2onnx

RNG = np.random.default_rng(0)
ROWS, COLUMNS, COUNT = 5, 7, 300
LIMITS = np.iinfo(np.int32)
ROW, COLUMN = (RNG.integers(0, extent, COUNT).astype(np.int32) for extent in (ROWS, COLUMNS))
IMAGE = RNG.integers(-9, 9, (ROWS, COLUMNS)).astype(np.float32)
VALUES = RNG.integers(-9, 9, COUNT).astype(np.float32)


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, many_elements=64)


def translated(function: Callable[..., Any], *args: Any) -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(jax.jit(function).lower(*args))


def has_branches(program: hlo2onnx.OnnxProgram) -> bool:
    return program.report.nodes["If"] == 1


def with_some(index: np.ndarray, *others: int) -> np.ndarray:
    """Indices of which some are replaced."""
    changed = index.copy()
    changed[7 :: len(index) // 9] = np.resize(others, changed[7 :: len(index) // 9].shape)
    return changed


INDICES = {
    "inside": (ROW, COLUMN),
    "negative": (with_some(ROW, -1, -ROWS), COLUMN),
    "negative-column": (ROW, with_some(COLUMN, -1, -COLUMNS)),
    "last-column": (ROW, with_some(COLUMN, -1)),
    "too-low": (with_some(ROW, -ROWS - 1), COLUMN),
    "too-high": (ROW, with_some(COLUMN, COLUMNS)),
    "first-too-high": (with_some(ROW, ROWS), COLUMN),
    "extremes": (with_some(ROW, LIMITS.min), with_some(COLUMN, LIMITS.max, LIMITS.min)),
}


@pytest.mark.parametrize("places", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("kind", ["add", "set", "max", "multiply"])
def test_pairs(places: tuple[np.ndarray, np.ndarray], kind: str) -> None:
    """One model takes all indices. Equal targets are written in order."""

    def function(x: Array, i: Array, j: Array, y: Array) -> Array:
        return getattr(x.at[i, j], kind)(y)

    values = VALUES if kind != "multiply" else np.sign(VALUES) * 2 + 1
    values = np.where(np.arange(COUNT) % 31, values, np.nan).astype(np.float32)
    program = translated(function, IMAGE, ROW, COLUMN, values)
    assert has_branches(program)
    expected = jax.jit(function)(IMAGE, *places, values)
    np.testing.assert_array_equal(program(IMAGE, *places, values), expected)


@pytest.mark.parametrize("others", [(), (-1, -40), (40,), (-41, 2)])
def test_one_axis(others: tuple[int, ...]) -> None:
    def function(x: Array, i: Array, y: Array) -> Array:
        return x.at[i].set(y)

    x, i = np.arange(40, dtype=np.int32), RNG.integers(0, 40, COUNT).astype(np.int32)
    places, values = with_some(i, *others) if others else i, np.arange(COUNT, dtype=np.int32)
    program = translated(function, x, i, values)
    assert has_branches(program)
    np.testing.assert_array_equal(program(x, places, values), jax.jit(function)(x, places, values))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.complex64, np.float16])
def test_types(dtype: Any) -> None:
    def function(x: Array, i: Array, j: Array, y: Array) -> Array:
        return x.at[i, j].max(y) if x.dtype == bool else x.at[i, j].add(y)

    x, values = (IMAGE > 0).astype(dtype), (VALUES > 2).astype(dtype)
    program = translated(function, x, ROW, COLUMN, values)
    assert has_branches(program)
    for places in INDICES.values():
        expected = jax.jit(function)(x, *places, values)
        np.testing.assert_array_equal(program(x, *places, values), expected)


def test_three_axes_in_batches() -> None:
    """Indices of several axes, in another order than the operand's."""

    def function(x: Array, i: Array, j: Array, k: Array, y: Array) -> Array:
        return jnp.transpose(x).at[k, j, i].add(y)

    x = RNG.integers(-9, 9, (3, 4, 5)).astype(np.float32)
    given = [RNG.integers(0, n, (10, 30)).astype(np.int32) for n in x.shape]
    values = VALUES.reshape(10, 30)
    program = translated(function, x, *given, values)
    assert has_branches(program)
    given[1][3, 5:9] = [-1, -4, -5, 4]
    expected = jax.jit(function)(x, *given, values)
    np.testing.assert_array_equal(program(x, *given, values), expected)


def add(x: Array, i: Array, j: Array, y: Array) -> Array:
    return x.at[i, j].add(y)


def add_again(x: Array, i: Array, j: Array, y: Array) -> Array:
    """Negative indices get a number that is not the extent."""
    i, j = (jnp.where(k < 0, k + 2, k) for k in (i, j))
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    return lax.scatter_add(x, jnp.stack([i, j], -1), y, numbers)


def test_another_number_is_added() -> None:
    program = translated(add_again, IMAGE, ROW, COLUMN, VALUES)
    assert has_branches(program)
    for places in INDICES.values():
        expected = jax.jit(add_again)(IMAGE, *places, VALUES)
        np.testing.assert_array_equal(program(IMAGE, *places, VALUES), expected)


def add_below_two(x: Array, i: Array, j: Array, y: Array) -> Array:
    """Other indices than negative ones are moved."""
    i, j = (jnp.where(k < 2, k + 2, k) for k in (i, j))
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    return lax.scatter_add(x, jnp.stack([i, j], -1), y, numbers)


def add_own(x: Array, i: Array, j: Array, y: Array) -> Array:
    """Each negative index gets a number of its own."""
    i, j = (jnp.where(k < 0, k + jnp.arange(COUNT) % 5, k) for k in (i, j))
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    return lax.scatter_add(x, jnp.stack([i, j], -1), y, numbers)


def add_where_other(x: Array, i: Array, j: Array, y: Array) -> Array:
    """The sign of another number decides."""
    i, j = (jnp.where(y < 0, k + 1, k) for k in (i, j))
    i, j = i.astype(jnp.int32), j.astype(jnp.int32)
    numbers = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    return lax.scatter_add(x, jnp.stack([i, j], -1), y, numbers)


def add_rows(x: Array, i: Array, j: Array, y: Array) -> Array:
    return x.at[i].add(jnp.broadcast_to(y[:, None], (COUNT, COLUMNS)))


def clipped(x: Array, i: Array, j: Array, y: Array) -> Array:
    return x.at[i, j].add(y, mode="clip")


@pytest.mark.parametrize("function", [add_below_two, add_own, add_where_other, add_rows, clipped])
def test_near_misses(function: Callable[..., Array]) -> None:
    program = translated(function, IMAGE, ROW, COLUMN, VALUES)
    assert not has_branches(program)
    for places in INDICES.values():
        expected = jax.jit(function)(IMAGE, *places, VALUES)
        np.testing.assert_array_equal(program(IMAGE, *places, VALUES), expected)


def test_few_elements() -> None:
    program = translated(add, IMAGE, ROW[:63], COLUMN[:63], VALUES[:63])
    assert not has_branches(program)


def test_other_types_of_indices() -> None:
    """Only the arithmetic of i32 is sure to hold all indices."""
    assert not has_branches(translated(add, IMAGE, ROW.astype(np.uint32), COLUMN, VALUES))
    program = translated(add, IMAGE, ROW.astype(np.int8), COLUMN.astype(np.int8), VALUES)
    assert program.verify(IMAGE, ROW.astype(np.int8), COLUMN.astype(np.int8), VALUES)

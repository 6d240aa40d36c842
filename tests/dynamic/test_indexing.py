"""Gathers with free dimensions take the same nodes as static ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_size import every_size
from jax import lax

from hlo2onnx import OnnxProgram

TABLE = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def operators(program: OnnxProgram) -> Counter[str]:
    return Counter(node.op_type for node in program.model.graph.all_nodes())


def take(x: jax.Array) -> jax.Array:
    return jnp.take(jnp.asarray(TABLE), x, axis=0)


def test_rows_of_a_table() -> None:
    program = every_size(take, "int32[b, s]", integers=9)
    assert operators(program) == Counter(["Clip", "Equal", "Unsqueeze", "Gather", "Where"])


def test_rows_that_are_counted() -> None:
    """Positions are not negative; those past the end are NaN."""
    program = every_size(lambda x: x + take(jnp.arange(x.shape[0])), "s, 3")
    made = ["Shape", "Squeeze", "Range", "LessOrEqual", "Min", "Gather", "Reshape", "Where", "Add"]
    assert operators(program) - Counter(["Cast"]) == Counter(made)


def test_a_comparison_that_ranges_decide() -> None:
    """It is known for all elements, however many there are."""
    program = every_size(
        lambda x: jnp.where((jnp.arange(x.shape[0]) < 0) | (x < 0), 0, x), "int32[n]"
    )
    assert "Or" not in operators(program)


def test_a_causal_mask() -> None:
    """Only the comparison and the choice work on all elements; the rest is made of positions."""

    def masked(x: jax.Array) -> jax.Array:
        place = jnp.arange(x.shape[0])
        return jnp.where(place[:, None] >= place, x, -jnp.inf)

    program = every_size(masked, "s, s")
    made = ["Shape", "Squeeze", "Range", "Cast", "Unsqueeze", "GreaterOrEqual", "Where"]
    assert operators(program) == Counter(made)


def test_positions_as_floats() -> None:
    """0 + x is x where x is no -0."""
    program = every_size(lambda x: x * jnp.arange(x.shape[0], dtype=jnp.float32), "s")
    assert operators(program) == Counter(["Shape", "Squeeze", "Range", "Cast", "Mul"])


SLICES = {
    "last": (lambda x: x[:, -1], ["Gather"]),
    "last but one": (lambda x: x[:, -2], ["Gather"]),
    "all but the first": (lambda x: x[:, 1:], ["Slice"]),
    "all but the last": (lambda x: x[:, :-1], ["Shape", "Slice", "Sub"]),
    "all but three, if there are": (lambda x: x[:, 3:], ["Min", "Shape", "Slice"]),
    "differences": (lambda x: x[:, 1:] - x[:, :-1], ["Shape", "Slice", "Slice", "Sub", "Sub"]),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", SLICES)
def test_slices(name: str) -> None:
    """As one would write them: what is counted from the end needs no extent."""
    function, expected = SLICES[name]
    program = every_size(function, "b, s + 1, 8")
    assert sorted(operators(program).elements()) == expected


WINDOWS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "rows of a symbolic size": (
        lambda x, i: jax.vmap(
            lambda k: lax.dynamic_slice(x, (0, k, 0), (2, x.shape[1] - 3, 3))
        )(i),
        ("2, b + 3, 3", "int32[4]"),
    ),
    "patches of a symbolic size": (
        lambda x, i: jax.vmap(
            lambda k: lax.dynamic_slice(x, (*k, 0), (x.shape[0] - 3, x.shape[0] - 3, 2))
        )(i),
        ("b + 3, b + 3, 2", "int32[4, 2]"),
    ),
    "two axes, the first of a symbolic size": (
        lambda x, i: jax.vmap(
            lambda k: lax.dynamic_slice(x, (0, *k), (2, x.shape[1] - 3, 5))
        )(i),
        ("2, b + 3, 8", "int32[4, 2]"),
    ),
    "two axes, the second of a symbolic size": (
        lambda x, i: jax.vmap(
            lambda k: lax.dynamic_slice(x, (0, *k), (2, 2, x.shape[2] - 3))
        )(i),
        ("2, 8, b + 3", "int32[4, 2]"),
    ),
    "a slice that follows from the shape": (
        lambda x: lax.dynamic_slice(x, (x.shape[0] - 3, 0), (3, 2)), ("b + 3, 2",),
    ),
    "a row that follows from the shape": (
        lambda x: x[jnp.asarray(x.shape[0] - 1)], ("b, 3",),
    ),
    "an element that follows from the shape": (
        lambda x: x[jnp.asarray(0), jnp.asarray(x.shape[0] - 1)], ("b, b",),
    ),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_at_given_places(name: str) -> None:
    function, specs = WINDOWS[name]
    every_size(function, *specs)


def test_a_window_of_rows_has_their_number() -> None:
    """As keras-hub masks keys that are far away: made of positions, and cut once."""

    def mask(x: jax.Array, keys: jax.Array, start: jax.Array) -> jax.Array:
        count = keys.shape[0]
        near = ~jnp.tri(count, k=-3, dtype=bool) & jnp.tri(count, k=2, dtype=bool)
        return jnp.where(lax.dynamic_slice(near, (start, 0), (x.shape[0], count)), 0, x[:, None])

    program = every_size(mask, "s", "2*s", "int32[]", integers=9)
    assert operators(program).keys().isdisjoint({"Expand"})
    assert operators(program)["Slice"] == 2

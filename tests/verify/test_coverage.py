"""Coverage: which guards the inputs reach, and what is said of the others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.verify.compare import Coverage

X = np.ones(3, np.float32)


def coverage(function: Any, *args: np.ndarray) -> Coverage:
    found = hlo2onnx.translate(jax.jit(function).lower(*args)).verify()
    assert found.ok, found
    assert found.coverage is not None
    return found.coverage


def test_a_side_that_no_input_reaches_is_named() -> None:
    found = coverage(lambda x: jnp.where(jnp.sin(x) > 2, 1 / x, x), X)
    assert (found.reached, found.total) == (1, 2)
    (missed,) = found.missed
    assert missed.startswith("select with a true condition (")
    assert "test_coverage.py" in missed
    assert str(found).startswith(
        "guards reached 1 of 2. No sample reaches select with a true condition"
    )


def test_a_side_in_a_function_in_a_loop_in_a_branch() -> None:
    @jax.jit
    def clipped(x: jax.Array) -> jax.Array:
        return lax.clamp(-1.0, x, jnp.float32(9))

    def looped(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, 4, lambda _, x: clipped(x) + 2, x)

    found = coverage(lambda x: lax.cond(x[0] > 0, looped, clipped, x), X)
    assert (found.reached, found.total) == (4, 4)


def test_constants_have_no_guards() -> None:
    def masked(x: jax.Array) -> jax.Array:
        return jnp.where(jnp.arange(3) > 1, x, 0) + x[jnp.array([0, 2, 1])]

    assert hlo2onnx.translate(jax.jit(masked).lower(X)).verify().coverage is None


def test_guards_in_a_comparator_are_not_observed() -> None:
    found = hlo2onnx.translate(jax.jit(jnp.sort).lower(X)).verify()
    assert found.coverage is not None
    assert found.coverage.unobserved
    assert "not observed" in str(found)


@pytest.mark.wide
@pytest.mark.parametrize("limit", [7.0, -250.0])
def test_a_loop_whose_trips_depend_on_the_input(limit: float) -> None:
    def count(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda s: s < limit, lambda s: s + 1, jnp.sum(x))

    found = coverage(count, X)
    assert (found.reached, found.total) == (1, 1)


def test_coverage_of_given_arguments_is_unknown() -> None:
    assert hlo2onnx.translate(jax.jit(jax.nn.relu).lower(X)).verify(X).coverage is None

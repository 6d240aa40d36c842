"""Loops that a condition ends, for targets that run no Loop."""

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
from hlo2onnx import TranslationError

X = np.array([0.5, 1.5, 40], np.float32)


def halved(x: jax.Array) -> Any:
    """At most 20 trips, and fewer for small numbers."""

    def goes_on(state: Any) -> jax.Array:
        return (state[0] < 20) & (jnp.max(jnp.abs(state[1])) > 1)

    return lax.while_loop(goes_on, lambda state: (state[0] + 1, state[1] / 2), (0, x))


def nested(x: jax.Array) -> Any:
    """Such a loop in another one that counts."""
    return lax.fori_loop(0, 3, lambda i, x: halved(x * (i + 2.0))[1], x)


@pytest.mark.parametrize("target", ["iree", "tract"])
@pytest.mark.parametrize("function", [halved, nested])
def test_the_trips_after_the_last_one_keep_the_states(
    function: Callable[..., Any], target: str
) -> None:
    program = hlo2onnx.translate(function, X, target=target)
    kinds = Counter(node.op_type for node in program.model.graph.all_nodes())
    assert not kinds["Loop"] and kinds["Scan"] and kinds["If"]
    for x in (X, X / 100, X * 1e30, np.full(3, np.nan, np.float32)):
        for found, right in zip(
            jax.tree.leaves(program(x)), jax.tree.leaves(jax.jit(function)(x)), strict=True
        ):
            np.testing.assert_array_equal(found, right)


def test_a_limit_must_be_known() -> None:
    def endless(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: jnp.max(x) > 1, lambda x: x / 2, x)

    with pytest.raises(TranslationError, match="tract runs no Loop"):
        hlo2onnx.translate(endless, X, target="tract")


def test_other_targets_keep_the_condition() -> None:
    program = hlo2onnx.translate(halved, X)
    assert program.report.nodes["Loop"] == 1

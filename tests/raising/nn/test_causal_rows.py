"""Whether a query sees any key."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx

Mask = Callable[[int, int], jax.Array]


def causal(shift: int = 0, window: int = 100) -> Mask:
    def mask(new: int, total: int) -> jax.Array:
        query, key = jnp.arange(new)[:, None] + total - new, jnp.arange(total)
        return (key <= query + shift) & (key > query - window)

    return mask


def visible(mask: jax.Array) -> jax.Array:
    return jnp.any(mask, axis=-1)


CASES: list[tuple[Mask, Callable[[jax.Array], jax.Array], bool]] = [
    (causal(), visible, True),
    (causal(window=1), visible, True),
    (causal(), lambda mask: jnp.all(mask == 0, axis=-1), True),  # as keras-hub asks
    (causal(), lambda mask: jnp.any(mask, axis=-1, keepdims=True)[:, 0], True),
    (causal(shift=-1), visible, False),
    (causal(shift=1), visible, False),
    (causal(), lambda mask: jnp.all(mask, axis=-1), False),
    (causal(), lambda mask: jnp.any(~mask, axis=-1), False),
    (causal(), lambda mask: jnp.any(mask, axis=0), False),
    (causal(), lambda mask: jnp.any(mask), False),
]


@pytest.mark.parametrize(("mask", "ask", "fires"), CASES)
def test_a_query_sees_itself(
    mask: Mask, ask: Callable[[jax.Array], jax.Array], fires: bool
) -> None:
    def function(new: jax.Array, keys: jax.Array, past: jax.Array) -> jax.Array:
        return ask(mask(new.shape[0], keys.shape[0]))

    program = hlo2onnx.translate(
        function, "s", "t", "t - s", constraints=["t >= s"], attention="gqa"
    )
    assert ("causal-rows" in program.report.rules) == fires
    for new, total in ((1, 1), (1, 5), (3, 3), (2, 7)):
        inputs = [np.zeros(n, np.float32) for n in (new, total, total - new)]
        np.testing.assert_array_equal(program(*inputs), function(*inputs))


def test_queries_that_may_be_more_than_the_keys() -> None:
    def function(new: jax.Array, keys: jax.Array) -> jax.Array:
        return visible(causal()(new.shape[0], keys.shape[0]))

    program = hlo2onnx.translate(function, "s", "t", attention="gqa")
    assert "causal-rows" not in program.report.rules
    inputs = np.zeros(3, np.float32), np.zeros(2, np.float32)
    np.testing.assert_array_equal(program(*inputs), [False, True, True])

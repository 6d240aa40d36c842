"""The gradients of pooling over symbolic extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from every_size import every_size
from jax import lax


def gradient(window: tuple[int, ...], strides: tuple[int, ...], padding: Any) -> Callable[..., Any]:
    def loss(x: jax.Array) -> jax.Array:
        pooled = lax.reduce_window(x, -jnp.inf, lax.max, (1, *window, 1), (1, *strides, 1), padding)
        return (pooled**2).sum()

    return jax.grad(loss)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("window", "strides", "padding", "spec"),
    [
        ((2, 2), (2, 2), "VALID", "b, 8, 8, 3"),
        ((3, 3), (2, 2), "SAME", "b, 8, 8, 3"),
        ((3, 3), (1, 1), ((0, 0), (1, 1), (1, 1), (0, 0)), "b, 4, 4, 3"),
        ((2, 2), (2, 2), "VALID", "b, h, w, 3"),
        ((3, 2), (1, 2), "VALID", "b, h, w, 3"),
    ],
)
def test_max_pooling(
    window: tuple[int, ...], strides: tuple[int, ...], padding: Any, spec: str
) -> None:
    every_size(gradient(window, strides, padding), spec, sizes=(4, 7))


def test_average_pooling() -> None:
    def loss(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        return (lax.reduce_window(x, 0.0, lax.add, window, window, "SAME") ** 2).sum()

    every_size(jax.grad(loss), "b, 8, 8, 3")

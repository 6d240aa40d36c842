"""Kernel regression with memory bounded by ``lax.map``: query by query, or in batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def regress(
    batch_size: int | None, points: jax.Array, values: jax.Array, queries: jax.Array
) -> jax.Array:
    """Average the values of the points near each query, for one query at a time."""

    def at(query: jax.Array) -> jax.Array:
        squares = jnp.sum((points - query) ** 2, axis=-1)
        return jax.nn.softmax(-squares) @ values

    return jax.lax.map(at, queries, batch_size=batch_size)


def build(
    batch_size: int | None = None,
    points: int = 200,
    queries: int = 100,
    features: int = 8,
    dtype: Any = jnp.float32,
) -> tuple[
    Callable[[jax.Array, jax.Array, jax.Array], jax.Array], tuple[jax.Array, jax.Array, jax.Array]
]:
    """Return the regression, the points, their values, and queries."""
    rng = np.random.default_rng(0)
    at, asked = rng.normal(size=(points, features)), rng.normal(size=(queries, features))
    values = np.stack([np.sin(at.sum(1)), np.cos(at[:, 0])], axis=1)
    args = (jnp.asarray(at, dtype), jnp.asarray(values, dtype), jnp.asarray(asked, dtype))
    return partial(regress, batch_size), args


SMALL = {"points": 10, "queries": 7, "features": 3}
EXAMPLE = Example(
    name="lax_map",
    summary="Kernel regression by lax.map, one query at a time",
    build=build,
    small=SMALL,
    gradient=(0, 1, 2),
)
EXAMPLES = [
    EXAMPLE,
    Example(
        name="lax_map_batched",
        summary="Kernel regression by lax.map in batches, with a smaller one at the end",
        build=partial(build, batch_size=16),
        small={**SMALL, "batch_size": 3},
        gradient=(0, 1, 2),
    ),
]

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

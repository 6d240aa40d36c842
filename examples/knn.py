"""Classification by the k nearest neighbours: distances, top_k, the neighbours' labels, a vote."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def classify(
    points: jax.Array, labels: jax.Array, queries: jax.Array, *, k: int, classes: int
) -> tuple[jax.Array, jax.Array]:
    """Return the most frequent label among the k nearest points of each query, and their places.

    Among equally frequent labels the lowest wins.
    """
    # |q - p|^2 without the |q|^2, which is the same for all points.
    distances = jnp.sum(jnp.square(points), axis=-1) - 2 * queries @ points.T
    _, nearest = jax.lax.top_k(-distances, k)
    votes = jax.nn.one_hot(jnp.take(labels, nearest, axis=0), classes, dtype=jnp.int32).sum(axis=1)
    return jnp.argmax(votes, axis=-1), nearest


def build(
    points: int = 2000,
    features: int = 32,
    queries: int = 64,
    k: int = 9,
    classes: int = 10,
    dtype: Any = jnp.float32,
) -> tuple[Callable[..., tuple[jax.Array, jax.Array]], tuple[jax.Array, ...]]:
    """Return the classifier, labelled points around a centre for each class, and queries."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, features))
    labels = rng.integers(0, classes, points)
    known = centres[labels] + rng.normal(size=(points, features))
    asked = centres[rng.integers(0, classes, queries)] + rng.normal(size=(queries, features))
    args = (jnp.asarray(known, dtype), jnp.asarray(labels, jnp.int32), jnp.asarray(asked, dtype))
    return partial(classify, k=k, classes=classes), args


EXAMPLE = Example(
    name="knn",
    summary="k nearest neighbours with a vote",
    build=build,
    tolerance=0.0,
    small={"points": 60, "features": 4, "queries": 7, "k": 5, "classes": 3},
    dynamic={2: "b, ..."},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

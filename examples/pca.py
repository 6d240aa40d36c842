"""Principal components in f64: a thin SVD of centred samples, with fixed signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


class Components(NamedTuple):
    """The axes along which samples vary most.

    Attributes:
        mean: The mean of the samples.
        axes: Unit vectors ``[component, feature]``, by falling variance.
        variance: The variance of the samples along each axis.
    """

    mean: jax.Array
    axes: jax.Array
    variance: jax.Array


def fit(samples: jax.Array, count: int) -> Components:
    """Find the first components of the samples ``[sample, feature]``."""
    mean = samples.mean(0)
    _, singular, axes = jnp.linalg.svd(samples - mean, full_matrices=False)
    # A singular vector is unique up to its sign: the largest entry becomes positive.
    largest = jnp.take_along_axis(axes, jnp.argmax(jnp.abs(axes), 1)[:, None], 1)
    variance = singular**2 / (len(samples) - 1)
    return Components(mean, (axes * jnp.sign(largest))[:count], variance[:count])


def whiten(components: Components, points: jax.Array) -> jax.Array:
    """Return coordinates ``[point, component]`` that have unit variance over the samples."""
    return (points - components.mean) @ components.axes.T / jnp.sqrt(components.variance)


def restore(components: Components, coordinates: jax.Array) -> jax.Array:
    """Return the points that have these whitened coordinates."""
    return (coordinates * jnp.sqrt(components.variance)) @ components.axes + components.mean


def build(
    samples: int = 150,
    features: int = 40,
    count: int = 5,
    points: int = 30,
    dtype: Any = np.float64,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the analysis of samples applied to other points, and both of them."""
    rng = np.random.default_rng(0)
    # The hidden factors have different strengths, so all variances differ.
    loadings = rng.normal(size=(count, features)) * 2.0 ** -np.arange(count)[:, None]

    def draw(rows: int) -> jax.Array:
        noise = 0.05 * rng.normal(size=(rows, features))
        return jnp.asarray(rng.normal(size=(rows, count)) @ loadings + noise, dtype)

    def analyse(samples: jax.Array, points: jax.Array) -> tuple[jax.Array, jax.Array]:
        components = fit(samples, count)
        coordinates = whiten(components, points)
        lost = points - restore(components, coordinates)
        return coordinates, jnp.sum(lost**2, 1)

    return analyse, (draw(samples), draw(points))


EXAMPLE = Example(
    name="pca",
    summary="Principal components by a thin SVD, whitened coordinates, what a restoration loses",
    build=build,
    tolerance=1e-10,
    small={"samples": 20, "features": 6, "count": 3, "points": 4},
    dynamic={1: "b, ..."},
    gradient=(0, 1),
    x64=True,
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

"""Gaussian-process regression in f64: a Cholesky factor, triangular solves, the log likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from gallery import Example, main


class Kernel(NamedTuple):
    """Logarithms of the parameters of a squared exponential kernel."""

    length: jax.Array
    amplitude: jax.Array
    noise: jax.Array

    def __call__(self, x: jax.Array, y: jax.Array) -> jax.Array:
        """Covariances ``[i, j]`` of the function at the points ``x[i]`` and ``y[j]``."""
        difference = (x[:, None] - y[None]) * jnp.exp(-self.length)
        return jnp.exp(2 * self.amplitude - jnp.sum(difference**2, -1) / 2)


def regress(
    kernel: Kernel, points: jax.Array, values: jax.Array, queries: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean and variance at the queries, and the log likelihood of the values."""
    count = len(points)
    noise = jnp.exp(2 * kernel.noise)
    lower = jnp.linalg.cholesky(kernel(points, points) + noise * jnp.eye(count, dtype=noise.dtype))
    white = jsl.solve_triangular(lower, values, lower=True)
    across = jsl.solve_triangular(lower, kernel(points, queries), lower=True)
    mean = across.T @ white
    variance = jnp.exp(2 * kernel.amplitude) - jnp.sum(across**2, 0)
    log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(lower)))
    fit = white @ white + log_det + count * jnp.log(2 * jnp.pi)
    return mean, variance, -fit / 2


def build(
    points: int = 120, queries: int = 200, axes: int = 2, dtype: Any = np.float64
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the regression, and noisy values of a smooth function at random points."""
    rng = np.random.default_rng(0)
    x, at = rng.uniform(-2, 2, (points, axes)), rng.uniform(-2, 2, (queries, axes))
    values = np.sin(2 * x).prod(1) + 0.3 * rng.normal(size=points)
    kernel = Kernel(*(jnp.asarray(value, dtype) for value in (-0.5, 0.0, -0.7)))
    return regress, (kernel, *(jnp.asarray(array, dtype) for array in (x, values, at)))


EXAMPLE = Example(
    name="gaussian_process",
    summary="Gaussian-process regression with its log likelihood",
    build=build,
    tolerance=1e-11,
    small={"points": 40, "queries": 10},
    gradient=(0,),
    x64=True,
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

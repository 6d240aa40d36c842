"""A Kalman filter that tracks several targets: a scan over measurements, vmapped over targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

OBSERVED = 2
"""Axes of space; a state holds the position and the velocity along each."""


class Belief(NamedTuple):
    """A normal distribution over states."""

    mean: jax.Array
    covariance: jax.Array


class Noise(NamedTuple):
    """Logarithms of the standard deviations, the form for gradient descent."""

    acceleration: jax.Array
    measurement: jax.Array


def inverse_2x2(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The inverse and the determinant."""
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    return jnp.array([[d, -b], [-c, a]]) / determinant, determinant


def filter_track(measurements: jax.Array, noise: Noise, dt: float) -> tuple[Belief, jax.Array]:
    """Filter the measured positions ``[step, axis]`` of a target with nearly constant velocity.

    Returns the belief after each step, and the log likelihood of the measurements.
    """
    dtype = measurements.dtype
    eye = jnp.eye(OBSERVED, dtype=dtype)
    transition = jnp.kron(jnp.array([[1.0, dt], [0.0, 1.0]], dtype), eye)
    observe = jnp.kron(jnp.array([[1.0, 0.0]], dtype), eye)
    impulse = jnp.kron(jnp.array([[dt**2 / 2], [dt]], dtype), eye)
    process_noise = jnp.exp(2 * noise.acceleration) * impulse @ impulse.T
    measurement_noise = jnp.exp(2 * noise.measurement) * eye

    def step(belief: Belief, position: jax.Array) -> tuple[Belief, tuple[Belief, jax.Array]]:
        mean = transition @ belief.mean
        covariance = transition @ belief.covariance @ transition.T + process_noise
        residual = position - observe @ mean
        inverse, determinant = inverse_2x2(observe @ covariance @ observe.T + measurement_noise)
        gain = covariance @ observe.T @ inverse
        belief = Belief(mean + gain @ residual, covariance - gain @ observe @ covariance)
        fit = residual @ inverse @ residual + jnp.log(determinant) + OBSERVED * jnp.log(2 * jnp.pi)
        return belief, (belief, -fit / 2)

    first = Belief(jnp.zeros(2 * OBSERVED, dtype), 10.0 * jnp.eye(2 * OBSERVED, dtype=dtype))
    _, (beliefs, likelihoods) = jax.lax.scan(step, first, measurements)
    return beliefs, likelihoods.sum()


def build(
    targets: int = 16, steps: int = 200, dt: float = 0.1, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array, Noise], tuple[Belief, jax.Array]], tuple[jax.Array, Noise]]:
    """Return the filter of several targets, their measurements and the noise it expects."""
    rng = np.random.default_rng(0)
    velocity = 1.0 + np.cumsum(rng.normal(0.0, 0.5 * dt, (targets, steps, OBSERVED)), axis=1)
    position = np.cumsum(velocity * dt, axis=1)
    measured = jnp.asarray(position + rng.normal(0.0, 0.2, position.shape), dtype)
    noise = Noise(jnp.asarray(np.log(0.5), dtype), jnp.asarray(np.log(0.2), dtype))

    def filter_tracks(measurements: jax.Array, noise: Noise) -> tuple[Belief, jax.Array]:
        return jax.vmap(lambda track: filter_track(track, noise, dt))(measurements)

    return filter_tracks, (measured, noise)


EXAMPLE = Example(
    name="kalman",
    summary="Kalman filter over several tracks that keeps means, covariances and the likelihood",
    build=build,
    small={"targets": 3, "steps": 12},
    gradient=(0, 1),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

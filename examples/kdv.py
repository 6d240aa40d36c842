"""Two solitons pass through each other: a spectral solver of the Korteweg-de Vries equation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

WIDTH = 40.0
"""Length of the periodic line."""


def coefficients(linear: np.ndarray, dt: float) -> tuple[np.ndarray, ...]:
    """Weights of exponential time differencing of fourth order (Cox and Matthews).

    They are quotients of differences of exponentials, which cancel for small arguments. Means
    over a circle in the complex plane avoid this (Kassam and Trefethen).
    """
    circle = np.exp(2j * np.pi * (np.arange(64) + 0.5) / 64)
    z = dt * linear[:, None] + circle
    half = np.mean((np.exp(z / 2) - 1) / z, axis=1)
    first = np.mean((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3, axis=1)
    middle = np.mean((2 + z + np.exp(z) * (z - 2)) / z**3, axis=1)
    last = np.mean((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3, axis=1)
    return (
        np.exp(dt * linear),
        np.exp(dt * linear / 2),
        *(dt * weight for weight in (half, first, middle, last)),
    )


def solver(
    points: int, frames: int, steps: int, dt: float, dtype: Any
) -> Callable[[jax.Array], jax.Array]:
    """Return the function from u ``[x]`` to u ``[frame, x]`` of u_t + 6 u u_x + u_xxx = 0."""
    k = 2 * np.pi / WIDTH * np.fft.rfftfreq(points, 1 / points)
    k[-1] = 0  # the derivative of the saw-tooth wave vanishes at the points
    spectral = jnp.result_type(dtype, jnp.complex64)
    weights = coefficients(1j * k**3, dt)
    whole, half, q, first, middle, last = (jnp.asarray(w, spectral) for w in weights)
    slope = jnp.asarray(-3j * k, spectral)

    def steepen(v: jax.Array) -> jax.Array:
        """The spectrum of -6 u u_x = -3 (u^2)_x."""
        return slope * jnp.fft.rfft(jnp.fft.irfft(v, points) ** 2)

    def step(_: Any, v: jax.Array) -> jax.Array:
        at_start = steepen(v)
        a = half * v + q * at_start
        at_a = steepen(a)
        at_b = steepen(half * v + q * at_a)
        at_end = steepen(half * a + q * (2 * at_b - at_start))
        return whole * v + first * at_start + 2 * middle * (at_a + at_b) + last * at_end

    def frame(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        v = jax.lax.fori_loop(0, steps, step, v)
        return v, jnp.fft.irfft(v, points)

    def solve(u: jax.Array) -> jax.Array:
        return jax.lax.scan(frame, jnp.fft.rfft(u), length=frames)[1]

    return solve


def soliton(x: np.ndarray, speed: float, place: float) -> np.ndarray:
    return speed / 2 / np.cosh(np.sqrt(speed) / 2 * (x - place)) ** 2


def build(
    points: int = 250, frames: int = 10, steps: int = 50, dt: float = 2e-3,
    dtype: Any = jnp.float64,
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:  # fmt: skip
    """Return the solver, and a fast soliton behind a slow one."""
    x = WIDTH * np.arange(points) / points
    solitons = map(partial(soliton, x), (9.0, 3.0), (8.0, 14.0))
    return solver(points, frames, steps, dt, dtype), (jnp.asarray(sum(solitons), dtype),)


EXAMPLE = Example(
    name="kdv",
    summary="Spectral Korteweg-de Vries solver in f64, with exponential time differencing",
    build=build,
    tolerance=1e-10,
    small={"points": 50, "frames": 2, "steps": 3},
    x64=True,
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

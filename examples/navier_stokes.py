"""Decaying turbulence: a pseudo-spectral solver of the two-dimensional Navier-Stokes equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def wave_numbers(points: int) -> tuple[np.ndarray, np.ndarray]:
    """The wave numbers of ``rfft2`` on a square of side 2 pi, in shapes that broadcast."""
    return np.fft.rfftfreq(points, 1 / points), np.fft.fftfreq(points, 1 / points)[:, None]


def solver(
    points: int, steps: int, viscosity: float, dt: float, dtype: Any
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return the function from a vorticity ``[y, x]`` to the last one and the energy of each step.

    Friction is linear and solved exactly, by an integrating factor. The Runge-Kutta method of
    fourth order integrates the advection.
    """
    x, y = wave_numbers(points)
    square = x**2 + y**2
    # Products make sums of two wave numbers, which must not alias smaller wave numbers.
    is_kept = (np.abs(x) < points / 3) & (np.abs(y) < points / 3)
    kx, ky, kept = (jnp.asarray(array, dtype) for array in (x, y, is_kept))
    inverse = jnp.asarray(1 / np.where(square == 0, 1, square), dtype)
    decay = jnp.asarray(np.exp(-viscosity * dt / 2 * square), dtype)

    def transport(w: jax.Array) -> jax.Array:
        """The spectrum of -velocity . gradient of the vorticity; w is the vorticity's spectrum."""
        stream = inverse * w
        fields = jnp.stack([1j * ky * stream, -1j * kx * stream, 1j * kx * w, 1j * ky * w])
        u, v, along_x, along_y = jnp.fft.irfft2(fields, (points, points))
        return -kept * jnp.fft.rfft2(u * along_x + v * along_y)

    def step(w: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        k1 = transport(w)
        k2 = transport(decay * (w + dt / 2 * k1))
        k3 = transport(decay * w + dt / 2 * k2)
        k4 = transport(decay * (decay * w + dt * k3))
        w = decay * (decay * (w + dt / 6 * k1) + dt / 3 * (k2 + k3)) + dt / 6 * k4
        # Each wave number counts twice, for its mirror image, except in the first and last column.
        twice = jnp.where((kx == 0) | (kx == points // 2), 1, 2).astype(dtype)
        energy = jnp.sum(twice * inverse * jnp.abs(w / points**2) ** 2) / 2
        return w, energy

    def solve(vorticity: jax.Array) -> tuple[jax.Array, jax.Array]:
        w, energies = jax.lax.scan(step, kept * jnp.fft.rfft2(vorticity), length=steps)
        return jnp.fft.irfft2(w, (points, points)), energies

    return solve


def build(
    points: int = 64, steps: int = 50, viscosity: float = 2e-3, dt: float = 0.02,
    dtype: Any = jnp.float32,
) -> tuple[Callable[[jax.Array], tuple[jax.Array, jax.Array]], tuple[jax.Array]]:  # fmt: skip
    """Return the solver and a vorticity of a few large eddies."""
    rng = np.random.default_rng(0)
    x, y = wave_numbers(points)
    size = np.sqrt(x**2 + y**2)
    waves = np.exp(2j * np.pi * rng.random(size.shape)) * ((size >= 2) & (size <= 5))
    vorticity = np.fft.irfft2(waves, (points, points))
    vorticity *= 3 / np.std(vorticity)
    return solver(points, steps, viscosity, dt, dtype), (jnp.asarray(vorticity, dtype),)


EXAMPLE = Example(
    name="navier_stokes",
    summary="Pseudo-spectral Navier-Stokes solver in two dimensions",
    build=build,
    small={"points": 16, "steps": 4},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

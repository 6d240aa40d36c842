"""A blast in a closed box: a finite-volume solver of the two-dimensional Euler equations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

GAMMA = 1.4
CFL = 0.4
INNER = slice(1, -1)
"""Cells of the box, within one layer of ghost cells."""


def flux(u: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The fluxes of density, momentum along and across, energy; and the fastest wave's speed."""
    density, along, across, energy = u
    velocity = along / density
    pressure = (GAMMA - 1) * (energy - 0.5 * (along**2 + across**2) / density)
    flow = jnp.stack(
        [along, along * velocity + pressure, across * velocity, (energy + pressure) * velocity]
    )
    return flow, jnp.abs(velocity) + jnp.sqrt(GAMMA * pressure / density)


def through_faces(u: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rusanov's flux between neighbours along the last axis; and the fastest wave's speed."""
    flow, speed = flux(u)
    fastest = jnp.maximum(speed[..., :-1], speed[..., 1:])
    return 0.5 * (flow[..., :-1] + flow[..., 1:] - fastest * jnp.diff(u)), jnp.max(speed)


def swapped(u: jax.Array) -> jax.Array:
    """The same gas with the two axes of space exchanged."""
    return u[jnp.array([0, 2, 1, 3])].swapaxes(1, 2)


def mirror_walls(u: jax.Array) -> jax.Array:
    """Fill the ghost cells on two sides so that nothing flows through the walls."""
    u = u.at[:, :, 0].set(u[:, :, 1]).at[:, :, -1].set(u[:, :, -2])
    return u.at[1, :, 0].multiply(-1).at[1, :, -1].multiply(-1)


def step(dx: float, _: Any, u: jax.Array) -> jax.Array:
    """One step of first order, as long as stability allows."""
    u = swapped(mirror_walls(swapped(mirror_walls(u))))
    across, speed_x = through_faces(u[:, INNER])
    down, speed_y = through_faces(swapped(u)[:, INNER])
    dt = CFL * dx / (speed_x + speed_y)
    return u.at[:, INNER, INNER].add(-dt / dx * (jnp.diff(across) + swapped(jnp.diff(down))))


def solve(dx: float, steps: int, density: jax.Array, pressure: jax.Array) -> jax.Array:
    """Simulate gas that starts at rest; return its density, momentum and energy."""
    rest = jnp.zeros_like(density)
    u = jnp.stack([density, rest, rest, pressure / (GAMMA - 1)])
    u = jnp.pad(u, ((0, 0), (1, 1), (1, 1)), mode="edge")
    return jax.lax.fori_loop(0, steps, partial(step, dx), u)[:, INNER, INNER]


def build(
    cells: int = 64, steps: int = 100, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array, jax.Array], jax.Array], tuple[jax.Array, jax.Array]]:
    """Return the solver, and density and pressure ``[row, column]`` at the start."""
    x, y = np.meshgrid(*[(np.arange(cells) + 0.5) / cells] * 2)
    hot = (x - 0.4) ** 2 + (y - 0.45) ** 2 < 0.15**2
    density, pressure = 1.0 + 0.2 * x, np.where(hot, 5.0, 1.0)
    return partial(solve, 1.0 / cells, steps), (
        jnp.asarray(density, dtype),
        jnp.asarray(pressure, dtype),
    )


EXAMPLE = Example(
    name="euler_2d",
    summary="Finite-volume Euler solver in two dimensions with reflecting walls",
    build=build,
    small={"cells": 12, "steps": 5},
    gradient=(0, 1),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

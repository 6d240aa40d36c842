"""Sod's shock tube: a finite-volume solver of the one-dimensional Euler equations."""

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
GHOSTS = 2
"""Cells beyond either end of the tube, from which the cells at the end get their neighbours."""


def conserved(primitive: jax.Array) -> jax.Array:
    """Density, velocity, pressure -> density, momentum, energy."""
    density, velocity, pressure = primitive
    energy = pressure / (GAMMA - 1) + 0.5 * density * velocity**2
    return jnp.stack([density, density * velocity, energy])


def primitive(conserved: jax.Array) -> jax.Array:
    """Density, momentum, energy -> density, velocity, pressure."""
    density, momentum, energy = conserved
    velocity = momentum / density
    return jnp.stack([density, velocity, (GAMMA - 1) * (energy - 0.5 * momentum * velocity)])


def flux(primitive: jax.Array) -> jax.Array:
    """The flux through a face with this state."""
    density, velocity, pressure = primitive
    energy = pressure / (GAMMA - 1) + 0.5 * density * velocity**2
    momentum = density * velocity
    return jnp.stack([momentum, momentum * velocity + pressure, (energy + pressure) * velocity])


def wave_speed(primitive: jax.Array) -> jax.Array:
    density, velocity, pressure = primitive
    return jnp.abs(velocity) + jnp.sqrt(GAMMA * pressure / density)


def minmod(a: jax.Array, b: jax.Array) -> jax.Array:
    """The smaller of two slopes; 0 at an extremum, where their signs differ."""
    return jnp.where(a * b > 0, jnp.where(jnp.abs(a) < jnp.abs(b), a, b), 0.0)


def rusanov(left: jax.Array, right: jax.Array) -> jax.Array:
    """The flux through faces between these states, damped by the fastest wave."""
    speed = jnp.maximum(wave_speed(left), wave_speed(right))
    jump = conserved(right) - conserved(left)
    return 0.5 * (flux(left) + flux(right) - speed * jump)


def open_ends(u: jax.Array) -> jax.Array:
    """Fill the ghost cells so that waves leave the tube."""
    u = u.at[:, :GHOSTS].set(u[:, GHOSTS : GHOSTS + 1])
    return u.at[:, -GHOSTS:].set(u[:, -GHOSTS - 1 : -GHOSTS])


def step(dx: float, _: Any, u: jax.Array) -> jax.Array:
    """One step of second order in space, as long as stability allows."""
    w = primitive(open_ends(u))
    jumps = jnp.diff(w)
    slopes = minmod(jumps[:, :-1], jumps[:, 1:])
    left, right = w[:, 1:-1] - 0.5 * slopes, w[:, 1:-1] + 0.5 * slopes
    flows = rusanov(right[:, :-1], left[:, 1:])
    dt = CFL * dx / jnp.max(wave_speed(w))
    return u.at[:, GHOSTS:-GHOSTS].add(-dt / dx * jnp.diff(flows))


def solve(dx: float, frames: int, steps: int, tube: jax.Array) -> jax.Array:
    """Simulate a state ``[quantity, cell]``; return it each time `steps` steps are done."""
    u = jnp.pad(conserved(tube), ((0, 0), (GHOSTS, GHOSTS)))

    def frame(u: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        u = jax.lax.fori_loop(0, steps, partial(step, dx), u)
        return u, primitive(u[:, GHOSTS:-GHOSTS])

    return jax.lax.scan(frame, u, length=frames)[1]


def build(
    cells: int = 256, frames: int = 4, steps: int = 50, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return the solver and the state at the start: gas at rest, denser in the left half."""
    left = np.arange(cells)[None] < cells // 2
    start = np.where(left, np.array([[1.0], [0.0], [1.0]]), np.array([[0.125], [0.0], [0.1]]))
    return partial(solve, 1.0 / cells, frames, steps), (jnp.asarray(start, dtype),)


SMALL = {"cells": 32, "frames": 2, "steps": 3}
EXAMPLE = Example(
    name="sod",
    summary="Finite-volume Euler solver with slope limiter and ghost cells in nested loops",
    build=build,
    small=SMALL,
    gradient=(0,),
)
EXAMPLES = [
    EXAMPLE,
    Example(
        name="sod_f64",
        summary="The same in f64",
        build=partial(build, dtype=jnp.float64),
        tolerance=1e-13,
        small=SMALL,
        gradient=(0,),
        x64=True,
    ),
]

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

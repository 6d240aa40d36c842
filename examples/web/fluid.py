"""A fluid that the mouse stirs: Stam's stable fluids, pressure by Fourier transforms."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from life import BACKGROUND, pixels
from navier_stokes import wave_numbers

SIZE = 192
RADIUS = SIZE / 20
"""The radius of the stirrer, in cells."""
SWIRL = 0.1
"""How much of the small eddies that the grid smears is put back."""


class Fluid(NamedTuple):
    """What goes from frame to frame, on a grid whose borders meet.

    Attributes:
        velocity: In cells a frame, ``[2, y, x]``: along x and along y.
        dye: Red, green and blue ``[3, y, x]``.
    """

    velocity: jax.Array
    dye: jax.Array


def step(
    fluid: Fluid, pointer: jax.Array, push: jax.Array, colour: jax.Array
) -> tuple[Fluid, jax.Array]:
    """Return the fluid after one frame and its pixels ``[y, x]``.

    Args:
        fluid: The fluid of the last frame.
        pointer: Where the mouse is, as parts of the width and of the height.
        push: How far it has moved since the last frame, in the same unit.
        colour: Of the dye that it leaves.
    """
    y, x = jnp.mgrid[:SIZE, :SIZE].astype(jnp.float32)
    offsets = jnp.stack([x, y]) - pointer[:, None, None] * SIZE
    offsets = offsets - SIZE * jnp.floor(offsets / SIZE + 0.5)
    spot = jnp.exp(-jnp.sum(offsets**2, 0) / RADIUS**2)

    speed = jnp.sqrt(jnp.sum(push**2))
    velocity = fluid.velocity + spot * push[:, None, None] * SIZE / 3
    velocity = incompressible(velocity + swirls(velocity))
    dye = fluid.dye + spot * colour[:, None, None] * jnp.minimum(30 * speed, 0.8)
    carried = carry(jnp.concatenate([velocity, dye]), velocity)
    velocity, dye = carried[:2] * 0.997, carried[2:] * 0.998
    return Fluid(velocity, dye), pixels(1 - (1 - BACKGROUND[:, None, None]) * jnp.exp(-dye))


def carry(fields: jax.Array, velocity: jax.Array) -> jax.Array:
    """Move ``fields[field, y, x]`` along: each cell takes the value of where it comes from."""
    y, x = jnp.mgrid[:SIZE, :SIZE].astype(jnp.float32)
    place = jnp.stack([x, y]) - velocity
    place = place - SIZE * jnp.floor(place / SIZE)
    first = jnp.floor(place)
    right, down = place - first
    (left, top), flat = first.astype(jnp.int32), fields.reshape(len(fields), -1)

    def values(row: jax.Array, column: jax.Array) -> jax.Array:
        row, column = (jnp.where(index >= SIZE, index - SIZE, index) for index in (row, column))
        return flat.at[:, row * SIZE + column].get(mode="promise_in_bounds")

    above = values(top, left) * (1 - right) + values(top, left + 1) * right
    below = values(top + 1, left) * (1 - right) + values(top + 1, left + 1) * right
    return above * (1 - down) + below * down


def incompressible(velocity: jax.Array) -> jax.Array:
    """Take away the part of a velocity that is a gradient: what is left has no sources."""
    x, y = wave_numbers(SIZE)
    square = x**2 + y**2
    inverse = 1 / np.where(square == 0, 1, square)
    x, y, inverse = (jnp.asarray(array, jnp.float32) for array in (x, y, inverse))
    u, v = jnp.fft.rfft2(velocity)
    along = inverse * (x * u + y * v)
    return jnp.fft.irfft2(jnp.stack([u - x * along, v - y * along]), (SIZE, SIZE))


def swirls(velocity: jax.Array) -> jax.Array:
    """A force that turns the eddies on, towards where they turn most (vorticity confinement)."""
    curl = along(velocity[1], axis=1) - along(velocity[0], axis=0)
    slope = jnp.stack([along(jnp.abs(curl), axis=1), along(jnp.abs(curl), axis=0)])
    slope = slope / (jnp.sqrt(jnp.sum(slope**2, 0)) + 0.1)
    return SWIRL * curl * jnp.stack([slope[1], -slope[0]])


def along(field: jax.Array, axis: int) -> jax.Array:
    """The derivative along an axis."""
    return (jnp.roll(field, -1, axis) - jnp.roll(field, 1, axis)) / 2


def arguments() -> tuple[Fluid, jax.Array, jax.Array, jax.Array]:
    """A fluid at rest, and a pointer at rest."""
    fluid = Fluid(jnp.zeros((2, SIZE, SIZE), jnp.float32), jnp.zeros((3, SIZE, SIZE), jnp.float32))
    zeros = jnp.zeros(2, jnp.float32)
    return fluid, zeros, zeros, jnp.ones(3, jnp.float32)

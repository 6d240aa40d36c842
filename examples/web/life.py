"""Game of Life with a pen, one generation a frame."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from game_of_life import generation

SIZE = 256
PEN = 3.0
"""The radius of the pen, in cells."""

DARK, TRAIL, ALIVE = np.array([[10, 13, 23], [26, 92, 158], [250, 235, 194]])
BACKGROUND = np.float32(DARK / 255)
"""Red, green and blue behind all pictures."""

LEVELS = np.linspace(0, 1, 256)[:, None]
PALETTE = np.int32(np.round(DARK + (TRAIL - DARK) * LEVELS) @ [1, 256, 65536] - 2**24)
"""Colours of 255 shades of the trail, as pixels."""
PALETTE[-1] = ALIVE @ [1, 256, 65536] - 2**24


class Board(NamedTuple):
    """What goes from frame to frame.

    Attributes:
        cells: bool ``[row, column]``.
        trail: How recently each cell was alive: 1 for now.
    """

    cells: jax.Array
    trail: jax.Array


def step(board: Board, pen: jax.Array) -> tuple[Board, jax.Array]:
    """Return the next board and its pixels ``[row, column]`` (see `pixels`).

    ``pen`` is where the pen is, as parts of the width and of the height, and below 0 if it is up.
    """
    row, column = jnp.mgrid[:SIZE, :SIZE] + 0.5
    is_near = (column - pen[0] * SIZE) ** 2 + (row - pen[1] * SIZE) ** 2 < PEN**2
    # A full disc would die of overpopulation.
    is_drawn = is_near & ((jnp.floor(row) + jnp.floor(column)) % 3 != 0)
    cells = generation(board.cells | is_drawn)
    trail = jnp.where(cells, 1.0, 0.94 * board.trail)
    shades = (trail * 255).astype(jnp.int32)
    return Board(cells, trail), jnp.asarray(PALETTE).at[shades].get(mode="clip")


def pixels(colours: jax.Array) -> jax.Array:
    """Red, green and blue between 0 and 1, ``[3, row, column]``, as pixels ``[row, column]``.

    A pixel is an int32. Its bytes are red, green, blue and 255, as a canvas wants them.
    """
    red, green, blue = (jnp.clip(colours, 0, 1) * 255 + 0.5).astype(jnp.int32)
    return red + green * 256 + blue * 65536 - 2**24


def arguments(seed: int = 0) -> tuple[Board, jax.Array]:
    """A random board, and the pen up."""
    cells = jnp.asarray(np.random.default_rng(seed).random((SIZE, SIZE)) < 0.2)
    return Board(cells, cells.astype(jnp.float32)), jnp.full(2, -1.0, jnp.float32)

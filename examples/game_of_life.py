"""Conway's Game of Life on a torus, with all generations as the result."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def generation(cells: jax.Array) -> jax.Array:
    """Return the next generation of ``cells[row, column]``."""
    counted = cells.astype(jnp.uint8)
    rows = counted + jnp.roll(counted, 1, 0) + jnp.roll(counted, -1, 0)
    neighbours = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - counted
    return (neighbours == 3) | (cells & (neighbours == 2))


def build(
    size: int = 64, generations: int = 100
) -> tuple[Callable[[jax.Array], tuple[jax.Array, jax.Array]], tuple[jax.Array]]:
    """Return a function from the first generation to all later ones and how many cells live."""
    cells = jnp.asarray(np.random.default_rng(0).random((size, size)) < 0.3)

    def play(cells: jax.Array) -> tuple[jax.Array, jax.Array]:
        def step(cells: jax.Array, _: None) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            cells = generation(cells)
            return cells, (cells, jnp.sum(cells))

        return jax.lax.scan(step, cells, length=generations)[1]

    return play, (cells,)


EXAMPLE = Example(
    name="game_of_life",
    summary="Game of Life on booleans, a scan that keeps all generations",
    build=build,
    tolerance=0.0,
    small={"size": 12, "generations": 6},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

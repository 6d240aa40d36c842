"""Heat in a plate, for a number of steps given at run time: ``fori_loop`` with a traced bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main


def diffuse(plate: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Let heat flow for some steps; return the plate, whose rim keeps its temperature, and the
    mean temperature after every step."""
    limit = 256

    def step(i: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        plate, history = state
        flow = (
            plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        ) - 4 * plate[1:-1, 1:-1]
        plate = plate.at[1:-1, 1:-1].add(0.2 * flow)
        return plate, history.at[i].set(jnp.mean(plate))

    history = jnp.zeros(limit, plate.dtype)
    return jax.lax.fori_loop(0, steps, step, (plate, history))


def build(
    size: int = 64, steps: int = 200, dtype: Any = jnp.float32
) -> tuple[
    Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]], tuple[jax.Array, jax.Array]
]:
    """Return the function, a plate with one hot edge, and a number of steps."""
    plate = np.zeros((size, size))
    plate[0] = np.linspace(0.0, 100.0, size)
    return diffuse, (jnp.asarray(plate, dtype), jnp.asarray(steps, jnp.int32))


EXAMPLE = Example(
    name="fori_loop",
    summary="Heat equation for a number of steps that is an argument",
    build=build,
    small={"size": 12, "steps": 9},
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

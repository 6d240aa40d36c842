"""An ensemble of Lorenz systems, integrated by the classical Runge-Kutta method in one scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gallery import Example, main

SIGMA, RHO, BETA = 10.0, 28.0, 8.0 / 3.0


def lorenz(state: jax.Array) -> jax.Array:
    """The time derivative of ``state[..., (x, y, z)]``."""
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    return jnp.stack([SIGMA * (y - x), x * (RHO - z) - y, x * y - BETA * z], axis=-1)


def rk4(field: Callable[[jax.Array], jax.Array], state: jax.Array, dt: float) -> jax.Array:
    """One step of the classical method of order four."""
    k1 = field(state)
    k2 = field(state + dt / 2 * k1)
    k3 = field(state + dt / 2 * k2)
    k4 = field(state + dt * k3)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def build(
    members: int = 64, steps: int = 1000, dt: float = 0.002, dtype: Any = jnp.float32
) -> tuple[Callable[[jax.Array], jax.Array], tuple[jax.Array]]:
    """Return a function from initial states to trajectories ``[step, member, xyz]``, and states."""
    states = np.random.default_rng(0).normal((1.0, 1.0, 25.0), 1.0, (members, 3))

    def simulate(initial: jax.Array) -> jax.Array:
        def step(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            state = rk4(lorenz, state, dt)
            return state, state

        return jax.lax.scan(step, initial, length=steps)[1]

    return simulate, (jnp.asarray(states, dtype),)


EXAMPLE = Example(
    name="rk4",
    summary="Lorenz ensemble by Runge-Kutta steps in a scan that keeps the trajectory",
    build=build,
    # The system is chaotic: rounding differences of the first steps grow a hundredfold.
    tolerance=3e-5,
    small={"members": 4, "steps": 20},
    gradient=(0,),
)

if __name__ == "__main__":
    raise SystemExit(main(EXAMPLE))

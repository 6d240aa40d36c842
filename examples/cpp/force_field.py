"""A force field for C++: energy, forces and virial; the list of neighbours has any length.

It is Lennard-Jones and a small network of the density around each atom, in f64.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx

CUTOFF = 1.6
"""Energies and forces are zero from here on."""
CENTERS = np.linspace(1.0, 1.45, 4)
NETWORK = [
    np.random.default_rng(0).normal(size=size) / np.sqrt(size[0]) for size in ((4, 16), (16, 1))
]


def energy_of(vectors: jax.Array, is_pair: jax.Array) -> jax.Array:
    """The energy, from the vectors to the neighbours, of shape [atoms, neighbours, 3]."""
    square = jnp.where(is_pair, jnp.sum(vectors**2, axis=-1), CUTOFF**2)  # no root of zero
    distance = jnp.sqrt(square)
    smooth = jnp.where(square < CUTOFF**2, (1 - square / CUTOFF**2) ** 3, 0)
    pairs = jnp.sum(smooth * 2 * (square**-6 - square**-3))
    density = jnp.exp(-10 * (distance[..., None] - CENTERS) ** 2) * smooth[..., None]
    hidden = jnp.tanh(jnp.sum(density, axis=1) @ NETWORK[0])
    return pairs + 0.2 * jnp.sum(hidden @ NETWORK[1])


def force_field(positions: jax.Array, neighbours: jax.Array, box: jax.Array) -> dict[str, Any]:
    """Energy, forces [atoms, 3] and virial [3, 3].

    Args:
        positions: [atoms, 3].
        neighbours: [atoms, neighbours]: those of each atom, then its own index as padding.
        box: The sides of a periodic box, longer than twice the cutoff.
    """
    is_pair = neighbours != jnp.arange(positions.shape[0])[:, None]

    def vectors_at(positions: jax.Array) -> jax.Array:
        found = positions[neighbours] - positions[:, None]
        return found - box * jnp.round(found / box)

    vectors, back = jax.vjp(vectors_at, positions)
    energy, slope = jax.value_and_grad(energy_of)(vectors, is_pair)
    (gradient,) = back(slope)
    virial = -jnp.einsum("nka,nkb->ab", vectors, slope)
    return {"energy": energy, "forces": -gradient, "virial": virial}


def crystal(cells: int = 3, side: float = 1.7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sides of the box, positions and velocities of a warm cubic crystal with 4 atoms in a cell."""
    corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3), axis=-1).reshape(-1, 1, 3)
    basis = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    positions = (corners + basis).reshape(-1, 3) * side
    velocities = np.random.default_rng(0).normal(size=positions.shape)
    return np.full(3, cells * side), positions, velocities - velocities.mean(0)


if __name__ == "__main__":
    with jax.enable_x64(True):
        program = hlo2onnx.translate(force_field, "float64[n, 3]", "int32[n, k]", "float64[3]")
    program.save("force_field.onnx")
    np.concatenate([part.ravel() for part in crystal()]).tofile("atoms.bin")

"""Interpolation and walks, of as many elements as programs have."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


def _places(count: int, seed: int) -> jax.Array:
    """Numbers between 0 and 1."""
    return jnp.asarray(np.random.default_rng(seed).uniform(size=count), jnp.float32)


@program("interpax")
def interpax_image() -> Built:
    """A surface on a grid of 200 × 256 points, interpolated linearly at 50,000 places."""
    import interpax

    x, y = jnp.linspace(0, 1, 200), jnp.linspace(0, 1, 256)

    def surface(xq, yq, heights):
        return interpax.interp2d(xq, yq, x, y, heights, method="linear")

    return surface, (_places(50_000, 0), _places(50_000, 1), normal(200, 256))


@program("interpax")
def interpax_signal() -> Built:
    """A signal of 1,000 samples, interpolated linearly at 200,000 places in no order."""
    import interpax

    known = jnp.linspace(0, 1, 1000)

    def signal(places, samples):
        return interpax.interp1d(places, known, samples, method="linear")

    return signal, (_places(200_000, 2), normal(1000))


@program("jraph")
def jraph_walks() -> Built:
    """Walks of four steps between 200 nodes of a graph, counted."""
    import jraph

    rng = np.random.default_rng(0)
    senders, receivers = (jnp.asarray(rng.integers(0, 200, 2000), jnp.int32) for _ in range(2))

    def walks(senders, receivers):
        ones = jnp.ones_like(senders)
        edges = jraph.segment_sum(ones, senders * 200 + receivers, 200 * 200).reshape(200, 200)
        pairs = edges @ edges
        return pairs @ pairs

    return walks, (senders, receivers)

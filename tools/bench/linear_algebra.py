"""Linear algebra: batches of small matrices, and single ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import linalg

from tools.bench.benchmark import Benchmark, Maker, floats, row

Array = jax.Array


def _plain(*shape: int) -> Maker:
    return lambda: floats(*shape)() + 2 * np.eye(shape[-1], dtype=np.float32)


def _symmetric(*shape: int) -> Maker:
    def make() -> np.ndarray:
        a = floats(*shape)()
        return (a + a.swapaxes(-1, -2)) / 2

    return make


def _positive(*shape: int) -> Maker:
    def make() -> np.ndarray:
        a = floats(*shape)()
        return a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1], dtype=np.float32)

    return make


def solve(a: Array, b: Array) -> Array:
    """Linear equations with one right-hand side each."""
    return jnp.linalg.solve(a, b[..., None])[..., 0]


def kalman_filter(observed: Array) -> Array:
    """A Kalman filter of four states and two observations."""
    a = jnp.eye(4) + 0.1 * jnp.eye(4, k=2)
    h, q, r = jnp.eye(2, 4), 0.01 * jnp.eye(4), 0.1 * jnp.eye(2)

    def step(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, covariance = a @ state[0], a @ state[1] @ a.T + q
        s = h @ covariance @ h.T + r
        gain = linalg.cho_solve(linalg.cho_factor(s), h @ covariance).T
        mean = mean + gain @ (y - h @ mean)
        return (mean, covariance - gain @ s @ gain.T), mean

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observed)[1]


def _sizes(
    name: str, function: Callable[..., Any], matrix: Callable[..., Maker], **goals: float
) -> dict[str, Benchmark]:
    """One case for each size, such as `n8=12`: the goal of 8 × 8 matrices."""
    found = {}
    for key, goal in goals.items():
        size = int(key[1:])
        title = f"{name} of {size} × {size}"
        found[f"{name}_{size}"] = row(title, goal, function, matrix(size, size))
    return found


BENCHMARKS: Mapping[str, Benchmark] = {
    "solve_batch_3": row("solve 3 × 3, batch 1,000", 3.0, solve,
                         _plain(1000, 3, 3), floats(1000, 3)),
    "inv_batch_2": row("inv 2 × 2, batch 1,000", 2.0, jnp.linalg.inv, _plain(1000, 2, 2)),
    "cholesky_batch_6": row("cholesky 6 × 6, batch 1,000", 2.0, jnp.linalg.cholesky,
                            _positive(1000, 6, 6)),
    "eigh_batch_3": row("eigh 3 × 3, batch 1,000", None, jnp.linalg.eigh, _symmetric(1000, 3, 3)),
    "eigh_batch_8": row("eigh 8 × 8, batch 100", None, jnp.linalg.eigh, _symmetric(100, 8, 8)),
    "kalman_100": row("Kalman filter, 100 steps", None, kalman_filter, floats(100, 2)),
    **_sizes("eigh", jnp.linalg.eigh, _symmetric, n8=12, n64=8, n256=4),
    **_sizes("svd", partial(jnp.linalg.svd, full_matrices=False), floats, n8=12, n64=8, n256=4),
    **{f"solve_{n}": row(f"solve of {n} × {n}", 4.0, solve, _plain(n, n), floats(n))
       for n in (8, 64, 256)},
    **_sizes("qr", jnp.linalg.qr, floats, n64=4),
    **_sizes("eig", jnp.linalg.eig, floats, n64=40),
    **_sizes("expm", linalg.expm, floats, n16=3),
}  # fmt: skip

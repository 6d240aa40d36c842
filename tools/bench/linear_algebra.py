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

from tools.bench.benchmark import Benchmark, Built

Array = jax.Array


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _plain(*shape: int) -> np.ndarray:
    return _floats(*shape) + 2 * np.eye(shape[-1], dtype=np.float32)


def _symmetric(*shape: int) -> np.ndarray:
    a = _floats(*shape)
    return (a + a.swapaxes(-1, -2)) / 2


def _positive(*shape: int) -> np.ndarray:
    a = _floats(*shape)
    return a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1], dtype=np.float32)


def of_matrix(
    function: Callable[..., Any], matrix: Callable[..., np.ndarray], *shape: int
) -> Built:
    """A function of matrices."""
    return function, (matrix(*shape),)


def solve(*shape: int) -> Built:
    """Linear equations with one right-hand side each."""
    return lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0], (
        _plain(*shape),
        _floats(*shape[:-1]),
    )


def kalman_filter(steps: int) -> Built:
    """A Kalman filter of four states and two observations."""

    def filtered(observed: Array) -> Array:
        a = jnp.eye(4) + 0.1 * jnp.eye(4, k=2)
        h, q, r = jnp.eye(2, 4), 0.01 * jnp.eye(4), 0.1 * jnp.eye(2)

        def step(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
            mean, covariance = a @ state[0], a @ state[1] @ a.T + q
            s = h @ covariance @ h.T + r
            gain = linalg.cho_solve(linalg.cho_factor(s), h @ covariance).T
            mean = mean + gain @ (y - h @ mean)
            return (mean, covariance - gain @ s @ gain.T), mean

        return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observed)[1]

    return filtered, (_floats(steps, 2),)


def _sizes(
    name: str, function: Callable[..., Any], matrix: Callable[..., np.ndarray], **goals: float
) -> dict[str, Benchmark]:
    """One case for each size, such as `n8=12`: the goal of 8 × 8 matrices."""
    found = {}
    for key, goal in goals.items():
        size = int(key[1:])
        build = partial(of_matrix, function, matrix, size, size)
        found[f"{name}_{size}"] = Benchmark(f"{name} of {size} × {size}", build, goal)
    return found


_BATCHES = {
    "solve_batch_3": Benchmark("solve 3 × 3, batch 1,000", partial(solve, 1000, 3, 3), 3.0),
    "inv_batch_2": Benchmark(
        "inv 2 × 2, batch 1,000", partial(of_matrix, jnp.linalg.inv, _plain, 1000, 2, 2), 2.0
    ),
    "cholesky_batch_6": Benchmark(
        "cholesky 6 × 6, batch 1,000",
        partial(of_matrix, jnp.linalg.cholesky, _positive, 1000, 6, 6),
        2.0,
    ),
    "eigh_batch_3": Benchmark(
        "eigh 3 × 3, batch 1,000", partial(of_matrix, jnp.linalg.eigh, _symmetric, 1000, 3, 3)
    ),
    "eigh_batch_8": Benchmark(
        "eigh 8 × 8, batch 100", partial(of_matrix, jnp.linalg.eigh, _symmetric, 100, 8, 8)
    ),
    "kalman_100": Benchmark("Kalman filter, 100 steps", partial(kalman_filter, 100)),
}
_SOLVES = {
    f"solve_{size}": Benchmark(f"solve of {size} × {size}", partial(solve, size, size), 4.0)
    for size in (8, 64, 256)
}
BENCHMARKS: Mapping[str, Benchmark] = {
    **_BATCHES,
    **_sizes("eigh", jnp.linalg.eigh, _symmetric, n8=12, n64=8, n256=4),
    **_sizes("svd", partial(jnp.linalg.svd, full_matrices=False), _floats, n8=12, n64=8, n256=4),
    **_SOLVES,
    **_sizes("qr", jnp.linalg.qr, _floats, n64=4),
    **_sizes("eig", jnp.linalg.eig, _floats, n64=40),
    **_sizes("expm", linalg.expm, _floats, n16=3),
}

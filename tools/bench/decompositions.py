"""Times of single decompositions beside XLA's LAPACK, with residuals.

The residual is the distance of the factors' product from the matrix. The defect is the distance of
the unitary factors from orthogonality. Both are multiples of n * eps (and of the matrix' norm).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import linalg

from tools.bench.benchmark import Benchmark
from tools.bench.measure import session_call, translated
from tools.bench.timing import medians

Arrays = Sequence[np.ndarray]

PAGE = "linear_algebra.md"
COLUMNS = ("ours ms", "XLA ms", "ours / XLA", "residual", "defect", "nodes", "translation s")


@dataclass(frozen=True)
class Decomposition:
    """A function of a matrix, and how to put its results together again.

    Attributes:
        function: In JAX.
        product: What the results multiply to, which should be the (permuted) matrix: gives both.
        matrix: Makes its argument from a random square matrix.
        unitary: Those of the results that should be unitary.
    """

    function: Callable[..., Any]
    product: Callable[[np.ndarray, Arrays], tuple[np.ndarray, np.ndarray]]
    matrix: Callable[[np.ndarray], np.ndarray] = lambda a: a
    unitary: Callable[[Arrays], Arrays] = lambda results: []


def _definite(a: np.ndarray) -> np.ndarray:
    square: np.ndarray = a @ a.T + len(a) * np.eye(len(a))
    return square


def _lu_product(a: np.ndarray, results: Arrays) -> tuple[np.ndarray, np.ndarray]:
    packed, _, rows = results
    return (np.tril(packed, -1) + np.eye(len(a))) @ np.triu(packed), a[rows]


DECOMPOSITIONS: dict[str, Decomposition] = {
    "cholesky": Decomposition(
        jnp.linalg.cholesky, lambda a, factors: (factors[0] @ factors[0].T, a), _definite
    ),
    "lu": Decomposition(linalg.lu, _lu_product),
    "qr": Decomposition(
        jnp.linalg.qr,
        lambda a, factors: (factors[0] @ factors[1], a),
        unitary=lambda factors: factors[:1],
    ),
    "eigh": Decomposition(
        jnp.linalg.eigh,
        lambda a, factors: (factors[1] * factors[0] @ factors[1].T, a),
        lambda a: (a + a.T) / 2,
        unitary=lambda factors: factors[1:],
    ),
    "svd": Decomposition(
        jnp.linalg.svd,
        lambda a, factors: (factors[0] * factors[1] @ factors[2], a),
        unitary=lambda factors: [factors[0], factors[2].T],
    ),
    "eig": Decomposition(
        jnp.linalg.eig, lambda a, factors: (a @ factors[1], factors[1] * factors[0])
    ),
    "solve": Decomposition(
        lambda a: jnp.linalg.solve(a, jnp.ones((len(a), 1), a.dtype)),
        lambda a, x: (a @ x[0], np.ones((len(a), 1))),
        lambda a: a + 2 * np.sqrt(len(a)) * np.eye(len(a)),
    ),
}


def _built(name: str, size: int, dtype: str) -> tuple[Decomposition, int, str]:
    return DECOMPOSITIONS[name], size, dtype


BENCHMARKS: Mapping[str, Benchmark] = {
    f"{name}_{size}_{dtype}": Benchmark(
        f"{name} {size} {dtype}", partial(_built, name, size, dtype)
    )
    for name in DECOMPOSITIONS
    for size in (64, 200)
    for dtype in ("float32", "float64")
}


def measure(benchmark: Benchmark) -> dict[str, str]:
    """Translates, runs, checks and times one decomposition."""
    jax.config.update("jax_enable_x64", True)
    item, size, dtype = benchmark.build()
    a = item.matrix(np.random.default_rng(0).normal(size=(size, size))).astype(dtype)
    lowered = jax.jit(item.function).lower(a)
    program, seconds = translated(lowered)
    compiled = lowered.compile()
    calls = [session_call(program, a)(), lambda: jax.block_until_ready(compiled(a))]
    ours, xla = medians(calls)
    results = [
        x.astype(np.result_type(x, np.float64)) if x.dtype.kind in "fc" else x
        for x in map(np.asarray, jax.tree.leaves(program(a)))
    ]
    unit = size * float(np.finfo(dtype).eps)
    product, matrix = item.product(a.astype(np.float64), results)
    residual = np.linalg.norm(product - matrix) / (unit * np.linalg.norm(matrix))
    defects = [np.linalg.norm(q.T @ q - np.eye(q.shape[1])) / unit for q in item.unitary(results)]
    return {
        "ours ms": f"{1e3 * ours:.2f}",
        "XLA ms": f"{1e3 * xla:.2f}",
        "ours / XLA": f"{ours / xla:.1f}",
        "residual": f"{residual:.2f}",
        "defect": f"{max(defects, default=0.0):.2f}",
        "nodes": f"{program.report.nodes.total()}",
        "translation s": f"{seconds:.2f}",
    }

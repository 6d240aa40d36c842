"""Eigenvalues of small real symmetric matrices by Jacobi's rotations, written out by elements."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair
from dialect_handlers.common.linalg.written_out import batch_first, elements, exchange

MOST_SWEEPS = 12
"""Five or so are usual."""

State = tuple[dict[tuple[int, int], jax.Array], list[jax.Array]]
"""The elements [1, batch] from the diagonal on, and the eigenvectors so far [n, batch]."""


def eigh(a: jax.Array, *, lower: bool) -> Pair:
    """`eigh.eigh` of real matrices [..., n, n], n >= 2.

    The values are sorted by selection, as LAPACK's steqr does it: that determines the vectors of
    diagonal matrices with equal elements.
    """
    n, batch = a.shape[-1], a.shape[:-2]
    given = elements(a)
    places = [(i, j) for i in range(n) for j in range(i, n)]
    found = lax.concatenate([given[j][i] if lower else given[i][j] for i, j in places], 0)
    found, scale, largest = _scaled(found)
    start = {place: found[k : k + 1] for k, place in enumerate(places)}
    unit = jnp.eye(n, dtype=a.dtype)[:, :, None]
    vectors = [jnp.broadcast_to(unit[k], (n, found.shape[1])) for k in range(n)]
    limit = jnp.finfo(a.dtype).eps ** 2 * largest / scale

    def going(now: tuple[State, jax.Array]) -> jax.Array:
        (matrix, _), sweeps = now
        beside = lax.concatenate([matrix[pair] for pair in combinations(range(n), 2)], 0)
        return (sweeps < (1 if n == 2 else MOST_SWEEPS)) & jnp.any(abs(beside) > limit)

    def sweep(now: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        (matrix, vectors), sweeps = now
        for p, q in combinations(range(n), 2):
            matrix, vectors = _rotated(matrix, vectors, p, q)
        return (matrix, vectors), sweeps + 1

    (matrix, vectors), _ = lax.while_loop(going, sweep, ((start, vectors), np.int32(0)))
    rows = [[matrix[k, k], vectors[k]] for k in range(n)]
    for k in range(n - 1):
        exchange(rows, k, lambda row: -row[0])
    w = lax.concatenate([value for value, _ in rows], 0) * scale
    v = lax.concatenate([vector[:, None] for _, vector in rows], 1)
    v = jnp.where(jnp.isfinite(largest), v, np.nan)
    return batch_first(v.reshape(n * n, -1), batch, (n, n)), batch_first(w, batch, (n,))


def _scaled(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`blocks.scaled` of elements [k, batch], with a scale for each matrix; and the largest."""
    largest = jnp.max(abs(x), 0, keepdims=True)
    limits = jnp.finfo(x.dtype)
    smallest = np.sqrt(limits.tiny) / limits.eps
    extreme = (largest < smallest) | (largest > 1 / smallest)
    scale = jnp.where(extreme & (largest > 0), largest, 1)
    return jnp.where(jnp.isfinite(largest), x / scale, np.nan), scale, largest


def _rotated(
    matrix: dict[tuple[int, int], jax.Array], vectors: list[jax.Array], p: int, q: int
) -> State:
    """The rotation of rows and columns p and q that makes their common element 0."""
    matrix, vectors = dict(matrix), list(vectors)
    beside = matrix[p, q]
    difference, twice = matrix[q, q] - matrix[p, p], beside + beside
    length = jnp.sqrt(difference * difference + twice * twice)
    divisor = jnp.maximum(abs(difference) + length, jnp.finfo(beside.dtype).tiny)
    tangent = jnp.where(difference < 0, -twice, twice) / divisor
    cosine = lax.rsqrt(1 + tangent * tangent)
    sine = tangent * cosine
    change = tangent * beside
    matrix[p, p], matrix[q, q] = matrix[p, p] - change, matrix[q, q] + change
    matrix[p, q] = jnp.zeros_like(beside)

    def turned(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return cosine * x - sine * y, sine * x + cosine * y

    for k in range(len(vectors)):
        if k not in (p, q):
            left, right = (min(k, p), max(k, p)), (min(k, q), max(k, q))
            matrix[left], matrix[right] = turned(matrix[left], matrix[right])
    vectors[p], vectors[q] = turned(vectors[p], vectors[q])
    return matrix, vectors

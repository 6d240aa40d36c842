"""Factors and eigenvalues of matrices with few rows and columns, written out element by element.

The batch is the last axis. So each operation is about one contiguous vector, as long as the batch.
Each element is an array [1, batch]; a matrix is the list of its elements by rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    ADJOINT,
    NO_TRANSPOSE,
    Pair,
    Triple,
    divided,
    magnitude,
    moderating,
    reciprocal,
)

MOST = 4
"""Rows and columns. The number of operations grows with their third power."""
MOST_OF_BATCH = 6
"""The same for a batch, where other ways take products of many small matrices."""

Row = list[jax.Array]


def is_small(a: jax.Array, most_of_batch: int = MOST_OF_BATCH) -> bool:
    """Whether matrices [..., m, n] have few rows and columns."""
    most = most_of_batch if a.ndim > 2 else MOST
    return all(isinstance(extent, int) and 1 <= extent <= most for extent in a.shape[-2:])


def batch_last(x: jax.Array, core: int) -> jax.Array:
    """[..., *core] as [product of core, product of the batch], core being so many axes."""
    batch, rest = x.shape[: x.ndim - core], x.shape[x.ndim - core :]
    if not batch:
        return x.reshape(math.prod(rest), 1)
    return x.reshape(math.prod(batch), math.prod(rest)).T


def batch_first(x: jax.Array, batch: Sequence[int], core: Sequence[int]) -> jax.Array:
    """The inverse of `batch_last`."""
    return (x.T if batch else x).reshape(*batch, *core)


def elements(a: jax.Array) -> list[Row]:
    """The elements of matrices [..., m, n]."""
    m, n = a.shape[-2:]
    flat = batch_last(a, 2)
    return [[flat[n * i + j : n * i + j + 1] for j in range(n)] for i in range(m)]


def matrices(rows: list[Row], batch: Sequence[int]) -> jax.Array:
    """The matrices [..., m, n] with these elements."""
    flat = lax.concatenate([element for row in rows for element in row], 0)
    return batch_first(flat, batch, (len(rows), len(rows[0])))


def cholesky(a: jax.Array, *, lower: bool) -> Pair:
    """`cholesky.cholesky` of small matrices."""
    n, batch = a.shape[-1], a.shape[:-2]
    given = elements(a)
    # The lower triangle is the conjugate of the upper one, which this computes with.
    rest = [[given[j][i] if lower else given[i][j] for j in range(i, n)] for i in range(n)]
    if lower:
        rest = [[jnp.conj(x) for x in row] for row in rest]
    zero = jnp.zeros_like(rest[0][0])
    rows, pivots = [], []
    for k, (pivot, *row) in enumerate(rest):
        root = jnp.sqrt(pivot.real)
        row = [divided(x, root) for x in row]
        for i, left in enumerate(row):
            below = rest[k + 1 + i]
            for j, right in enumerate(row[i:]):
                below[j] = below[j] - jnp.conj(left) * right
        rows.append([zero] * k + [root.astype(a.dtype), *row])
        pivots.append(pivot.real)
    if lower:
        rows = [[jnp.conj(x) for x in column] for column in zip(*rows, strict=True)]
    return matrices(rows, batch), batch_first(lax.concatenate(pivots, 0), batch, (n,))


def lu(a: jax.Array) -> Triple:
    """`lu.lu` of small matrices."""
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    rows = elements(a)
    pivots: Row = []
    for k in range(min(m, n)):
        found = exchange(rows, k, lambda row: magnitude(row[len(pivots)]))
        pivots.append(found)
        pivot = rows[k][k]
        inverse = reciprocal(jnp.where(pivot == 0, 1, pivot)) if jnp.iscomplexobj(a) else None
        divisor = None if inverse is not None else jnp.where(pivot == 0, 1, pivot)
        for row in rows[k + 1 :]:
            row[k] = row[k] / divisor if inverse is None else row[k] * inverse
            for j in range(k + 1, n):
                row[j] = row[j] - row[k] * rows[k][j]
    order = batch_first(_order(pivots, m), batch, (m,))
    return (
        matrices(rows, batch),
        batch_first(lax.concatenate(pivots, 0), batch, (len(pivots),)),
        order,
    )


def exchange(rows: list[Row], k: int, key: Callable[[Row], jax.Array]) -> jax.Array:
    """Exchanges row k with the first of those from k on that have the largest key.

    Returns:
        Its number, i32[1, batch].
    """
    largest = key(rows[k])
    found = jnp.full(largest.shape, k, np.int32)
    wins = []
    for i in range(k + 1, len(rows)):
        size = key(rows[i])
        wins.append(size > largest)
        if i + 1 < len(rows):
            largest = jnp.where(wins[-1], size, largest)
        found = jnp.where(wins[-1], np.int32(i), found)
    old = list(rows[k])
    for i, win in enumerate(wins, k + 1):
        rows[k] = [jnp.where(win, x, y) for x, y in zip(rows[i], rows[k], strict=True)]
    for i, win in enumerate(wins, k + 1):
        mine = win if i + 1 == len(rows) else found == i
        rows[i] = [jnp.where(mine, x, y) for x, y in zip(old, rows[i], strict=True)]
    return found


def _order(pivots: Row, m: int) -> jax.Array:
    """The rows in the order that the exchanges make of them, i32[m, batch]."""
    code, table = jnp.zeros_like(pivots[0]), [np.arange(m, dtype=np.int32)]
    for k, pivot in enumerate(pivots):
        code = code * m + pivot
        table = [_exchanged(row, k, other) for row in table for other in range(m)]
    return jnp.array(table).T.at[:, code[0]].get(mode="promise_in_bounds")


def _exchanged(row: np.ndarray, k: int, other: int) -> np.ndarray:
    row = row.copy()
    row[[k, other]] = row[[other, k]]
    return row


def solve(
    a: jax.Array, b: jax.Array, *, left_side: bool, lower: bool, unit_diagonal: bool, op: str
) -> jax.Array:
    """`triangular.solve_triangular` of small matrices, by substitution.

    Args:
        op: The function of A.
    """
    n, batch = a.shape[-1], b.shape[:-2]
    t = elements(jnp.conj(a) if op == ADJOINT else a)
    if (op == NO_TRANSPOSE) != left_side:
        # X A = B says that the transpose of A is on the left of the transpose of X.
        t, lower = [list(column) for column in zip(*t, strict=True)], not lower
    axis = 0 if left_side else 1
    rest = batch_last(b, 2).reshape(*b.shape[-2:], math.prod(batch))
    solved: dict[int, jax.Array] = {}
    for i in range(n) if lower else reversed(range(n)):
        x = rest[i] if left_side else rest[:, i]
        for j, other in solved.items():
            x = x - t[i][j] * other
        solved[i] = x if unit_diagonal else x / t[i][i]
    x = lax.concatenate([jnp.expand_dims(solved[i], axis) for i in range(n)], axis)
    return batch_first(x.reshape(math.prod(b.shape[-2:]), math.prod(batch)), batch, b.shape[-2:])


# -- eigenvalues of real symmetric matrices by Jacobi's rotations -------------------------------

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
    largest = jnp.max(abs(found), 0, keepdims=True)
    scale = moderating(largest)
    found = jnp.where(jnp.isfinite(largest), found / scale, np.nan)
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

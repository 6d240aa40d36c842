"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import simultaneous, written_out
from dialect_handlers.common.linalg.blocks import Pair, adjoint, over_batch, scaled
from dialect_handlers.common.linalg.condensed_forms import tridiagonalize
from dialect_handlers.common.linalg.divide_and_conquer import bidiagonal_svd


def eigh(a: jax.Array, *, lower: bool) -> Pair:
    """A = V diag(w) V^H.

    Eigenvectors are unique up to a factor of absolute value 1; for diagonal matrices they are the
    unit vectors.

    Args:
        a: [..., n, n]; only one triangle is read, and the real part of the diagonal.
        lower: Which triangle.

    Returns:
        V [..., n, n]; and w [..., n], real, ascending. All are NaN if the triangle holds NaN or
        infinities, unless n is 1.
    """
    if written_out.is_small(a, written_out.MOST) and a.shape[-1] > 1 and not jnp.iscomplexobj(a):
        return written_out.eigh(a, lower=lower)
    triangle = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    a = triangle + adjoint(triangle) + jnp.where(np.eye(a.shape[-1], dtype=bool), a.real, 0)

    def by_division() -> Pair:
        return over_batch(_eigh, 2, a)

    if not simultaneous.suits(a, simultaneous.MOST_OF_EIGENVALUES.get(a.dtype.name, 0)):
        return by_division()
    moderate, scale = over_batch(scaled, 2, a)
    rows, values, good = simultaneous.eigenvalues_and_vectors(moderate)
    values = values * scale[..., None]

    def by_rotations() -> Pair:
        return over_batch(_sorted, 2, rows, values)

    found: Pair = lax.cond(good, by_rotations, by_division)
    return found


def _sorted(rows: jax.Array, values: jax.Array) -> Pair:
    """The results of `eigh` from eigenvectors in any order, the rows of [n, n]."""
    order = jnp.argsort(values)
    return rows[order].T, values[order]


def _eigh(a: jax.Array) -> Pair:
    n = a.shape[0]
    if n <= 1:
        return jnp.ones_like(a), jnp.diagonal(a).real
    a, scale = scaled(a)
    d, e, q = tridiagonalize(a)
    v, w = tridiagonal_eigh(d, e)
    return q.times(v.astype(a.dtype), shift=1), w * scale


def tridiagonal_eigh(d: jax.Array, e: jax.Array) -> Pair:
    """Eigenvectors [n, n] and eigenvalues [n], ascending, of a real symmetric tridiagonal matrix T.

    T + c is positive definite, and its Cholesky factor is bidiagonal. The right singular vectors of
    this factor are the eigenvectors. For a diagonal matrix they are the unit vectors.

    Args:
        d: The diagonal [n].
        e: The subdiagonal [n - 1].
    """
    diagonal_already = jnp.all(e == 0)
    sizes = jnp.pad(abs(e), 1)
    bound = jnp.max(abs(d) + sizes[1:] + sizes[:-1])
    bound = jnp.where(bound > 0, bound, 1)
    # Eigenvalues between 1/9 and 1.
    diagonal, beside = (d / bound + 1.25) / 2.25, e / bound / 2.25

    def step(pivot: jax.Array, row: Pair) -> Pair:
        d, e = row
        return d - e * e / pivot, pivot

    last, pivots = lax.scan(step, diagonal[0], (diagonal[1:], beside))
    roots = jnp.sqrt(jnp.append(pivots, last))
    _, rows = bidiagonal_svd(roots, beside / roots[:-1], left=False)
    rows = jnp.where(diagonal_already, np.eye(d.shape[0], dtype=d.dtype), rows)
    # Rayleigh quotients: the eigenvalues, without the digits lost by adding c.
    w = jnp.sum(rows * rows * d, 1) + 2 * jnp.sum(rows[:, :-1] * rows[:, 1:] * e, 1)
    return _sorted(rows, w)

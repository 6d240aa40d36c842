"""Cholesky factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import written_out
from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    Pair,
    adjoint,
    block_size,
    diagonal,
    divided,
    entry,
    eye,
    is_symbolic,
    padded,
    refined_product,
    stretch,
    triangle_inverse,
    trips,
)


def cholesky(a: jax.Array, *, lower: bool) -> Pair:
    """The upper triangular U with U^H U = A, or the lower triangular L with L L^H = A.

    Args:
        a: [..., n, n]; only that triangle is read, and the real part of the diagonal.

    Returns:
        The factor [..., n, n], and the pivots [..., n], real, of which it has the square roots on
        its diagonal: all are positive if A is positive definite; otherwise the factor is wrong
        from the first other pivot on. NaN in A reaches the elements that depend on it.
    """
    if a.shape[-1] == 0:
        return a, jnp.zeros(a.shape[:-1], a.real.dtype)
    # One matrix is transposed for nothing where its factor is transposed back.
    if written_out.is_small(a) and a.ndim > 2:
        return written_out.cholesky(a, lower=lower)
    u, pivots = _upper(adjoint(a) if lower else a)
    return adjoint(u) if lower else u, pivots


def _upper(a: jax.Array) -> Pair:
    n = a.shape[-1]
    if written_out.is_small(a):
        return written_out.cholesky(a, lower=False)
    if is_symbolic(n):
        return _by_columns(a)
    size = block_size(n)
    if size == n:
        return _by_columns(a)
    u, pivots = _by_blocks(a, size)
    # Products of whole blocks spread NaN and infinities too far.
    finite = jnp.isfinite(u).all()
    u, pivots = lax.cond(finite, lambda: (u, pivots), lambda: _by_columns(a))
    return u, pivots


def _by_blocks(a: jax.Array, size: int) -> Pair:
    n = a.shape[-1]
    count = -(-n // size)
    batch = a.shape[:-2]
    # The unread triangle may hold anything, and products add up whole columns.
    a = padded(jnp.triu(a), count * size, count * size)

    def step(carry: Pair, _: None) -> tuple[Pair, Pair]:
        rest, first = carry
        rows = stretch(rest, first, size, -2)
        head = stretch(rows, first, size, -1)
        u, pivots = _by_columns(head)
        # Left of the block this makes numbers that nothing right of it depends on.
        t = adjoint(u)
        rows = refined_product(triangle_inverse(t), t, rows)
        # Within it the product is a triangle only to rounding, times the condition of U.
        rows = lax.dynamic_update_slice_in_dim(rows, u, first, axis=u.ndim - 1, **IN_BOUNDS)
        return (rest - adjoint(rows) @ rows, first + size), (rows, pivots)

    _, (rows, pivots) = lax.scan(step, (a, np.int64(0)), length=count)
    u = jnp.moveaxis(rows, 0, -3).reshape(a.shape)[..., :n, :n]
    return jnp.triu(u), jnp.moveaxis(pivots, 0, -2).reshape(*batch, -1)[..., :n]


def _by_columns(a: jax.Array) -> Pair:
    def step(carry: Pair, _: object) -> tuple[Pair, jax.Array]:
        rest, k = carry
        row = entry(rest, k, rest.ndim - 2)
        pivot = stretch(row, k, 1, -1)
        column = jnp.conj(divided(row, pivot.real))[..., :, None]
        return (rest - column * row[..., None, :], k + 1), row

    n = a.shape[-1]
    _, rows = lax.scan(step, (a, np.int64(0)), **trips(n))
    rows = jnp.moveaxis(rows, 0, -2)
    pivots = diagonal(rows).real
    roots = jnp.sqrt(pivots)[..., :, None]
    return jnp.where(eye(n), roots.astype(a.dtype), jnp.triu(divided(rows, roots))), pivots

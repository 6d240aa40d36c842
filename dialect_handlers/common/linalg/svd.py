"""Singular values and singular vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import adjoint, over_batch
from dialect_handlers.common.linalg.divide import bidiagonal_svd
from dialect_handlers.common.linalg.reductions import bidiagonalize
from dialect_handlers.common.linalg.scaling import scaled


def svd(a: jax.Array, *, full_matrices: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A = U diag(s) V^H.

    Each pair of singular vectors is one of those that differ by a factor of absolute value 1.

    Args:
        a: [..., m, n], m and n >= 1.
        full_matrices: Whether U and V are square.

    Returns:
        U [..., m, k or m]; s [..., k], descending; V^H [..., k or n, n], k being the smaller of m
        and n. All are NaN where A holds NaN or infinities.
    """
    m, n = a.shape[-2:]
    if m < n:
        v, s, uh = svd(adjoint(a), full_matrices=full_matrices)
        return adjoint(uh), s, adjoint(v)
    u, s, vh = over_batch(lambda a: _svd(a, full_matrices), 2, a)
    return u, s, vh


def singular_values(a: jax.Array) -> jax.Array:
    """The s of `svd` alone."""
    return over_batch(_singular_values, 2, a if a.shape[-2] >= a.shape[-1] else adjoint(a))


def _singular_values(a: jax.Array) -> jax.Array:
    a, scale = scaled(a)
    d, e, _, _ = bidiagonalize(a)
    _, v = bidiagonal_svd(d, e, left=False)
    product = v * d + jnp.pad(v[:, 1:] * e, [(0, 0), (0, 1)])
    return -jnp.sort(-jnp.sqrt(jnp.sum(product * product, 1))) * scale


def _svd(a: jax.Array, full_matrices: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    m, n = a.shape
    a, scale = scaled(a)
    d, e, left, right = bidiagonalize(a)
    u, v = bidiagonal_svd(d, e, left=True)
    s = jnp.sum(u * v * d, 1) + jnp.sum(u[:, :-1] * v[:, 1:] * e, 1)
    u, s = jnp.where(s < 0, -1, 1)[:, None] * u, abs(s)
    order = jnp.argsort(-s)
    u, s, v = u[order].T.astype(a.dtype), s[order], v[order].T.astype(a.dtype)
    if full_matrices:
        u = jnp.pad(u, [(0, m - n), (0, m - n)])
        u = jnp.where((np.eye(m) > 0) & (np.arange(m) >= n), 1, u)
    else:
        u = jnp.pad(u, [(0, m - n), (0, 0)])
    return left.times(u), s * scale, adjoint(right.times(v, shift=1))

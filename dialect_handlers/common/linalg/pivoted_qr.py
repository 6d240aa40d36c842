"""QR factors with column pivoting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    Triple,
    entry,
    first_largest,
    over_batch,
    squares,
    stretch,
    take,
)
from dialect_handlers.common.linalg.householder import reflected, reflection


def pivoted_qr(a: jax.Array) -> Triple:
    """A P = Q R as in LAPACK's geqp3: the next column is the longest one below the finished rows.

    LAPACK estimates the lengths from the previous step; here they are exact. So the order may
    differ for columns of equal length up to rounding.

    Args:
        a: [..., m, n].

    Returns:
        R and the reflections, packed as by `householder.qr`; the columns of A in the order of P,
        i32[..., n]; and the min(m, n) factors tau.
    """
    return over_batch(_pivoted_qr, 2, a)


def _pivoted_qr(a: jax.Array) -> Triple:
    """Columns stay in place; only their numbers in `order` move."""
    m, n = a.shape
    position = lax.iota(np.int32, n)
    if min(m, n) == 0:
        return a, position, jnp.zeros(0, a.dtype)
    below = lax.iota(np.int64, m)

    def step(carry: Triple, _: None) -> tuple[Triple, Triple]:
        columns, order, k = carry
        lengths = jnp.sum(jnp.where(below >= k, squares(columns), 0), axis=1)
        lengths = take(lengths, order)
        found = first_largest(lengths, k)
        number, here = (stretch(order, i, 1) for i in (found, k))
        order = jnp.where(position == found, here, order)
        order = jnp.where(position == k, number, order)
        column = entry(columns, number[0])
        v, tau = reflection(column, k)
        columns = reflected(columns, v, tau)
        row = entry(columns, k, 1)
        return (columns, order, k + 1), (row, v, tau)

    (_, order, _), (r, v, taus) = lax.scan(step, (a.T, position, np.int64(0)), length=min(m, n))
    r = take(r, order, 1)
    r = jnp.pad(r, [(0, m - r.shape[0]), (0, 0)])
    v = jnp.pad(v.T, [(0, 0), (0, n - v.shape[0])])
    return jnp.where(below[:, None] > position, v, r), order, taus

"""QR factors with column pivoting."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import IN_BOUNDS, first_largest, over_batch, squares
from dialect_handlers.common.linalg.householder import reflected, reflection


def pivoted_qr(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """A P = Q R as LAPACK's geqp3 gives it: the column that is longest below the rows done so far
    comes next.

    LAPACK estimates the lengths from those of the step before; here they are exact, and of
    columns that are equally long to rounding another one may come first.

    Args:
        a: [..., m, n].

    Returns:
        R and the reflections, packed as by `householder.qr`; the columns of A in the order of P,
        i32[..., n]; and the min(m, n) factors tau.
    """
    packed, order, taus = over_batch(_pivoted_qr, 2, a)
    return packed, order, taus


def _pivoted_qr(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Columns stay where they are; what moves is their numbers in `order`."""
    m, n = a.shape
    position = lax.iota(np.int32, n)
    if min(m, n) == 0:
        return a, position, jnp.zeros(0, a.dtype)
    below = lax.iota(np.int64, m)

    def step(carry: tuple[jax.Array, jax.Array, jax.Array], _: None) -> Any:
        columns, order, k = carry
        lengths = jnp.sum(jnp.where(below >= k, squares(columns), 0), axis=1)
        lengths = lengths.at[order].get(mode="promise_in_bounds", wrap_negative_indices=False)
        found = first_largest(jnp.where(position >= k, lengths, -1))
        number, here = (lax.dynamic_index_in_dim(order, i, 0, **IN_BOUNDS) for i in (found, k))
        order = jnp.where(position == found, here, order)
        order = jnp.where(position == k, number, order)
        column = lax.dynamic_index_in_dim(columns, number[0], 0, keepdims=False, **IN_BOUNDS)
        v, tau = reflection(column, k)
        columns = reflected(columns, v, tau)
        row = lax.dynamic_index_in_dim(columns, k, 1, keepdims=False, **IN_BOUNDS)
        return (columns, order, k + 1), (row, v, tau)

    (_, order, _), (r, v, taus) = lax.scan(step, (a.T, position, np.int64(0)), length=min(m, n))
    r = r.at[:, order].get(mode="promise_in_bounds", wrap_negative_indices=False)
    r = jnp.pad(r, [(0, m - r.shape[0]), (0, 0)])
    v = jnp.pad(v.T, [(0, 0), (0, n - v.shape[0])])
    return jnp.where(below[:, None] > position, v, r), order, taus

"""LU factors with partial pivoting."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    block_size,
    first_largest,
    is_symbolic,
    magnitude,
    over_batch,
    reciprocal,
    refined_product,
    triangle_inverse,
    trips,
    with_unit_front,
)


def lu(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """P A = L U, the rows being exchanged as LAPACK's getrf does: column by column the first
    element of the largest |re| + |im| comes to the diagonal.

    Args:
        a: [..., m, n].

    Returns:
        L without its unit diagonal and U, packed into [..., m, n]; for each of the min(m, n)
        columns the row exchanged with the row of its own number, i32; and the rows of A in the
        order of P, i32[..., m].
    """
    packed, pivots, order = over_batch(_lu, 2, a)
    return packed, pivots, order


def _lu(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Rows of A stay where they are; what moves is their numbers in `order`. A row that has been
    a pivot turns into arbitrary numbers, which nothing depends on."""
    m, n = a.shape
    rank = m if m == n else min(m, n)
    if rank == 0:
        return a, jnp.zeros(0, np.int32), lax.iota(np.int32, m)
    size = 1 if is_symbolic(rank) else block_size(rank)
    count = -(-rank // size)
    # Whole blocks, by rows and columns of the unit matrix in front: they are their own pivots.
    new = count * size - rank
    a = with_unit_front(a, new)

    def step(
        carry: tuple[jax.Array, jax.Array, jax.Array], _: None
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]:
        rest, order, first = carry
        columns = lax.dynamic_slice_in_dim(rest, first, size, axis=1, **IN_BOUNDS)
        order, lower, upper, pivots = _panel(columns.T, order, first)
        rows = lax.dynamic_slice_in_dim(order, first, size, **IN_BOUNDS)
        head = jnp.tril(_take(lower, rows, 1).T, -1) + jnp.eye(size, dtype=a.dtype)
        right = refined_product(triangle_inverse(head), head, _take(rest, rows, 0))
        right = lax.dynamic_update_slice_in_dim(right, upper, first, axis=1, **IN_BOUNDS)
        return (rest - lower.T @ right, order, first + size), (lower, right, pivots)

    start = (a, lax.iota(np.int32, new + m), np.int32(0))
    (_, order, _), (lower, upper, pivots) = lax.scan(step, start, **trips(count))
    upper = upper.reshape(count * size, new + n)[new:, new:]
    lower = _take(lower.reshape(count * size, new + m), order, 1)[new:, new:].T
    wide, tall = [(0, 0), (0, n - rank)], [(0, m - rank), (0, 0)]
    i, j = lax.iota(np.int32, m)[:, None], lax.iota(np.int32, n)
    packed = jnp.where(i > j, jnp.pad(lower, wide), jnp.pad(upper, tall))
    return packed, pivots.reshape(-1)[new:] - new, order[new:] - new


def _panel(
    p: jax.Array, order: jax.Array, first: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Eliminates a few columns.

    Args:
        p: [b, m]; its rows are the columns.
        order: The matrix' row at each position, i32[m].
        first: The position of the first pivot.

    Returns:
        The new order; the factors of each elimination as the rows of [b, m], in the order of the
        matrix' rows; the pivots' rows [b, b]; and for each pivot the position it was found at.
    """
    position = lax.iota(np.int32, p.shape[1])

    def step(carry: tuple[jax.Array, jax.Array, jax.Array], _: None) -> Any:
        p, order, k = carry
        here = first + k
        column = lax.dynamic_index_in_dim(p, k, 0, keepdims=False, **IN_BOUNDS)
        moved = _take(column, order, 0)
        found = first_largest(jnp.where(position >= here, magnitude(moved), -1))
        row = _at(order, found)
        order = jnp.where(position == found, _at(order, here), order)
        order = jnp.where(position == here, row, order)
        pivot = _at(moved, found)
        factors = column * reciprocal(jnp.where(pivot == 0, 1, pivot))
        upper = lax.dynamic_index_in_dim(p, row, 1, **IN_BOUNDS)
        return (p - upper * factors, order, k + 1), (factors, upper[:, 0], found)

    (_, order, _), (lower, upper, pivots) = lax.scan(
        step, (p, order, np.int32(0)), length=p.shape[0]
    )
    return order, lower, upper, pivots


def _at(x: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(x, index, 0, keepdims=False, **IN_BOUNDS)


def _take(x: jax.Array, indices: jax.Array, axis: int) -> jax.Array:
    """The elements or rows along an axis at indices [k] that are in bounds."""
    where = (slice(None),) * axis + (indices,)
    return x.at[where].get(mode="promise_in_bounds", wrap_negative_indices=False)


def exchanged(pivots: jax.Array, *, rows: int) -> jax.Array:
    """The order, i32[..., rows], that exchanging row k with row pivots[..., k] in turn makes of
    0, 1, 2, ...."""
    order: jax.Array = over_batch(partial(_exchanged, rows=rows), 1, pivots)
    return order


def _exchanged(pivots: jax.Array, *, rows: int) -> jax.Array:
    position = lax.iota(np.int32, rows)

    def step(carry: tuple[jax.Array, jax.Array], pivot: jax.Array) -> Any:
        order, k = carry
        own, other = _at(order, k), _at(order, pivot)
        order = jnp.where(position == pivot, own, order)
        return (jnp.where(position == k, other, order), k + 1), None

    return lax.scan(step, (position, np.int32(0)), pivots)[0][0]

"""LU factors with partial pivoting."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import written_out
from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    Pair,
    Triple,
    block_size,
    entry,
    first_largest,
    is_symbolic,
    magnitude,
    over_batch,
    reciprocal,
    refined_product,
    stretch,
    take,
    triangle_inverse,
    trips,
    with_unit_front,
)
from dialect_handlers.common.linalg.lu_in_place import lu_in_place


def lu(a: jax.Array) -> Triple:
    """P A = L U, with the row exchanges of LAPACK's getrf: in each column the first element with
    the largest |re| + |im| moves to the diagonal.

    Args:
        a: [..., m, n].

    Returns:
        L without its unit diagonal and U, packed into [..., m, n]; for column j of the min(m, n)
        columns the row exchanged with row j, i32; and the rows of A in the order of P,
        i32[..., m].
    """
    if written_out.is_small(a, written_out.MOST):
        return written_out.lu(a)
    if a.ndim > 2 or a.shape[0] != a.shape[1] or is_symbolic(a.shape[0]) or jnp.iscomplexobj(a):
        return over_batch(_lu, 2, a)
    if a.size == 0:
        return _lu(a)
    packed, order, good = lu_in_place(a)

    def fast() -> Pair:
        return packed, order.astype(np.int32)

    packed, order = lax.cond(good, fast, lambda: _lu(a)[::2])
    return packed, _exchanges(order), order


def _exchanges(order: jax.Array) -> jax.Array:
    """The exchanges, row k with row p[k] in turn, that put 0, 1, 2, ... into an order i32[n]."""
    n = order.shape[0]
    position = lax.iota(np.int32, n)

    def step(carry: Pair, at: Pair) -> tuple[Pair, jax.Array]:
        (rows, places), (k, row) = carry, at
        place, other = entry(places, row), entry(rows, k)
        rows = jnp.where(position == place, other, rows)
        return (rows, jnp.where(position == other, place, places)), place

    return lax.scan(step, (position, position), (position, order))[1]


def _lu(a: jax.Array) -> Triple:
    """Rows of A stay in place; only their numbers in `order` move. A row that has been a pivot
    holds arbitrary numbers, which nothing reads."""
    m, n = a.shape
    rank = m if m == n else min(m, n)
    if rank == 0:
        return a, jnp.zeros(0, np.int32), lax.iota(np.int32, m)
    size = 1 if is_symbolic(rank) else block_size(rank)
    count = -(-rank // size)
    # Whole blocks, by rows and columns of the unit matrix in front: they are their own pivots.
    new = count * size - rank
    a = with_unit_front(a, new)

    def step(carry: Triple, _: object) -> tuple[Triple, Triple]:
        rest, order, first = carry
        columns = stretch(rest, first, size, 1)
        order, lower, upper, pivots = _panel(columns.T, order, first)
        rows = stretch(order, first, size)
        head = jnp.tril(take(lower, rows, 1).T, -1) + jnp.eye(size, dtype=a.dtype)
        right = refined_product(triangle_inverse(head, unit=True), head, take(rest, rows, 0))
        right = lax.dynamic_update_slice_in_dim(right, upper, first, axis=1, **IN_BOUNDS)
        return (rest - lower.T @ right, order, first + size), (lower, right, pivots)

    start = (a, lax.iota(np.int32, new + m), np.int32(0))
    (_, order, _), (lower, upper, pivots) = lax.scan(step, start, **trips(count))
    upper = upper.reshape(count * size, new + n)[new:, new:]
    lower = take(lower.reshape(count * size, new + m), order, 1)[new:, new:].T
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

    def step(carry: Triple, _: None) -> tuple[Triple, Triple]:
        p, order, k = carry
        here = first + k
        column = entry(p, k)
        moved = take(column, order, 0)
        found = first_largest(magnitude(moved), here)
        row = entry(order, found)
        order = jnp.where(position == found, entry(order, here), order)
        order = jnp.where(position == here, row, order)
        pivot = entry(moved, found)
        factors = column * reciprocal(jnp.where(pivot == 0, 1, pivot))
        upper = stretch(p, row, 1, 1)
        return (p - upper * factors, order, k + 1), (factors, upper[:, 0], found)

    (_, order, _), (lower, upper, pivots) = lax.scan(
        step, (p, order, np.int32(0)), length=p.shape[0]
    )
    return order, lower, upper, pivots


def exchanged(pivots: jax.Array, *, rows: int) -> jax.Array:
    """The order, i32[..., rows], that exchanging row k with row pivots[..., k] in turn makes of
    0, 1, 2, ...."""
    return over_batch(partial(_exchanged, rows=rows), 1, pivots)


def _exchanged(pivots: jax.Array, *, rows: int) -> jax.Array:
    position = lax.iota(np.int32, rows)

    def step(carry: Pair, pivot: jax.Array) -> tuple[Pair, None]:
        order, k = carry
        own, other = entry(order, k), entry(order, pivot)
        order = jnp.where(position == pivot, own, order)
        return (jnp.where(position == k, other, order), k + 1), None

    return lax.scan(step, (position, np.int32(0)), pivots)[0][0]

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
    largest_place,
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

MOST_AT_ONCE = 64
"""Columns that are eliminated without blocks: whole rows take less time than more nodes."""


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
    (m, n), is_real = a.shape[-2:], not jnp.iscomplexobj(a)
    if a.ndim > 2 or m != n or is_symbolic(n) or n == 0 or not is_real:
        return over_batch(_by_columns, 2, a)
    packed, order, good = _in_place(a)

    def fast() -> Pair:
        return packed, order.astype(np.int32)

    packed, order = lax.cond(good, fast, lambda: _by_columns(a)[::2])
    return packed, _exchanges(order), order


def _in_place(a: jax.Array) -> Triple:
    """P A = L U of [n, n], without moving rows.

    A pivot is the largest element of its column in the rows that are left, and its row is then 0.
    So no step moves rows or looks at their order. That is LAPACK's choice unless two elements are
    equally large, or all are 0.

    Returns:
        L without its unit diagonal and U, packed into [n, n]; the rows of A in the order of P,
        i64[n]; and whether these are LAPACK's.
    """
    n = a.shape[0]
    size = n if n <= MOST_AT_ONCE else block_size(n)
    count = -(-n // size)
    # Whole blocks, by rows and columns of the unit matrix in front: they are their own pivots.
    new = count * size - n
    a = with_unit_front(a, new)
    factors, upper, order = _panel(a.T) if count == 1 else _by_blocks(a, size)
    # A factor of 1 is the pivot's own, or that of an element as large. A row that is chosen twice
    # has the pivot 0 or NaN, and then no factor is 1.
    equal = (abs(factors) == 1).astype(a.dtype)
    good = jnp.all(jnp.sum(equal, 1) == 1)
    lower = take(factors.T, order)
    i = np.arange(lower.shape[0])
    packed = jnp.where(i[:, None] > i, lower, upper)[new:, new:]
    return packed, order[new:] - new, good


def _panel(p: jax.Array) -> Triple:
    """Eliminates columns, the rows of p [b, m]: a column is then contiguous.

    Returns:
        The factors of each elimination [b, m]; the pivots' rows [b, b], of which the elements left
        of the pivots are arbitrary; and their numbers, i64[b].
    """

    def step(p: jax.Array, k: jax.Array) -> tuple[jax.Array, Triple]:
        column = take(p, k)
        place = largest_place(abs(column), 1)
        row, pivot = take(p, place, 1), take(column, place, 1)
        factors = column / pivot
        return p - row @ factors, (factors, row, place)

    _, (factors, rows, places) = lax.scan(step, p, np.arange(p.shape[0])[:, None])
    return factors[:, 0], rows[..., 0], places[:, 0]


def _by_blocks(a: jax.Array, size: int) -> Triple:
    """The results of `_panel` for A^T [n, n]."""
    n = a.shape[0]

    def step(carry: Pair, _: None) -> tuple[Pair, Triple]:
        rest, first = carry
        factors, own, places = _panel(stretch(rest, first, size, 1).T)
        lower = factors.T
        # A pivot's factor is 1, and 0 in the columns behind it: its row is 0 by then.
        head = take(lower, places)
        rows = refined_product(triangle_inverse(head, unit=True), head, take(rest, places))
        rest = rest - lower @ rows
        rest = rest.at[places].set(0, unique_indices=True, mode="promise_in_bounds")
        rows = lax.dynamic_update_slice_in_dim(rows, own, first, 1, **IN_BOUNDS)
        return (rest, first + size), (factors, rows, places)

    _, (factors, rows, places) = lax.scan(step, (a, np.int64(0)), length=n // size)
    return factors.reshape(n, n), rows.reshape(n, n), places.reshape(n)


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


def _by_columns(a: jax.Array) -> Triple:
    """Rows of A stay in place; only their numbers in `order` move. A row that has been a pivot
    holds arbitrary numbers, which nothing reads."""
    m, n = a.shape
    rank = m if m == n else min(m, n)
    position = lax.iota(np.int32, m)
    if rank == 0:
        return a, jnp.zeros(0, np.int32), position

    def step(carry: Triple, _: object) -> tuple[Triple, Triple]:
        p, order, k = carry
        column = entry(p, k)
        moved = take(column, order)
        found = first_largest(magnitude(moved), k)
        row = entry(order, found)
        order = jnp.where(position == found, entry(order, k), order)
        order = jnp.where(position == k, row, order)
        pivot = entry(moved, found)
        factors = column * reciprocal(jnp.where(pivot == 0, 1, pivot))
        upper = stretch(p, row, 1, 1)
        return (p - upper * factors, order, k + 1), (factors, upper[:, 0], found)

    start = (a.T, position, np.int32(0))
    (_, order, _), (lower, upper, pivots) = lax.scan(step, start, **trips(rank))
    wide, tall = [(0, 0), (0, n - rank)], [(0, m - rank), (0, 0)]
    i, j = position[:, None], lax.iota(np.int32, n)
    lower = jnp.pad(take(lower, order, 1).T, wide)
    return jnp.where(i > j, lower, jnp.pad(upper, tall)), pivots, order


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

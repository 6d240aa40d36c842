"""LU factors of square matrices whose rows stay in place.

A pivot is the largest element of its column in the rows that are left, and its row is then 0. So no
step moves rows or looks at their order. That is LAPACK's choice unless two elements are equally
large, or all are 0; these cases show in the factors, and are left to `lu.lu`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    Pair,
    Triple,
    block_size,
    largest_place,
    refined_product,
    stretch,
    take,
    triangle_inverse,
    with_unit_front,
)

MOST_AT_ONCE = 64
"""Columns that are eliminated without blocks: whole rows take less time than more nodes."""


def lu_in_place(a: jax.Array) -> Triple:
    """P A = L U.

    Args:
        a: [n, n], n >= 2.

    Returns:
        L without its unit diagonal and U, packed into [n, n]; the rows of A in the order of P,
        i64[n]; and whether these are LAPACK's.
    """
    new, factors, upper, order = _factors(a)
    # A factor of 1 is the pivot's own, or that of an element as large. A row that is chosen twice
    # has the pivot 0 or NaN, and then no factor is 1.
    equal = (abs(factors) == 1).astype(a.dtype)
    good = jnp.all(jnp.sum(equal, 1) == 1)
    lower = take(factors.T, order)
    i = np.arange(lower.shape[0])
    packed = jnp.where(i[:, None] > i, lower, upper)[new:, new:]
    return packed, order[new:] - new, good


def _factors(a: jax.Array) -> tuple[int, jax.Array, jax.Array, jax.Array]:
    """The results of `_panel` for the first n columns of [I, 0; 0, A], A [n, m], and the size of
    the unit matrix. The rows have all m columns."""
    n = a.shape[0]
    size = n if n <= MOST_AT_ONCE else block_size(n)
    count = -(-n // size)
    # Whole blocks, by rows and columns of the unit matrix in front: they are their own pivots.
    new = count * size - n
    a = with_unit_front(a, new)
    return new, *(_panel(a.T, n) if count == 1 else _by_blocks(a, size))


def _panel(p: jax.Array, count: int) -> Triple:
    """Eliminates the first columns of a matrix, which are the rows of p [b, m]: a column is then
    contiguous.

    Returns:
        The factors of each elimination [count, m]; the pivots' rows [count, b], of which the
        elements left of the pivots are arbitrary; and their numbers, i64[count].
    """

    def step(p: jax.Array, k: jax.Array) -> tuple[jax.Array, Triple]:
        column = take(p, k)
        place = largest_place(abs(column), 1)
        row, pivot = take(p, place, 1), take(column, place, 1)
        factors = column / pivot
        return p - row @ factors, (factors, row, place)

    _, (factors, rows, places) = lax.scan(step, p, np.arange(count)[:, None])
    return factors[:, 0], rows[..., 0], places[:, 0]


def _by_blocks(a: jax.Array, size: int) -> Triple:
    """The results of `_panel` for the first n columns of A [n, m]."""
    n = a.shape[0]

    def step(carry: Pair, _: None) -> tuple[Pair, Triple]:
        rest, first = carry
        factors, own, places = _panel(stretch(rest, first, size, 1).T, size)
        lower = factors.T
        # A pivot's factor is 1, and 0 in the columns behind it: its row is 0 by then.
        head = take(lower, places)
        rows = refined_product(triangle_inverse(head, unit=True), head, take(rest, places))
        rest = rest - lower @ rows
        rest = rest.at[places].set(0, unique_indices=True, mode="promise_in_bounds")
        rows = lax.dynamic_update_slice_in_dim(rows, own, first, 1, **IN_BOUNDS)
        return (rest, first + size), (factors, rows, places)

    _, (factors, rows, places) = lax.scan(step, (a, np.int64(0)), length=n // size)
    return factors.reshape(n, n), rows.reshape(a.shape), places.reshape(n)

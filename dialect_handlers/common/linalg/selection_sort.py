"""LAPACK's order of equal eigenvalues and singular values.

LAPACK sorts them by selection, which is not stable: each step exchanges an element with the first
smallest one after it. The order of equal values determines the order of the vectors of a diagonal
matrix, so a stable sort would give other vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, entry, first_largest, take


class Pass(NamedTuple):
    """One sort by selection.

    Attributes:
        descending: Whether the largest value comes first.
        from_end: Whether the places are filled from the last one on, each with the value that
            comes last in the order, and of equal ones with the last.
    """

    descending: bool
    from_end: bool = False


def selection_order(x: jax.Array, order: jax.Array, passes: list[Pass], by: jax.Array) -> jax.Array:
    """The order of the values after one or more sorts by selection, as indices [n].

    Args:
        x: The values [n], n >= 1.
        order: A stable order of the values [n]. It is the result if `by` is false, if all values
            differ, or if all are equal.
        passes: The sorts, in sequence.
        by: bool[], whether the order of equal values matters.
    """
    n = x.shape[0]
    ranked = take(x, order)
    equal = ranked[1:] == ranked[:-1]
    trips = jnp.where(by & jnp.any(equal) & ~jnp.all(equal), n, 0)
    i = lax.iota(np.int32, n)
    order = jnp.where(trips > 0, i, order.astype(np.int32))

    def sort(order: jax.Array, at: Pair) -> tuple[jax.Array, None]:
        descending, from_end = at
        keys = jnp.where(descending ^ from_end, x, -x)
        order = jnp.where(from_end, order[::-1], order)
        order = _selected(keys, order, trips)
        return jnp.where(from_end, order[::-1], order), None

    if passes == [Pass(descending=False)]:
        return _selected(-x, order, trips)
    columns = (np.array(column) for column in zip(*passes, strict=True))
    return lax.scan(sort, order, tuple(columns))[0]


def _selected(keys: jax.Array, order: jax.Array, trips: jax.Array) -> jax.Array:
    """The order after so many steps, each of which takes the first of the largest keys left."""
    i = lax.iota(np.int32, keys.shape[0])

    def step(carry: Pair) -> Pair:
        here, order = carry
        largest = first_largest(take(keys, order), here)
        taken = entry(order, largest)
        left = entry(order, here)
        return here + 1, jnp.where(i == here, taken, jnp.where(i == largest, left, order))

    def going(carry: Pair) -> jax.Array:
        return carry[0] < trips

    return lax.while_loop(going, step, (np.int32(0), order))[1]

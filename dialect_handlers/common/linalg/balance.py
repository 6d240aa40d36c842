"""Square matrices permuted and scaled before their eigenvalues are computed, as in LAPACK's gebal:
the parts that are triangular already are set aside, and rows get the norms of their columns.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Triple, entry, squares, take

MOST_SWEEPS = 30
"""Two or three are usual."""


class Order(NamedTuple):
    """The order of rows and columns.

    Attributes:
        order: Their numbers [n].
        coupled: bool[n], by number: those between the first and the last ones set aside.
        found: Whether the latest search found anything.
    """

    order: jax.Array
    coupled: jax.Array
    found: jax.Array


def triangular_parts_aside(a: jax.Array) -> Order:
    """Moves rows that are 0 except on the diagonal to the end, then such columns to the front.

    It moves one row at a time, and ignores the columns of rows that it has moved."""
    n = a.shape[0]
    filled = (a != 0) & ~np.eye(n, dtype=bool)
    order = Order(lax.iota(np.int32, n), jnp.ones(n, bool), jnp.bool_(True))
    order = _set_aside(filled, order, to_end=True)
    return _set_aside(filled.T, order._replace(found=jnp.bool_(True)), to_end=False)


def _set_aside(filled: jax.Array, start: Order, to_end: bool) -> Order:
    n = filled.shape[0]
    place = lax.iota(np.int32, n)

    def step(now: Order) -> Order:
        empty = now.coupled & ~jnp.any(filled & now.coupled, 1)
        left, empty = take(now.coupled, now.order), take(empty, now.order)
        if to_end:
            here, target = (jnp.max(jnp.where(x, place, 0)) for x in (empty, left))
        else:
            here, target = (jnp.min(jnp.where(x, place, n - 1)) for x in (empty, left))
        number, other = entry(now.order, here), entry(now.order, target)
        order = jnp.where(place == here, other, jnp.where(place == target, number, now.order))
        found = jnp.any(empty)
        coupled = now.coupled & ((place != number) | ~found)
        return Order(jnp.where(found, order, now.order), coupled, found)

    order: Order = lax.while_loop(lambda now: now.found, step, start)
    return order


def scales(a: jax.Array, coupled: jax.Array) -> jax.Array:
    """The powers of two d [n] with which D^-1 A D has rows about as long as its columns.

    Args:
        a: [n, n].
        coupled: bool[n], the rows and columns to scale, and to look at.
    """
    n = a.shape[0]
    i = lax.iota(np.int32, n)

    def balanced(d: jax.Array, k: jax.Array) -> jax.Array:
        own = entry(d, k)
        column = entry(a, k, 1)
        row = entry(a, k)
        ratios = jnp.where(coupled, d / own, 0)
        inverses = jnp.where(coupled, own / d, 0)
        length = jnp.sqrt(jnp.sum(squares(column) * inverses * inverses))
        width = jnp.sqrt(jnp.sum(squares(row) * ratios * ratios))
        some = (length > 0) & (width > 0)
        quotient = jnp.where(some, width, 1) / jnp.where(some, length, 1)
        factor = jnp.exp2(jnp.round(0.5 * jnp.log2(quotient)))
        pays = length * factor + width / factor < 0.95 * (length + width)
        return jnp.where((i == k) & coupled & some & pays, own * factor, d)

    def sweep(state: Triple) -> tuple[jax.Array, ...]:
        d, _, count = state
        new, _ = lax.scan(lambda d, k: (balanced(d, k), None), d, i)
        return new, jnp.any(new != d), count + 1

    def going(state: Triple) -> jax.Array:
        return state[1] & (state[2] < MOST_SWEEPS)

    start = (jnp.ones(n, a.real.dtype), jnp.bool_(True), np.int32(0))
    return lax.while_loop(going, sweep, start)[0]

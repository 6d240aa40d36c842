"""Reflections of a few columns of a real matrix, in few operations for each column.

A step of the loop treats every column alike. It also reflects those that have only zeros below
their diagonal element, where LAPACK takes the identity. This changes no later column: it changes
the sign of one element of each, which is above their own diagonal elements. So the loop's result
is not read, only the reflections are.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, take


def real_panel(p: jax.Array, first: jax.Array) -> Pair:
    """The reflections that make a few columns of moderate size triangular.

    Args:
        p: [b, m]; its rows are the columns. Their squares do not overflow.
        first: The position of the first column's diagonal element.

    Returns:
        The v as rows of [b, m], and the b factors tau. A factor is NaN where elements that are not
        0 are too small for accurate squares.
    """
    b, m = p.shape
    count, position = np.arange(b)[:, None], np.arange(m)
    number = first + count
    here = (number == position).astype(p.dtype)
    rest = (number <= position).astype(p.dtype)
    least = np.eye(b, dtype=p.dtype) * jnp.finfo(p.dtype).tiny
    _, u = lax.scan(_step, p, (count, here[:, None], rest[:, None], least[:, None]))
    u = u[:, 0]
    place = jnp.sum(u * here, 1, keepdims=True)
    squares = jnp.sum(jnp.square(u * (rest - here)), 1, keepdims=True)
    v = u / jnp.where(place == 0, 1, place)
    total = place * place + squares
    tau = 2 * place * place / total
    # The identity; NaN if the squares of a column are too small.
    filled = jnp.sum(u != 0, 1, keepdims=True) > (place != 0)
    unit = jnp.where(filled, np.nan, 0).astype(p.dtype)
    limits = jnp.finfo(p.dtype)
    # What underflows, and what `_step` adds, must be less than the rounding of the total.
    small = (squares <= limits.tiny) | (total <= 4 * limits.tiny / limits.eps)
    return v, jnp.where(small, unit, tau)[:, 0]


def _step(p: jax.Array, at: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
    """The columns behind H = I - 2 u^T u / u u^T, and the row u [1, m], for one of them.

    Args:
        at: The number of the column, [1]; 1 at its diagonal element, and 1 from that on, [1, m];
            and the least normal number at the column's place, [1, b].
    """
    column, here, rest, least = at
    limits = jnp.finfo(p.dtype)
    x = take(p, column) * rest
    norm = jnp.sqrt(jnp.sum(x * x, 1, keepdims=True))
    # The sign of each element, also that of -0.
    signs = lax.clamp(p.dtype.type(-1), limits.max / x, p.dtype.type(1))
    u = x + norm @ (signs * here)
    # The column's own product is half of u u^T. It is not 0 where all of x is 0. Those of other
    # columns may be: an element that is 0 has to keep its sign.
    products = u @ p.T + least
    size = take(products, column, 1)
    return p - (products / size).T @ u, u

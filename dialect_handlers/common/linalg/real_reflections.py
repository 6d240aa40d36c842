"""Reflections of real vectors of moderate size, in few operations.

No square of an element overflows, or the matrix has been scaled (see `scaling.scaled`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dialect_handlers.common.linalg.blocks import Pair, take


class Found(NamedTuple):
    """A reflection H = I - u u^T / size.

    Attributes:
        u: A row [1, n] or a column [n, 1], zero before the place that stays.
        first: Its element at that place, [1, 1].
        size: [1, 1], infinite for H = I.
    """

    u: jax.Array
    first: jax.Array
    size: jax.Array

    def unit(self) -> Pair:
        """The vector with 1 at the place that stays, and the factor tau: LAPACK's larfg."""
        v = self.u / jnp.where(self.first == 0, 1, self.first)
        return v, self.first * self.first / self.size


def reflection(
    x: jax.Array, number: jax.Array, here: jax.Array, after: jax.Array, least: jax.Array
) -> Found:
    """The reflection of a row [1, n] or a column [n, 1] that makes the elements after a place 0.

    Args:
        number: The place, an integer [1].
        here: The same, bool of the shape of x.
        after: The places after it.
        least: H = I if the squares after the place sum up to this or less. It is the least normal
            number, or more: smaller sums are not accurate.
    """
    tail = jnp.where(after, x, 0)
    alpha = take(x, number, 0 if x.shape[0] != 1 else 1)
    squares = jnp.sum(tail * tail, keepdims=True)
    norm = jnp.sqrt(squares + alpha * alpha)
    # Not alpha >= 0: that holds for -0 too.
    norm = jnp.where(1 / alpha > 0, norm, -norm)
    first = alpha + norm
    size = jnp.where(squares <= least, np.inf, norm * first)
    return Found(jnp.where(here, first, tail), first, size)

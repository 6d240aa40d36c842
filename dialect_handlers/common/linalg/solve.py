"""Systems of equations with general square matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    NO_TRANSPOSE,
    magnitude,
    take,
)
from dialect_handlers.common.linalg.lu import lu
from dialect_handlers.common.linalg.lu_in_place import eliminated
from dialect_handlers.common.linalg.triangular import by_blocks, solve_triangular
from dialect_handlers.common.linalg.written_out import MOST


def suits(a_shape: tuple[object, ...], b_shape: tuple[object, ...]) -> bool:
    """Whether `solve` takes fewer operations for A [n, n] and B [n, m] than factors do."""
    if len(a_shape) != 2 or len(b_shape) != 2:
        return False
    (n, _), (_, m) = a_shape, b_shape
    if not isinstance(n, int) or not isinstance(m, int):
        return False
    return n > MOST and 1 <= m <= n


def solve(a: jax.Array, b: jax.Array) -> jax.Array:
    """A \\ B: the rows of [A | B] are eliminated together, so that B needs no factor L.

    The residual is compared with |A||X|, element by element. Where it is larger, because A is
    nearly singular or holds NaN or infinities, the factors of LAPACK solve the system.

    Args:
        a: [n, n], real.
        b: [n, m].
    """
    n = a.shape[0]
    rows = eliminated(jnp.concatenate([a, b], 1))
    x = by_blocks(jnp.triu(rows[:, :n]), rows[:, n:], lower=False, unit=False)
    limit = n * jnp.finfo(a.dtype).eps * (magnitude(a) @ magnitude(x))
    good = jnp.all(magnitude(b - a @ x) <= limit)
    return lax.cond(good, lambda: x, lambda: _by_factors(a, b))


def _by_factors(a: jax.Array, b: jax.Array) -> jax.Array:
    packed, _, order = lu(a)
    x = take(b, order)
    for lower in (True, False):
        x = solve_triangular(
            packed,
            x,
            left_side=True,
            lower=lower,
            unit_diagonal=lower,
            transpose_a=NO_TRANSPOSE,
        )
    return x

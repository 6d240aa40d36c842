"""Systems of equations with tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, first_where, magnitude


class Factors(NamedTuple):
    """What elimination with row exchanges leaves of a tridiagonal matrix and its right-hand side:
    the rows of U, which has three diagonals.

    Attributes:
        d: [..., n]
        du: [..., n]; the last is 0.
        du2: [..., n]; the last two are 0.
        b: [..., n, r]
    """

    d: jax.Array
    du: jax.Array
    du2: jax.Array
    b: jax.Array


def solve_tridiagonal(
    dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """What LAPACK's gtsv makes of its operands.

    Args:
        dl: [..., n]; left of the diagonal in each row, the first is unused.
        d: [..., n]
        du: [..., n]; right of the diagonal, the last is unused.
        b: [..., n, r]

    Returns:
        The second superdiagonal of U, its diagonal and its first superdiagonal in the places of
        dl (from its second element on), d and du; the solution; and the number, from 1, of the
        first row of U with 0 on the diagonal, or 0, i32[...].
    """
    n = d.shape[-1]
    if n == 0:
        return dl, d, du, b, jnp.zeros(d.shape[:-1], np.int32)
    factors = _eliminated(dl, d, du, b, _smaller)
    info = first_where(factors.d == 0)
    if n == 1:
        return dl, d, du, factors.b / factors.d[..., None], info
    second = jnp.concatenate([dl[..., :1], factors.du2[..., :-2], dl[..., -1:]], -1)
    first = jnp.concatenate([factors.du[..., :-1], du[..., -1:]], -1)
    x = _back_substituted(factors, lambda pivot, rest: rest / pivot[..., None])
    return second, factors.d, first, x, info


def solve_perturbed(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array) -> jax.Array:
    """`solve_tridiagonal` for matrices that may be singular, as LAPACK's lagtf and lagts do it:
    pivots so small that the solution would overflow are moved away from 0, by about the rounding
    error of U. The solution of such a system is all of one direction, the singular one."""
    n = d.shape[-1]
    if b.size == 0:
        return b
    epsilon = jnp.finfo(b.dtype).eps
    if n == 1:
        pivot, scale = _moved(d[..., 0], abs(b[..., 0, :]).max(-1), epsilon * abs(d[..., 0]))
        return b * scale[..., None, None] / pivot[..., None, None]
    factors = _eliminated(dl, d, du, b, _smaller_to_scale)
    largest = jnp.maximum(abs(d[..., 0]), abs(du[..., 0]))
    largest = jnp.maximum(largest, abs(factors.d[..., -1]))
    for diagonal in (factors.d, factors.du, factors.du2):
        largest = jnp.maximum(largest, abs(diagonal[..., :-2]).max(-1, initial=0))

    def divided(pivot: jax.Array, rest: jax.Array) -> jax.Array:
        pivot, scale = _moved(pivot, abs(rest).max(-1), epsilon * largest)
        return rest * scale[..., None] * (1 / pivot)[..., None]

    return _back_substituted(factors, divided)


# -- elimination ------------------------------------------------------------------------------

Pivoting = Callable[[jax.Array, jax.Array, jax.Array], Pair]
"""Whether to exchange rows: (upper row, lower row, scale of the upper row) -> (exchange them, scale
of the lower row). The rows hold four elements of the matrix, then the right-hand side."""


def _eliminated(
    dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array, pivoting: Pivoting
) -> Factors:
    """Each step takes the row that is left of the step before and the next one of the matrix, both
    from the same column on: [x0, x1, x2, 0 | b]."""
    n = d.shape[-1]
    i = lax.iota(np.int32, n)
    dl, du = jnp.where(i == 0, 0, dl), jnp.where(i == n - 1, 0, du)
    zero = jnp.zeros_like(d)
    rows = jnp.concatenate([jnp.stack([dl, d, du, zero], -1), b], -1)
    rows = jnp.moveaxis(rows, -2, 0)
    onwards = np.array([1, 2, 3, 3, *range(4, rows.shape[-1])])
    left = rows[0][..., onwards]

    def step(carry: Pair, below: jax.Array) -> tuple[Pair, jax.Array]:
        left, scale = carry
        exchange, scale = pivoting(left, below, scale)
        exchange = exchange[..., None]
        upper, lower = jnp.where(exchange, below, left), jnp.where(exchange, left, below)
        factor = jnp.where(lower[..., :1] == 0, 0, lower[..., :1] / upper[..., :1])
        left = (lower - factor * upper)[..., onwards]
        scale = jnp.where(exchange[..., 0], abs(left[..., 0]) + abs(left[..., 1]), scale)
        return (left, scale), upper

    scale = abs(left[..., 0]) + abs(left[..., 1])
    (last, _), upper = lax.scan(step, (left, scale), rows[1:])
    upper = jnp.moveaxis(jnp.concatenate([upper, last[None]]), 0, -2)
    return Factors(upper[..., 0], upper[..., 1], upper[..., 2], upper[..., 4:])


def _smaller(left: jax.Array, below: jax.Array, scale: jax.Array) -> Pair:
    """Partial pivoting: the larger of the two comes first."""
    return magnitude(left[..., 0]) < magnitude(below[..., 0]), scale


def _smaller_to_scale(left: jax.Array, below: jax.Array, scale: jax.Array) -> Pair:
    """The larger comes first, each in proportion to the sum of its row."""
    first = below[..., 0]
    own = abs(below[..., :3]).sum(-1)
    upper = jnp.where(left[..., 0] == 0, 0, abs(left[..., 0]) / scale)
    return (first != 0) & ~(abs(first) / own <= upper), own


# -- substitution -----------------------------------------------------------------------------


def _back_substituted(
    factors: Factors, divided: Callable[[jax.Array, jax.Array], jax.Array]
) -> jax.Array:
    """The solution of U x = b, where `divided(pivot, rest)` is b without the other terms divided
    by the element on the diagonal."""

    def step(carry: Pair, row: Factors) -> tuple[Pair, jax.Array]:
        next_, second = carry
        rest = row.b - row.du[..., None] * next_ - row.du2[..., None] * second
        x = divided(row.d, rest)
        return (x, next_), x

    d, du, du2 = (jnp.moveaxis(x, -1, 0) for x in (factors.d, factors.du, factors.du2))
    rows = Factors(d, du, du2, jnp.moveaxis(factors.b, -2, 0))
    zero = jnp.zeros_like(rows.b[0])
    _, x = lax.scan(step, (zero, zero), rows, reverse=True)
    return jnp.moveaxis(x, 0, -2)


def _moved(pivot: jax.Array, largest: jax.Array, by: jax.Array) -> Pair:
    """A pivot, moved from 0 until no element up to `largest` overflows when divided by it; or it
    and the row are both scaled up, where that suffices.

    Returns:
        The pivot, and what to scale the row with.
    """
    tiny = jnp.finfo(pivot.dtype).tiny
    by = jnp.maximum(by, tiny)
    by = jnp.where(1 / pivot.real < 0, -by, by)

    def going(carry: tuple[jax.Array, ...]) -> jax.Array:
        return carry[-1].any()

    def step(carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        pivot, scale, by, active = carry
        size = abs(pivot)
        below = size < tiny
        small = jnp.where(below, (size == 0) | (largest * tiny > size), largest > size * (1 / tiny))
        move, lift = active & small, active & below & ~small
        pivot = jnp.where(move, pivot + by, jnp.where(lift, pivot * (1 / tiny), pivot))
        scale = jnp.where(lift, 1 / tiny, scale)
        return pivot, scale, jnp.where(move, 2 * by, by), move & (abs(pivot) < 1)

    start = (pivot, jnp.ones_like(by), by, abs(pivot) < 1)
    pivot, scale, _, _ = lax.while_loop(going, step, start)
    return pivot, scale

"""Systems of equations with triangular and tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import written_out
from dialect_handlers.common.linalg.blocks import (
    ADJOINT,
    IN_BOUNDS,
    NO_TRANSPOSE,
    Pair,
    adjoint,
    block_size,
    counted,
    eye,
    first_where,
    is_symbolic,
    last_index,
    magnitude,
    padded,
    refined_product,
    stretch,
    triangle_inverse,
    trips,
)


def solve_triangular(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> jax.Array:
    """X with op(A) X = B, or X op(A) = B if A is on the right side.

    Args:
        a: [..., n, n]; only its lower or upper triangle is read, without the diagonal if it counts
            as ones.
        b: [..., n, m], or [..., m, n] for the other side.
        transpose_a: What op does: NO_TRANSPOSE, TRANSPOSE or ADJOINT.
    """
    if b.size == 0:
        return b
    if written_out.is_small(a):
        return written_out.solve(
            a, b, left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, op=transpose_a
        )
    if transpose_a != NO_TRANSPOSE:
        a = adjoint(a) if transpose_a == ADJOINT else jnp.swapaxes(a, -1, -2)
        lower = not lower
    if left_side:
        return _solve(_triangle(a, lower, unit_diagonal), b, lower, unit_diagonal)
    a, b, lower = jnp.swapaxes(a, -1, -2), jnp.swapaxes(b, -1, -2), not lower
    x = _solve(_triangle(a, lower, unit_diagonal), b, lower, unit_diagonal)
    return jnp.swapaxes(x, -1, -2)


def _triangle(a: jax.Array, lower: bool, unit_diagonal: bool) -> jax.Array:
    if not unit_diagonal:
        return jnp.tril(a) if lower else jnp.triu(a)
    i = counted(a.shape[-1])
    read = i[:, None] > i if lower else i[:, None] < i
    return jnp.where(read, a, eye(a.shape[-1]).astype(a.dtype))


def _solve(t: jax.Array, b: jax.Array, lower: bool, unit: bool) -> jax.Array:
    """T \\ B in few steps of many equations each. Where that is less accurate, because T is nearly
    singular or holds NaN or infinities, each step solves one equation.

    Substitution guarantees a residual that is small compared to |T||X|, element by element. The
    residual of the few steps is compared with that bound.
    """
    if is_symbolic(t.shape[-1]):
        return _by_substitution(t, b, lower)
    if t.shape[-1] == 1:
        return b / t
    x = by_blocks(t, b, lower=lower, unit=unit)
    residual = magnitude(b - t @ x)
    epsilon = jnp.finfo(t.dtype).eps
    good = jnp.all(residual <= t.shape[-1] * epsilon * (magnitude(t) @ magnitude(x)))
    return lax.cond(good, lambda: x, lambda: _by_substitution(t, b, lower))


def by_blocks(t: jax.Array, b: jax.Array, *, lower: bool, unit: bool) -> jax.Array:
    """T \\ B in few steps, accurate unless T is nearly singular; T has zeros in its other triangle.

    Args:
        unit: Whether the diagonal holds ones.
    """
    n = t.shape[-1]
    size = block_size(n)
    if size == n:
        return refined_product(triangle_inverse(t, unit=unit), t, b)
    count = -(-n // size)
    t = padded(t, count * size, count * size)
    b = padded(b, count * size, b.shape[-1])

    def step(carry: Pair, _: object) -> tuple[Pair, None]:
        x, first = carry
        rows = _rows(t, first, size)
        head = stretch(rows, first, size, -1)
        rest = _rows(b, first, size) - rows @ x
        block = refined_product(triangle_inverse(head, unit=unit), head, rest)
        return (_with_rows(x, block, first), first + (size if lower else -size)), None

    start = np.int64(0 if lower else (count - 1) * size)
    (x, _), _ = lax.scan(step, (jnp.zeros_like(b), start), length=count)
    return x[..., :n, :]


def _by_substitution(t: jax.Array, b: jax.Array, lower: bool) -> jax.Array:
    n = t.shape[-1]
    others = jnp.where(eye(n), 0, t)

    def step(carry: Pair, _: object) -> tuple[Pair, None]:
        x, k = carry
        divisor = stretch(_rows(t, k, 1), k, 1, -1)
        row = (_rows(b, k, 1) - _rows(others, k, 1) @ x) / divisor
        return (_with_rows(x, row, k), k + (1 if lower else -1)), None

    start = np.int64(0) if lower else last_index(n)
    (x, _), _ = lax.scan(step, (jnp.zeros_like(b), start), **trips(n))
    return x


def _rows(x: jax.Array, first: jax.Array, count: int) -> jax.Array:
    return stretch(x, first, count, -2)


def _with_rows(x: jax.Array, rows: jax.Array, first: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(x, rows, first, axis=x.ndim - 2, **IN_BOUNDS)


# -- tridiagonal matrices -----------------------------------------------------------------------


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

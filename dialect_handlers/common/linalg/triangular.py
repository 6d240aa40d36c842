"""Systems of equations with triangular matrices."""

from __future__ import annotations

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

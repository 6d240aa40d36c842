"""The reductions of `condensed_forms` for real matrices of moderate size, in fewer operations.

No square of an element overflows, or the matrix has been scaled (see `scaling.scaled`). Elements
far below the matrix' rounding error count as 0, so the signs may differ from LAPACK's.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import take
from dialect_handlers.common.linalg.condensed_forms import Reflections

NEGLIGIBLE = 1e-3
"""In units of the rounding error of the largest element."""


class _Found(NamedTuple):
    """A reflection H = I - u u^T / size.

    Attributes:
        u: A row [1, n] or a column [n, 1], zero before the place that stays.
        first: Its element at that place, [1, 1].
        size: [1, 1], infinite for H = I.
    """

    u: jax.Array
    first: jax.Array
    size: jax.Array


class _Places(NamedTuple):
    """Each trip's place that stays, the places after it, and its number.

    Attributes:
        here, after: bool, of the shape of u.
        number: i64[1].
    """

    here: np.ndarray
    after: np.ndarray
    number: np.ndarray


def _places(count: int, n: int, shift: int) -> _Places:
    k, i = np.arange(count)[:, None] + shift, np.arange(n)
    return _Places((i == k)[:, None], (i > k)[:, None], k)


def tridiagonalize(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections]:
    """`condensed_forms.tridiagonalize` of a [n, n], n >= 2."""
    n = a.shape[0]
    least = _least(a)

    def step(a: jax.Array, at: _Places) -> tuple[jax.Array, _Found]:
        found = _reflection(take(a, at.number - 1), at, least, axis=1)
        u, _, size = found
        w = u @ a / size
        w = w - (0.5 * (w @ u.T) / size) @ u
        pair, mirrored = jnp.concatenate([u, w]), jnp.concatenate([w, u])
        return a - pair.T @ mirrored, found

    a, found = lax.scan(step, a, _places(n - 1, n, 1))
    return jnp.diagonal(a), jnp.diagonal(a, -1), _reflections(found)


def bidiagonalize(
    a: jax.Array,
) -> tuple[jax.Array, jax.Array, Reflections, Reflections]:
    """`condensed_forms.bidiagonalize` of a [m, n], m >= n >= 1."""
    m, n = a.shape
    least = _least(a)
    # A column of zeros, so that the last row has a reflection too.
    a = jnp.pad(a, [(0, 0), (0, 1)])
    columns, rows = _places(n, m, 0), _places(n, n + 1, 1)
    columns = _Places(*(x.swapaxes(1, 2) for x in columns[:2]), columns.number)

    def step(a: jax.Array, at: tuple[_Places, _Places]) -> tuple[jax.Array, tuple[_Found, _Found]]:
        place, next_place = at
        left = _reflection(take(a, place.number, 1), place, least, axis=0)
        from_left = left.u.T @ a / left.size
        row = take(a, place.number) - left.first @ from_left
        right = _reflection(row, next_place, least, axis=1)
        from_right = (a @ right.u.T - left.u @ (from_left @ right.u.T)) / right.size
        tall, wide = (
            jnp.concatenate([left.u, from_right], 1),
            jnp.concatenate([from_left, right.u]),
        )
        return a - tall @ wide, (left, right)

    a, (left, right) = lax.scan(step, a, (columns, rows))
    left = left._replace(u=left.u.swapaxes(1, 2))
    right = right._replace(u=right.u[..., :n])
    return (
        jnp.diagonal(a[:, :n]),
        jnp.diagonal(a[:, :n], 1),
        _reflections(left),
        _reflections(right),
    )


def _least(a: jax.Array) -> jax.Array:
    """What the squares of elements have to sum up to, to count."""
    limits = jnp.finfo(a.dtype)
    return jnp.maximum(jnp.square(NEGLIGIBLE * limits.eps * jnp.max(abs(a))), limits.tiny)


def _reflection(x: jax.Array, at: _Places, least: jax.Array, axis: int) -> _Found:
    """The reflection of a row or column that makes the elements after a place 0."""
    tail = jnp.where(at.after, x, 0)
    alpha = take(x, at.number, axis)
    squares = jnp.sum(tail * tail, keepdims=True)
    norm = jnp.sqrt(squares + alpha * alpha)
    norm = jnp.where(alpha < 0, -norm, norm)
    first = alpha + norm
    size = jnp.where(squares <= least, np.inf, norm * first)
    return _Found(jnp.where(at.here, first, tail), first, size)


def _reflections(found: _Found) -> Reflections:
    """The reflections of all trips with 1 at the places that stay."""
    first, size = found.first[:, 0], found.size[:, 0]
    v = found.u[:, 0] / jnp.where(first == 0, 1, first)
    return Reflections(v, (first * first / size)[:, 0])

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
from dialect_handlers.common.linalg.real_reflections import Found, reflection

NEGLIGIBLE = 1e-3
"""In units of the rounding error of the largest element."""


class _Places(NamedTuple):
    """Each trip's place that stays, by number and as a mask, and the places after it.

    Attributes:
        number: i64[1].
        here, after: bool, of the shape of u.
    """

    number: np.ndarray
    here: np.ndarray
    after: np.ndarray


def _places(count: int, n: int, shift: int) -> _Places:
    k, i = np.arange(count)[:, None] + shift, np.arange(n)
    return _Places(k, (i == k)[:, None], (i > k)[:, None])


def tridiagonalize(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections]:
    """`condensed_forms.tridiagonalize` of a [n, n], n >= 2."""
    n = a.shape[0]
    least = _least(a)

    def step(a: jax.Array, at: _Places) -> tuple[jax.Array, Found]:
        found = reflection(take(a, at.number - 1), *at, least)
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
    columns = _Places(columns.number, *(x.swapaxes(1, 2) for x in columns[1:]))

    def step(a: jax.Array, at: tuple[_Places, _Places]) -> tuple[jax.Array, tuple[Found, Found]]:
        place, next_place = at
        left = reflection(take(a, place.number, 1), *place, least)
        from_left = left.u.T @ a / left.size
        row = take(a, place.number) - left.first @ from_left
        right = reflection(row, *next_place, least)
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


def _reflections(found: Found) -> Reflections:
    """The reflections of all trips."""
    v, tau = found._replace(u=found.u[:, 0], first=found.first[:, 0], size=found.size[:, 0]).unit()
    return Reflections(v, tau[:, 0])

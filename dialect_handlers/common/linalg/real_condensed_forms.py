"""The reductions of `condensed_forms` for real matrices of moderate size, in fewer operations.

No square of an element overflows, or the matrix has been scaled (see `scaling.scaled`). Elements
far below the matrix' rounding error count as 0, so the signs may differ from LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence
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


LEAST_PART = 48
"""Columns. Before so many are reduced, a smaller matrix does not save the time to cut it out."""
MOST_PARTS = 4


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


def _parts(count: int) -> list[int]:
    """How many columns are reduced before each time that the finished ones are cut off."""
    parts = max(1, min(MOST_PARTS, count // LEAST_PART))
    size = -(-count // parts)
    return [size] * (parts - 1) + [count - (parts - 1) * size]


def tridiagonalize(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections]:
    """`condensed_forms.tridiagonalize` of a [n, n], n >= 2."""
    n, least = a.shape[0], _least(a)

    def step(a: jax.Array, at: tuple[np.ndarray, _Places]) -> tuple[jax.Array, Found]:
        row, place = at
        found = reflection(take(a, row), *place, least)
        u, _, size = found
        w = u @ a / size
        w = w - (0.5 * (w @ u.T) / size) @ u
        pair, mirrored = jnp.concatenate([u, w]), jnp.concatenate([w, u])
        return a - pair.T @ mirrored, found

    done: list[tuple[jax.Array, jax.Array, Reflections]] = []
    for count in _parts(n - 1):
        rows = np.arange(count)[:, None]
        a, found = lax.scan(step, a, (rows, _places(count, a.shape[0], 1)))
        own = _reflections(found, n)
        done.append((jnp.diagonal(a)[:count], jnp.diagonal(a, -1)[:count], own))
        a = a[count:, count:]
    d, e, q = zip(*done, strict=True)
    return jnp.concatenate([*d, a[0]]), jnp.concatenate(e), _joined(q)


def bidiagonalize(
    a: jax.Array,
) -> tuple[jax.Array, jax.Array, Reflections, Reflections]:
    """`condensed_forms.bidiagonalize` of a [m, n], m >= n >= 1."""
    (m, n), least = a.shape, _least(a)
    # A column of zeros, so that the last row has a reflection too.
    a = jnp.pad(a, [(0, 0), (0, 1)])

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

    done: list[tuple[jax.Array, jax.Array, Reflections, Reflections]] = []
    for count in _parts(n):
        columns, rows = (_places(count, a.shape[axis], axis) for axis in (0, 1))
        columns = _Places(columns.number, *(x.swapaxes(1, 2) for x in columns[1:]))
        a, (left, right) = lax.scan(step, a, (columns, rows))
        own = _reflections(left._replace(u=left.u.swapaxes(1, 2)), m)
        other = _reflections(right, n + 1)
        done.append((jnp.diagonal(a)[:count], jnp.diagonal(a, 1)[:count], own, other))
        a = a[count:, count:]
    d, e, q, p = zip(*done, strict=True)
    right_ones = _joined(p)
    return (
        jnp.concatenate(d),
        jnp.concatenate(e)[: n - 1],
        _joined(q),
        right_ones._replace(v=right_ones.v[:, :n]),
    )


def _least(a: jax.Array) -> jax.Array:
    """What the squares of elements have to sum up to, to count."""
    limits = jnp.finfo(a.dtype)
    return jnp.maximum(jnp.square(NEGLIGIBLE * limits.eps * jnp.max(abs(a))), limits.tiny)


def _reflections(found: Found, n: int) -> Reflections:
    """The reflections of all trips, with vectors of n elements: zeros come before theirs."""
    v, tau = found._replace(u=found.u[:, 0], first=found.first[:, 0], size=found.size[:, 0]).unit()
    return Reflections(jnp.pad(v, [(0, 0), (n - v.shape[1], 0)]), tau[:, 0])


def _joined(parts: Sequence[Reflections]) -> Reflections:
    return Reflections(*(jnp.concatenate(arrays) for arrays in zip(*parts, strict=True)))

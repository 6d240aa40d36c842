"""Singular values and vectors of bidiagonal matrices by divide and conquer."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, Triple, take
from dialect_handlers.common.linalg.secular_equation import find_roots, find_vectors


class _Merges(NamedTuple):
    """One level of the tree, as numbers for every column of V: n + 1 of them, from 0.

    Row r (counted from 1) merges the two blocks of rows around it. The level of the merge is the
    number of times that 2 divides r. B has row r in the columns r and r + 1. Each block of k rows
    covers k + 1 columns. Its k singular values are at the numbers of its rows. The vector that the
    block maps to 0 is at the number of its last column. When blocks merge, the row between them
    adds a singular value, and one of the two null vectors remains.

    Attributes:
        block: Equal for the columns of one merge, ascending; different for all other columns.
        merged: Whether a singular value of a merged block, old or new, belongs here.
        middle: Whether it is the new one.
        first, second: For the new value and for the null vector that remains, the columns of the
            null vectors of the two blocks; otherwise the column itself.
        turn: 1 for the new value, -1 for the null vector that remains, else 0.
        factor: The element of B that multiplies the column's vector, as an index into [d, e, 0].
        row: The element of the vector that it multiplies.
    """

    block: np.ndarray
    merged: np.ndarray
    middle: np.ndarray
    first: np.ndarray
    second: np.ndarray
    turn: np.ndarray
    factor: np.ndarray
    row: np.ndarray


def _tree(n: int) -> _Merges:
    """The merges [levels, n + 1] of n rows."""
    levels = [_level(n, 1 << level) for level in range(n.bit_length())]
    return _Merges(*(np.stack(column) for column in zip(*levels, strict=True)))


def _level(n: int, half: int) -> _Merges:
    place = np.arange(1, n + 2, dtype=np.int32)
    middle_row = place // (2 * half) * (2 * half) + half
    merged = (place % (2 * half) != 0) & (place <= n) & (middle_row <= n)
    middle = merged & (place == middle_row)
    # The null vector of a merged block follows its last row.
    owner = (place - 1) // (2 * half) * (2 * half) + half
    null = (owner <= n) & (place == np.minimum(owner + half, n + 1))
    row = np.where(null, owner, middle_row)
    right = null | (merged & (place > middle_row))
    turned = middle | null
    return _Merges(
        block=np.where(merged, middle_row - half + 1, place),
        merged=merged,
        middle=middle,
        first=np.where(turned, row, place) - 1,
        second=np.where(turned, np.minimum(row + half, n + 1), place) - 1,
        turn=np.where(middle, 1, np.where(null, -1, 0)),
        factor=np.where(merged | null, row - 1 + n * right, 2 * n),
        row=np.where(merged | null, row - 1 + right, 0),
    )


def bidiagonal_svd(d: jax.Array, e: jax.Array, *, left: bool) -> Pair:
    """The singular vectors of B, as the rows of U^T and V^T [n, n], in no particular order.

    Args:
        d: The diagonal of B [n], n >= 1, real.
        e: The superdiagonal [n - 1].
        left: Whether U is wanted; without it U^T is [n, 0].
    """
    n = d.shape[0]
    # No norm of B is greater than the largest sum in a row or column.
    above = jnp.pad(abs(e), 1)
    bound = jnp.max(abs(d) + jnp.maximum(above[1:], above[:-1]))
    # B gets a column of zeros, so that every row has two elements.
    elements = jnp.concatenate([d, e, jnp.zeros(2, d.dtype)]) / jnp.where(bound > 0, bound, 1)

    def level(carry: Triple, merges: _Merges) -> tuple[Triple, None]:
        return _merged(*carry, elements, merges), None

    unit = jnp.eye(n + 1, dtype=d.dtype)
    start = (unit[:, : n if left else 0], jnp.zeros(n + 1, d.dtype), unit)
    (u, _, v), _ = lax.scan(level, start, _tree(n))
    return u[:n], v[:n, :n]


def _merged(
    left: jax.Array, values: jax.Array, right: jax.Array, elements: jax.Array, at: _Merges
) -> Triple:
    """The singular values and vectors (as rows) of all blocks of the next level."""
    epsilon = jnp.finfo(values.dtype).eps
    n = values.shape[0]
    along = jnp.take_along_axis(right, at.row[:, None], 1, mode="promise_in_bounds")[:, 0]
    z = take(elements, at.factor) * along
    # The two null vectors are turned so that one of them meets nothing.
    first, second = take(z, at.first), take(z, at.second)
    length = jnp.sqrt(first * first + second * second)
    turns = (at.turn != 0) & (length > 0)
    cosine = jnp.where(turns, first / jnp.where(turns, length, 1), 1)
    sine = jnp.where(turns, second / jnp.where(turns, length, 1), 0) * at.turn
    other = jnp.where(at.turn > 0, at.second, at.first)
    right = cosine[:, None] * right + sine[:, None] * take(right, other)
    # An element that meets next to nothing is a singular value already.
    smallest = 8 * epsilon
    z = jnp.where(at.middle, jnp.maximum(length, smallest), z)
    active = at.merged & (at.middle | (abs(z) > smallest))
    group = 2 * at.block + (at.merged & ~active)
    keys = (group, jnp.where(at.middle, -1, values))
    order = lax.sort((*keys, lax.iota(np.int32, n)), num_keys=2)[2]
    values, z, active, group, middle = (
        take(x, order) for x in (values, z, active, group, at.middle)
    )
    together = (group[:, None] == group) & active[:, None] & active
    poles = _apart(jnp.where(middle, 0, values), together)
    roots = find_roots(poles, z, together)
    from_left, from_right = find_vectors(roots, poles, z, together, middle)
    values = jnp.where(active, roots.values, values)
    return from_left @ take(left, order), values, from_right @ take(right, order)


def _apart(values: jax.Array, together: jax.Array) -> jax.Array:
    """Ascending values of a group, increased until they differ by more than rounding."""
    i = lax.iota(np.int32, values.shape[0])
    steps = (i[:, None] - i).astype(values.dtype) * jnp.finfo(values.dtype).eps
    pushed = jnp.where(together & (steps >= 0), values + steps, 0)
    return jnp.max(pushed, 1)

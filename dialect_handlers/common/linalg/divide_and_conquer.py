"""Singular values and vectors of bidiagonal matrices by divide and conquer.

B has one more column than rows. Each row meets two columns, so the rows around row r are two
independent blocks. A block of k rows covers k + 1 columns: it has k singular values, and one vector
that it maps to 0. Two blocks and the row between them make a larger block. The row adds a singular
value, and one of the two null vectors remains.

The tree of these merges begins with single rows. Its levels are the steps of one loop.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, inverse, take
from dialect_handlers.common.linalg.secular_equation import Groups, find_roots, find_vectors


class _Merges(NamedTuple):
    """One level of the tree, as numbers for every column of a block: n + 1 of them, from 0.

    Row r (counted from 1) merges the two blocks of rows around it. The k singular values of a block
    are at the numbers of its rows. Its null vector is at the number of its last column.

    Attributes:
        block: Equal for the columns of one merge, ascending; different for all other columns.
        merged: Whether a singular value of a merged block, old or new, belongs here.
        middle: Whether it is the new one.
        other: For the new value and for the null vector that remains, the place of each other;
            otherwise the column itself.
        turn: 1 for the new value, -1 for the null vector that remains, else 0.
        factor: The element of B that multiplies the column's vector, as an index into [d, e, 0].
        row: The element of the vector that it multiplies.
    """

    block: np.ndarray
    merged: np.ndarray
    middle: np.ndarray
    other: np.ndarray
    turn: np.ndarray
    factor: np.ndarray
    row: np.ndarray


def _tree(n: int) -> _Merges:
    """The merges [levels, n + 1] of n rows."""
    levels = [_level(n, 1 << level) for level in range(n.bit_length())]
    return _Merges(*(np.stack(column) for column in zip(*levels, strict=True)))


def _level(n: int, half: int) -> _Merges:
    """The merges of blocks of so many columns."""
    place = np.arange(1, n + 2, dtype=np.int32)
    middle_row = place // (2 * half) * (2 * half) + half
    merged = (place % (2 * half) != 0) & (place <= n) & (middle_row <= n)
    middle = merged & (place == middle_row)
    # The null vector of a merged block follows its last row.
    owner = (place - 1) // (2 * half) * (2 * half) + half
    null = (owner <= n) & (place == np.minimum(owner + half, n + 1))
    row = np.where(null, owner, middle_row)
    right = null | (merged & (place > middle_row))
    other = np.where(middle, np.minimum(row + half, n + 1), np.where(null, row, place))
    return _Merges(
        block=np.where(merged, middle_row - half + 1, place),
        merged=merged,
        middle=middle,
        other=other - 1,
        turn=np.where(middle, 1, np.where(null, -1, 0)),
        factor=np.where(merged | null, row - 1 + n * right, 2 * n),
        row=np.where(merged | null, row - 1 + right, 0),
    )


class _Blocks(NamedTuple):
    """The vectors of all blocks, c columns.

    Attributes:
        left: The columns are the left vectors [c, c]. The last row and column are those of the unit
            matrix. None if not wanted.
        values: The singular values, and 0 for the null vectors [c].
        right: The columns are the right vectors [c, c].
    """

    left: jax.Array | None
    values: jax.Array
    right: jax.Array


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
    bound = jnp.where(bound > 0, bound, 1)
    tree = _tree(n)
    # B gets a column of zeros, so that every row has two elements.
    elements = jnp.concatenate([d / bound, jnp.pad(e / bound, (0, 2))])

    def level(blocks: _Blocks, at: tuple[_Merges, jax.Array]) -> tuple[_Blocks, None]:
        merges, factors = at
        met = jnp.take_along_axis(blocks.right, merges.row[None], 0, mode="promise_in_bounds")[0]
        return _merged(blocks, factors * met, merges), None

    unit = jnp.eye(n + 1, dtype=d.dtype)
    start = _Blocks(unit if left else None, jnp.zeros(n + 1, d.dtype), unit)
    blocks: _Blocks = lax.scan(level, start, (tree, take(elements, tree.factor)))[0]
    u = jnp.zeros((n, 0), d.dtype) if blocks.left is None else blocks.left[:n, :n].T
    return u, blocks.right[:n, :n].T


class _Turns(NamedTuple):
    """Rotations of pairs of null vectors, so that one of each meets nothing; [c] each."""

    cosine: jax.Array
    sine: jax.Array

    def of_rows(self, x: jax.Array, at: _Merges) -> jax.Array:
        """The rows of x [c, c] as factors of the vectors before the rotations."""
        return self.cosine[:, None] * x - self.sine[:, None] * take(x, at.other)


def _turned(z: jax.Array, at: _Merges) -> tuple[jax.Array, _Turns]:
    """What the row between two blocks has for each vector after the rotations; and these."""
    others = take(z, at.other)
    length = jnp.sqrt(z * z + others * others)
    # Squares below the normal numbers have few digits, or none: such pairs meet next to nothing.
    limits = jnp.finfo(z.dtype)
    turns = (at.turn != 0) & (length > float(np.sqrt(limits.tiny / limits.eps)))
    divisor = jnp.where(turns, length, 1)
    cosine = jnp.where(turns, jnp.where(at.turn < 0, others, z) / divisor, 1)
    sine = jnp.where(turns, jnp.where(at.turn < 0, z, others) / divisor, 0) * at.turn
    return jnp.where(at.middle, length, z), _Turns(cosine, sine)


def _merged(blocks: _Blocks, z: jax.Array, at: _Merges) -> _Blocks:
    """The blocks of the next level.

    Args:
        z: What the row between two blocks has for each of their right vectors [c].
    """
    values = blocks.values
    z, turns = _turned(z, at)
    # An element that meets next to nothing is a singular value already.
    smallest = 8 * jnp.finfo(z.dtype).eps
    z = jnp.where(at.middle, jnp.maximum(z, smallest), z)
    active = at.merged & (at.middle | (abs(z) > smallest))
    group = 2 * at.block + (at.merged & ~active)
    position = lax.iota(np.int32, z.shape[0])
    order = lax.sort((group, jnp.where(at.middle, -1, values), position), num_keys=2)[2]
    values, z, active, group, poles = (
        take(x, order) for x in (values, z, active, group, jnp.where(at.middle, 0, values))
    )
    groups = Groups.of(jnp.where(active, group, -1), z.dtype)
    roots = find_roots(poles, z, groups)
    from_left, from_right = find_vectors(roots, z, groups, left=blocks.left is not None)
    back = inverse(order)
    left = None
    if blocks.left is not None and from_left is not None:
        left = blocks.left @ take(from_left, back)
    right = blocks.right @ turns.of_rows(take(from_right, back), at)
    return _Blocks(left, jnp.where(active, roots.values[0], values), right)

"""Singular values and vectors of bidiagonal matrices by divide and conquer.

B has one more column than rows. Each row meets two columns, so the rows around row r are two
independent blocks. A block of k rows covers k + 1 columns: it has k singular values, and one vector
that it maps to 0. Two blocks and the row between them make a larger block. The row adds a singular
value, and one of the two null vectors remains.

The tree of these merges begins with single rows. Leaves are equal parts of the matrix: all their
merges are steps of one loop. Each of the few merges after that halves the number of blocks, so its
arrays have their own shapes. Matrices of the blocks that stand side by side are a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair, inverse, take
from dialect_handlers.common.linalg.secular_equation import Groups, find_roots, find_vectors

MOST_HALVINGS = 3
LEAST_LEAF = 33
"""Columns. Smaller leaves do not save the time that another merge takes."""


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
    """The merges of blocks of this many columns."""
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
    """Blocks of c columns that stand side by side.

    Attributes:
        left: The columns are the left vectors [g, c, c]. The last row and column are those of the
            unit matrix, for the row of B that follows the block. None if not wanted.
        values: The singular values, and 0 for the null vector [g, c].
        right: The columns are the right vectors [g, c, c].
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
    # B gets a column of zeros, so that every row has two elements; and rows and columns of zeros
    # that make the leaves equal.
    halvings = max(0, min(MOST_HALVINGS, ((n + 1) // LEAST_LEAF).bit_length() - 1))
    columns = -(-(n + 1) // (1 << halvings))
    total = columns << halvings
    d, e = (jnp.pad(x, (0, total - x.shape[0])).reshape(-1, columns) for x in (d, e))
    blocks = _leaves(d / bound, e / bound, left)
    for _ in range(halvings):
        d, e = d.reshape(-1, 2, d.shape[1]), e.reshape(-1, 2, e.shape[1])
        blocks = _joined(blocks, d[:, 0, -1:] / bound, e[:, 0, -1:] / bound)
        d, e = d.reshape(len(d), -1), e.reshape(len(e), -1)
    return _without_zeros(blocks, n)


def _without_zeros(blocks: _Blocks, n: int) -> Pair:
    """The rows of U^T and V^T for the first n rows and columns of B."""
    right = blocks.right[0].T
    u = None if blocks.left is None else blocks.left[0].T
    if right.shape[0] == n + 1:
        u, v = None if u is None else u[:n, :n], right[:n, :n]
    else:
        # The zeros behind B meet no other element: exactly n vectors are 0 there.
        beyond = jnp.max(abs(right[:, n:]), 1) > 0
        own = jnp.argsort(beyond)[:n]
        u, v = None if u is None else take(u, own)[:, :n], take(right, own)[:, :n]
    return (jnp.zeros((n, 0), v.dtype) if u is None else u), v


def _leaves(d: jax.Array, e: jax.Array, left: bool) -> _Blocks:
    """The blocks of single leaves, from the elements [g, c] of B in each."""
    count, columns = d.shape
    tree = _tree(columns - 1)
    elements = jnp.concatenate([d[:, :-1], e[:, :-1], jnp.zeros((count, 1), d.dtype)], 1)
    factors = jnp.moveaxis(take(elements, tree.factor, 1), 0, 1)

    def level(blocks: _Blocks, at: tuple[_Merges, jax.Array]) -> tuple[_Blocks, None]:
        merges, factors = at
        rows = jnp.broadcast_to(merges.row, (count, 1, columns))
        met = jnp.take_along_axis(blocks.right, rows, 1, mode="promise_in_bounds")[:, 0]
        return _merged(blocks, factors * met, merges, 1), None

    unit = jnp.broadcast_to(np.eye(columns, dtype=d.dtype), (count, columns, columns))
    start = _Blocks(unit if left else None, jnp.zeros((count, columns), d.dtype), unit)
    found: _Blocks = lax.scan(level, start, (tree, factors))[0]
    return found


def _joined(blocks: _Blocks, d: jax.Array, e: jax.Array) -> _Blocks:
    """Each two blocks as one.

    Args:
        d, e: The elements of the row between them [g, 1].
    """
    count, half = d.shape[0], blocks.right.shape[-1]
    pairs = blocks.right.reshape(count, 2, half, half)
    z = jnp.concatenate([d * pairs[:, 0, -1], e * pairs[:, 1, 0]], 1)
    return _merged(blocks, z, _level(2 * half - 1, half), 2)


class _Turns(NamedTuple):
    """Rotations of pairs of null vectors, so that one of each meets nothing; [g, c] each."""

    cosine: jax.Array
    sine: jax.Array

    def of_rows(self, x: jax.Array, at: _Merges) -> jax.Array:
        """The rows of x [g, c, c] as factors of the vectors before the rotations."""
        return self.cosine[..., None] * x - self.sine[..., None] * take(x, at.other, 1)


def _turned(z: jax.Array, at: _Merges) -> tuple[jax.Array, _Turns]:
    """What the row between two blocks has for each vector after the rotations; and these."""
    others = take(z, at.other, 1)
    length = jnp.sqrt(z * z + others * others)
    # Squares below the normal numbers have few digits, or none: such pairs meet next to nothing.
    limits = jnp.finfo(z.dtype)
    turns = (at.turn != 0) & (length > float(np.sqrt(limits.tiny / limits.eps)))
    divisor = jnp.where(turns, length, 1)
    cosine = jnp.where(turns, jnp.where(at.turn < 0, others, z) / divisor, 1)
    sine = jnp.where(turns, jnp.where(at.turn < 0, z, others) / divisor, 0) * at.turn
    return jnp.where(at.middle, length, z), _Turns(cosine, sine)


def _merged(blocks: _Blocks, z: jax.Array, at: _Merges, parts: int) -> _Blocks:
    """The blocks of the next level.

    Args:
        z: What the row between two blocks has for each of their right vectors [g, c].
        parts: How many blocks a block of the next level consists of, if they are a batch. It is
            then one merge; else there may be several in a block.
    """
    count, columns = z.shape
    values = blocks.values.reshape(z.shape)
    z, turns = _turned(z, at)
    # An element that meets next to nothing is a singular value already.
    smallest = 8 * jnp.finfo(z.dtype).eps
    z = jnp.where(at.middle, jnp.maximum(z, smallest), z)
    active = at.merged & (at.middle | (abs(z) > smallest))
    group = 2 * at.block + (at.merged & ~active)
    position = lax.broadcasted_iota(np.int32, z.shape, 1)
    order = lax.sort((group, jnp.where(at.middle, -1, values), position), num_keys=2)[2]
    values, z, active, group, poles = (
        jnp.take_along_axis(x, order, 1, mode="promise_in_bounds")
        for x in (values, z, active, group, jnp.where(at.middle, 0, values))
    )
    of_one = parts > 1
    groups = Groups.of_one(active) if of_one else Groups.of(jnp.where(active, group, -1), z.dtype)
    roots = find_roots(poles, z, groups)
    from_left, from_right = find_vectors(roots, z, groups, left=blocks.left is not None)
    back = inverse((order + columns * np.arange(count, dtype=np.int32)[:, None]).reshape(-1))

    def unsorted(x: jax.Array) -> jax.Array:
        return take(x.reshape(-1, columns), back).reshape(x.shape)

    def times(x: jax.Array, y: jax.Array) -> jax.Array:
        product = x.reshape(count, parts, *x.shape[1:]) @ y.reshape(count, parts, -1, columns)
        return product.reshape(y.shape)

    left = None
    if blocks.left is not None and from_left is not None:
        left = times(blocks.left, unsorted(from_left))
    right = times(blocks.right, turns.of_rows(unsorted(from_right), at))
    return _Blocks(left, jnp.where(active, roots.values[:, 0], values), right)

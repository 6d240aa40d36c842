"""Eigenvalues and singular values of real matrices by Jacobi's rotations of all pairs of rows at
once.

A rotation of two rows by a small angle is about I + K, with an antisymmetric K that has two
elements. Here K has the angles of all pairs, and an orthogonal matrix close to exp(K) takes the
place of a whole sweep of rotations. Elements beside the diagonal that are large limit all angles;
when they are small, the angles are those of Jacobi. The convergence is then quadratic: ten steps
are usual. Nothing proves that the steps suffice for every matrix, so the results say whether they
did.

Vectors are the rows of X / sqrt(2): then no product needs a factor.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair

MOST_OF_EIGENVALUES = 64
"""Rows and columns. A step needs few operations, but about ten products of matrices."""
MOST_OF_SINGULAR_VALUES = {"float32": 64, "float64": 32}
"""The same; a step needs twice the products."""
MOST_STEPS = 50
"""The number that hard matrices need. Random ones need 6 to 25."""

_CORRECTIONS = {4: 3, 8: 4}
"""Steps that make X orthogonal again, by bytes of a number. Each squares the error. Values that are
close to each other, but not equal, need an error as small as their distance."""


class Eigen(NamedTuple):
    """A = X^T diag(w) X.

    Attributes:
        rows: The eigenvectors, the rows of X [..., n, n].
        values: w [..., n].
        diagonal: bool[...], whether A was diagonal already. X is then the unit matrix.
        good: bool[], whether the results of all matrices are accurate.
    """

    rows: jax.Array
    values: jax.Array
    diagonal: jax.Array
    good: jax.Array


class Singular(NamedTuple):
    """A = U^T diag(s) V.

    Attributes:
        left: The left singular vectors, the rows of U [..., m, m].
        right: The right ones, the rows of V [..., n, n].
        values: s [..., n], of any sign.
        diagonal, good: As in `Eigen`; U and V are the unit matrices.
    """

    left: jax.Array
    right: jax.Array
    values: jax.Array
    diagonal: jax.Array
    good: jax.Array


def suits(a: jax.Array, most: int) -> bool:
    """Whether matrices [..., m, n] have more than one row and column, and not more than `most`."""
    return all(isinstance(extent, int) and 2 <= extent <= most for extent in a.shape[-2:])


class _Rotated(NamedTuple):
    """What the rotations so far make of a matrix.

    Attributes:
        values: Its diagonal, and zeros [..., n, n].
        beside: Its other elements.
        square: The sum of their squares [..., 1, 1].
        going: bool[..., 1, 1], whether that, or the error of the rotations, is still too large.
    """

    values: jax.Array
    beside: jax.Array
    square: jax.Array
    going: jax.Array

    @property
    def damping(self) -> jax.Array:
        """What limits the angles; infinite for the matrices of a batch that are done."""
        if self.values.ndim == 2:
            return self.square
        return jnp.where(self.going, self.square, np.inf)


class _Eigen(NamedTuple):
    now: _Rotated
    x: jax.Array
    steps: jax.Array


class _Singular(NamedTuple):
    now: _Rotated
    u: jax.Array
    v: jax.Array
    steps: jax.Array


class _Limits:
    """The constants of matrices [..., n, n].

    Attributes:
        norm: The sum of their squares [..., 1, 1].
        tie: A difference that is negligible but not 0, [..., 1, 1].
    """

    def __init__(self, a: jax.Array) -> None:
        self.n, self.dtype = a.shape[-1], a.dtype
        self.unit = np.eye(self.n, dtype=a.dtype)
        self.epsilon = jnp.finfo(a.dtype).eps
        self.norm = _square(a)
        self.limit = self.n * min(self.n / 2, 4) * self.epsilon**2 * self.norm
        self.tie = self.epsilon**2 * jnp.sqrt(self.norm)

    def rotated(self, s: jax.Array, beside: jax.Array, error: jax.Array | None) -> _Rotated:
        """A matrix, of which `beside` is all but the diagonal."""
        square = _square(beside)
        going = square > self.limit
        if error is not None:
            going |= error > self.epsilon
        return _Rotated(s * self.unit, beside, square, going)

    def start(self, shape: tuple[int, ...]) -> jax.Array:
        """X of the unit matrices."""
        return jnp.broadcast_to(np.sqrt(0.5).astype(self.dtype) * self.unit, shape)

    def vectors(self, x: jax.Array, first: _Rotated) -> jax.Array:
        """The vectors of X. NaN makes all of them NaN.

        Args:
            first: The matrix before any rotation.
        """
        x = np.sqrt(2).astype(self.dtype) * x
        # The root of 2 is not exact.
        x = x + 0.5 * ((self.unit - x @ jnp.swapaxes(x, -1, -2)) @ x)
        x = jnp.where(first.square == 0, self.unit, x)
        return jnp.where(jnp.isfinite(self.norm), x, np.nan)

    def good(self, end: _Rotated) -> jax.Array:
        """Whether all matrices are diagonal, or were NaN before."""
        settled = jnp.isfinite(end.square) == jnp.isfinite(self.norm)
        return jnp.all(settled & ~end.going)


def eigenvalues_and_vectors(a: jax.Array) -> Eigen:
    """The eigenvalues and eigenvectors of symmetric matrices [..., n, n], in no particular order.

    The squares of the elements neither overflow nor underflow (see `scaling.scaled`).
    """
    limits = _Limits(a)
    lower = np.tri(limits.n, k=-1, dtype=a.dtype)
    tie = (1 - 2 * lower) * limits.tie
    twice = a + a

    def rotated(s: jax.Array, error: jax.Array | None = None) -> _Rotated:
        # Rounding errors must not make K differ from an antisymmetric matrix.
        below = s * lower
        return limits.rotated(s, below + jnp.swapaxes(below, -1, -2), error)

    def step(state: _Eigen) -> _Eigen:
        now, x, steps = state
        rows, columns = _sums(now.values)
        x, error = _turned(x, _half_angles(now.beside, rows - columns - tie, now.damping))
        return _Eigen(rotated(x @ twice @ jnp.swapaxes(x, -1, -2), error), x, steps + 1)

    first = rotated(a)
    start = _Eigen(first, limits.start(a.shape), np.int32(0))
    end = lax.while_loop(_going, step, start)
    values = jnp.sum(end.now.values, -1)
    diagonal = first.square[..., 0, 0] == 0
    return Eigen(limits.vectors(end.x, first), values, diagonal, limits.good(end.now))


def singular_values_and_vectors(a: jax.Array) -> Singular:
    """The singular values and vectors of matrices [..., m, n], m >= n, in no particular order.

    The squares of the elements neither overflow nor underflow (see `scaling.scaled`).
    """
    m, n = a.shape[-2:]
    # Columns of zeros. Their rows and columns of V stay those of the unit matrix.
    a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, m - n)])
    limits = _Limits(a)
    sides = np.array(np.arange(m) < n, a.dtype)
    right_sides = sides[:, None] * sides
    tie = (1 - 2 * np.tri(m, k=-1, dtype=a.dtype)) * limits.tie
    twice = a + a

    def rotated(s: jax.Array, error: jax.Array | None = None) -> _Rotated:
        return limits.rotated(s, s * (1 - limits.unit), error)

    def step(state: _Singular) -> _Singular:
        now, u, v, steps = state
        rows, columns = _sums(now.values)
        mirrored = jnp.swapaxes(now.beside, -1, -2)
        difference, total = rows - columns + tie, rows + columns + limits.tie
        # The sum and the difference of the angles on the left and on the right.
        both, apart = jnp.split(
            _half_angles(
                jnp.concatenate([now.beside + mirrored, mirrored - now.beside], -2),
                jnp.concatenate([difference, total], -2),
                2 * now.damping,
            ),
            2,
            -2,
        )
        left, right = 0.5 * (both + apart), 0.5 * (both - apart)
        u, left_error = _turned(u, left)
        v, right_error = _turned(v, right if m == n else right * right_sides)
        s = u @ twice @ jnp.swapaxes(v, -1, -2)
        return _Singular(rotated(s, left_error + right_error), u, v, steps + 1)

    first = rotated(a)
    unit = limits.start(a.shape)
    end = lax.while_loop(_going, step, _Singular(first, unit, unit, np.int32(0)))
    return Singular(
        limits.vectors(end.u, first),
        limits.vectors(end.v, first)[..., :n, :n],
        jnp.sum(end.now.values, -1)[..., :n],
        first.square[..., 0, 0] == 0,
        limits.good(end.now),
    )


def _going(state: _Eigen | _Singular) -> jax.Array:
    return jnp.any(state.now.going) & (state.steps < MOST_STEPS)


def _square(x: jax.Array) -> jax.Array:
    return jnp.sum(x * x, (-2, -1), keepdims=True)


def _sums(x: jax.Array) -> Pair:
    """The sums of rows [..., n, 1] and of columns [..., 1, n]."""
    return jnp.sum(x, -1, keepdims=True), jnp.sum(x, -2, keepdims=True)


def _half_angles(beside: jax.Array, difference: jax.Array, damping: jax.Array) -> jax.Array:
    """Half the angles that make the elements 0, where these are small. The sum of their squares
    is at most 1, if the damping is the sum of the squares of the elements."""
    root = jnp.sqrt(difference * difference + damping)
    return beside / (difference + jnp.where(difference < 0, -root, root))


def _turned(x: jax.Array, half: jax.Array) -> Pair:
    """X after the rotations with K = 2 half, and the error of their orthogonality before the last
    correction."""
    x = x + 2 * (half @ (x + half @ x))
    half_unit = np.array(0.5 * np.eye(x.shape[-1]), x.dtype)
    error = x
    for _ in range(_CORRECTIONS[x.dtype.itemsize]):
        error = half_unit - x @ jnp.swapaxes(x, -1, -2)
        x = x + error @ x
    return x, _square(error)

"""Eigenvalues and singular values of real matrices by Jacobi's rotations of all pairs of rows at
once.

A rotation of two rows by a small angle is about I + K, with an antisymmetric K that has two
elements (Golub and Van Loan, Matrix Computations, 8.5: Jacobi methods). Here K has the angles of
all pairs, and an orthogonal matrix close to exp(K) takes the place of a whole sweep of rotations.
Elements beside the diagonal that are large limit all angles; when they are small, the angles are
those of Jacobi. The convergence is then quadratic: ten steps are usual. Nothing proves that the
steps suffice for every matrix, so the results say whether they did.

Vectors are the rows of X / sqrt(2): then no product needs a factor.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair

MOST_OF_EIGENVALUES = {"float32": 96, "float64": 80}
"""Rows and columns, by type. A step needs few operations, but about ten products of matrices.
Random matrices of 128 and 96 rows take as long as by division; others need more steps."""
MOST_OF_SINGULAR_VALUES = {"float32": 80, "float64": 48}
"""The same; a step needs twice the products."""
MOST_STEPS = 50
"""The number that hard matrices need. Random ones need 6 to 25."""

LEAST_BOUNDED = 16
"""Rows from which on a bound of the norm of K saves more steps than it costs operations."""
_CORRECTIONS = {4: 3, 8: 4}
"""Steps that make X orthogonal again, by bytes of a number. Each squares the error. Values that are
close to each other, but not equal, need an error as small as their distance."""

_DAMPING = 0.1
_OWN = 1.8
"""How much all elements, and the own one of a pair, limit an angle if the norm of K is bounded."""
_LARGEST_ANGLE = 1.0
"""The bound, which keeps the corrections accurate."""


class Eigen(NamedTuple):
    """A = X^T diag(w) X; X is the unit matrix if A was diagonal already.

    Attributes:
        rows: The eigenvectors, the rows of X [..., n, n].
        values: w [..., n].
        good: bool[], whether the results of all matrices are accurate.
    """

    rows: jax.Array
    values: jax.Array
    good: jax.Array


class Singular(NamedTuple):
    """A = U^T diag(s) V.

    Attributes:
        left: The left singular vectors, the rows of U [..., m, m].
        right: The right ones, the rows of V [..., n, n].
        values: s [..., n], of any sign.
        diagonal: bool[...], whether A was diagonal already. U and V are then unit matrices.
        good: As in `Eigen`.
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
        square: The sum of their squares, [] or [..., 1, 1].
        going: Whether that, or the error of the rotations, is still too large; bool of this shape.
    """

    values: jax.Array
    beside: jax.Array
    square: jax.Array
    going: jax.Array


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
        norm: The sum of their squares, [] or [..., 1, 1].
        limit: The sum of the squares beside the diagonal at the end, of the same shape.
        bounded: Whether the norm of K is bounded.
    """

    def __init__(self, a: jax.Array) -> None:
        self.n, self.dtype = a.shape[-1], a.dtype
        self.unit = np.eye(self.n, dtype=a.dtype)
        self.epsilon = jnp.finfo(a.dtype).eps
        self.norm = _square(a)
        self.limit = self.n * min(self.n / 2, 4) * self.epsilon**2 * self.norm
        self.bounded = self.n >= LEAST_BOUNDED
        # For equal values: K stays antisymmetric, and the rows of U below n rotate in a thin A.
        tiny = jnp.finfo(a.dtype).tiny
        self.signs = np.where(np.tri(self.n, k=-1), tiny, -tiny).astype(a.dtype)

    def rotated(self, s: jax.Array, beside: jax.Array, error: jax.Array | None) -> _Rotated:
        """A matrix, of which `beside` is all but the diagonal."""
        square = _square(beside)
        going = square > self.limit
        if error is not None:
            going |= error > self.epsilon
        return _Rotated(s * self.unit, beside, square, going)

    def damping(self, now: _Rotated, factor: float = 1) -> jax.Array:
        """What limits the angles; infinite for the matrices of a batch that are done."""
        factor *= _DAMPING if self.bounded else 1
        damping = (now.square if factor == 1 else factor * now.square) + self.limit
        return damping if now.values.ndim == 2 else jnp.where(now.going, damping, np.inf)

    def angles(
        self, beside: jax.Array, difference: jax.Array, damping: jax.Array, least: jax.Array | float
    ) -> jax.Array:
        """The angles that make the elements 0, where these are small. The sum of their squares is
        at most 1, if the damping is the sum of the squares of the elements.

        Args:
            least: Differences below this one turn backwards.
        """
        square = difference * difference + damping
        if self.bounded:
            square += _OWN * (beside * beside)
        root = jnp.sqrt(square)
        return beside / (difference + jnp.where(difference < least, -root, root))

    def good(self, end: _Rotated) -> jax.Array:
        """Whether all matrices are diagonal, or were NaN before."""
        settled = jnp.isfinite(end.square) == jnp.isfinite(self.norm)
        return jnp.all(settled & ~end.going)


def eigenvalues_and_vectors(a: jax.Array) -> Eigen:
    """The eigenvalues and eigenvectors of symmetric matrices [..., n, n], in no particular order.

    The squares of the elements neither overflow nor underflow (see `blocks.scaled`).
    """
    limits = _Limits(a)
    lower = np.tri(limits.n, k=-1, dtype=a.dtype)
    twice = a + a

    def rotated(s: jax.Array, error: jax.Array | None = None) -> _Rotated:
        # Rounding errors must not make K differ from an antisymmetric matrix.
        below = s * lower
        return limits.rotated(s, below + jnp.swapaxes(below, -1, -2), error)

    def step(state: _Eigen) -> _Eigen:
        now, x, steps = state
        difference, _ = _differences_and_totals(now.values)
        half = limits.angles(now.beside, difference, limits.damping(now), limits.signs)
        x, error = _turned(x, half, half + half, limits.bounded)
        return _Eigen(rotated(x @ twice @ jnp.swapaxes(x, -1, -2), error), x, steps + 1)

    first = rotated(a)
    start = _Eigen(first, _start(a.shape, a.dtype), np.int32(0))
    end = lax.while_loop(_going, step, start)
    values = jnp.sum(end.now.values, -1)
    return Eigen(_vectors(end.x, first, limits.norm), values, limits.good(end.now))


def singular_values_and_vectors(a: jax.Array) -> Singular:
    """The singular values and vectors of matrices [..., m, n], m >= n, in no particular order.

    The squares of the elements neither overflow nor underflow (see `blocks.scaled`).
    """
    m, n = a.shape[-2:]
    # Columns of zeros. Their rows and columns of V stay those of the unit matrix.
    a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, m - n)])
    sides = np.array(np.arange(m) < n, a.dtype)
    right = sides[:, None] * sides
    found = _singular(a, right)
    return found._replace(right=found.right[..., :n, :n], values=found.values[..., :n])


def _singular(a: jax.Array, right: np.ndarray) -> Singular:
    """The results of `singular_values_and_vectors` for square matrices.

    Args:
        right: The angles of the right vectors that are not 0, as a matrix of ones.
    """
    limits = _Limits(a)
    twice = a + a

    def rotated(s: jax.Array, error: jax.Array | None = None) -> _Rotated:
        return limits.rotated(s, s * (1 - limits.unit), error)

    def step(state: _Singular) -> _Singular:
        now, u, v, steps = state
        both, apart = _sum_and_difference_of_angles(limits, now)
        left, other = both + apart, both - apart
        other = other if right.all() else other * right
        u, left_error = _turned(u, 0.5 * left, left, limits.bounded)
        v, right_error = _turned(v, 0.5 * other, other, limits.bounded)
        s = u @ twice @ jnp.swapaxes(v, -1, -2)
        return _Singular(rotated(s, left_error + right_error), u, v, steps + 1)

    first = rotated(a)
    unit = _start(a.shape, a.dtype)
    end = lax.while_loop(_going, step, _Singular(first, unit, unit, np.int32(0)))
    zero = first.square == 0
    return Singular(
        _vectors(end.u, first, limits.norm),
        _vectors(end.v, first, limits.norm),
        jnp.sum(end.now.values, -1),
        zero.reshape(zero.shape[:-2]),
        limits.good(end.now),
    )


def _sum_and_difference_of_angles(limits: _Limits, now: _Rotated) -> Pair:
    """The sum and the difference of the angles on the left and on the right, [..., n, n]."""
    mirrored = jnp.swapaxes(now.beside, -1, -2)
    difference, total = _differences_and_totals(now.values)
    damping = limits.damping(now, 2)
    return (
        limits.angles(now.beside + mirrored, difference, damping, limits.signs),
        limits.angles(mirrored - now.beside, total, damping, 0),
    )


def _turned(x: jax.Array, half: jax.Array, whole: jax.Array, bounded: bool) -> Pair:
    """X after the rotations with K, and the error of their orthogonality before the last
    correction.

    Args:
        half, whole: K / 2 and K.
        bounded: Whether K is made smaller if it is large.
    """
    if bounded:
        square = half @ half
        # Angles t of K are those of pairs: t^4 <= |K^2|^2 / 2 = 8 |(K / 2)^2|^2.
        most = np.asarray(_LARGEST_ANGLE**4 / 8, x.dtype) / _square(square)
        scale = jnp.minimum(jnp.sqrt(jnp.sqrt(most)), 1)
        x = x + ((scale + scale) * (half + scale * square)) @ x
    else:
        x = x + whole @ (x + half @ x)
    half_unit = np.array(0.5 * np.eye(x.shape[-1]), x.dtype)
    error = x
    for _ in range(_CORRECTIONS[x.dtype.itemsize]):
        error = half_unit - x @ jnp.swapaxes(x, -1, -2)
        x = x + error @ x
    return x, _square(error)


def _start(shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """X of the unit matrices."""
    return jnp.broadcast_to(np.array(np.sqrt(0.5) * np.eye(shape[-1]), dtype), shape)


def _vectors(x: jax.Array, first: _Rotated, norm: jax.Array) -> jax.Array:
    """The vectors of X. NaN makes all of them NaN.

    Args:
        first: The matrix before any rotation.
        norm: The sum of its squares.
    """
    unit = np.eye(x.shape[-1], dtype=x.dtype)
    x = np.sqrt(2).astype(x.dtype) * x
    # The root of 2 is not exact.
    x = x + 0.5 * ((unit - x @ jnp.swapaxes(x, -1, -2)) @ x)
    x = jnp.where(first.square == 0, unit, x)
    return jnp.where(jnp.isfinite(norm), x, np.nan)


def _going(state: _Eigen | _Singular) -> jax.Array:
    return jnp.any(state.now.going) & (state.steps < MOST_STEPS)


def _square(x: jax.Array) -> jax.Array:
    """The sums of squares: [n, n] -> [], others -> [..., 1, 1]."""
    return jnp.sum(x * x, (-2, -1), keepdims=x.ndim > 2)


def _differences_and_totals(values: jax.Array) -> Pair:
    """d_i - d_j and d_i + d_j from diagonal matrices [..., n, n]."""
    if values.ndim > 2:
        rows, columns = (jnp.sum(values, axis, keepdims=True) for axis in (-1, -2))
        return rows - columns, rows + columns
    ones = np.ones(values.shape, values.dtype)
    rows = values @ ones
    return rows - ones @ values, rows + ones @ values

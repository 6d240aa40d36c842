"""Singular values and vectors of many small matrices M that are diagonal but for one full row.

M has the poles p on its diagonal, and in the row of a pole that is 0 the numbers z. Then
M^T M = diag(p)^2 + z z^T, and the squares x of its singular values are the roots of

    f(x) = 1 + sum_k z_k^2 / (p_k^2 - x),

one between every two neighbours among the p^2 and one above all. What makes the vectors orthogonal
to the last bit is due to Gu and Eisenstat: each root is known by its distance to the pole nearest
to it, and z is computed anew as that for which the roots found are exact.

All matrices stand side by side in vectors [n] that are their diagonals; `together` [n, n] says
which two elements belong to the same one. Elements that belong to none keep out of everything.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import Pair

MOST_STEPS = 60
"""Seven or so are usual."""


class Roots(NamedTuple):
    """Singular values; row j of each matrix [n, n] belongs to the j-th.

    Attributes:
        values: [n]
        distances: The squares of the poles minus the square of the singular value, each accurate
            to the last bits; 1 for poles of other matrices.
        gaps: The same differences for the pole before the value, instead of the value.
        next_gaps: The same for the pole after the value; -1 if there is none.
    """

    values: jax.Array
    distances: jax.Array
    gaps: jax.Array
    next_gaps: jax.Array


def find_roots(poles: jax.Array, z: jax.Array, together: jax.Array) -> Roots:
    """The singular values, in the order of the poles.

    Args:
        poles: [n], strictly ascending in each matrix, the first being 0.
        z: [n], none being 0.
        together: [n, n].
    """
    last = ~jnp.append(jnp.diagonal(together, 1), False)
    following = jnp.append(poles[1:], poles[-1:])
    square = z * z
    weights = jnp.where(together, square, 0)
    gap = jnp.where(last, jnp.sum(weights, 1), (following - poles) * (following + poles))
    gap = jnp.where(jnp.diagonal(together, 0), gap, 1)
    gaps = jnp.where(together, (poles - poles[:, None]) * (poles + poles[:, None]), 1)
    next_gaps = jnp.where(last[:, None], -1, jnp.concatenate([gaps[1:], gaps[-1:]]))

    # f in the middle says which pole is nearer: it becomes the origin.
    middle = 0.5 * gap
    at_middle = 1 + jnp.sum(weights / jnp.where(together, gaps - middle[:, None], 1), 1)
    below = (at_middle >= 0) | last
    origin = jnp.where(below[:, None], gaps, next_gaps)
    left = jnp.where(below, 0, -gap)
    right = left + jnp.where(last, 2 * gap, gap)
    beyond = last & (at_middle < 0)
    low = jnp.where(beyond, middle, jnp.where(below, 0, -middle))
    high = jnp.where(beyond, gap, jnp.where(below, middle, 0))

    # A first guess: exact terms of the two neighbours, and the other terms as in the middle.
    next_square = jnp.where(last, 0, jnp.append(square[1:], square[-1:]))
    rest = at_middle + (square - next_square) / middle
    slope = rest * (left + right) + square + next_square
    guess = _root(rest, slope, rest * left * right + square * right + next_square * left)
    inside = (guess > low) & (guess < high)
    guess = jnp.where(inside, guess, 0.5 * (low + high))
    done = ~jnp.diagonal(together, 0)
    search = _Search(guess, low, high, done, np.int32(0))
    x = _refined(search, left, right, jnp.where(together, origin, 1), weights)
    nearest = jnp.where(below, poles, following)
    values = jnp.sqrt(jnp.maximum(nearest * nearest + x, 0))
    return Roots(values, jnp.where(together, origin - x[:, None], 1), gaps, next_gaps)


class _Search(NamedTuple):
    """The state of the iteration: roots relative to their origins, bounds, and which are found."""

    x: jax.Array
    low: jax.Array
    high: jax.Array
    done: jax.Array
    steps: jax.Array


def _refined(
    search: _Search, left: jax.Array, right: jax.Array, origin: jax.Array, weights: jax.Array
) -> jax.Array:
    """Roots of f by interpolation with two poles, the neighbours of each (Li's middle way): the
    terms of the poles on either side are replaced by one with that neighbour's pole, of the same
    value and derivative. Where that leaves the bounds they are halved.

    Args:
        left, right: The poles around each root [n], relative to its origin.
        origin: All poles relative to it [n, n].
        weights: z^2, or 0 [n, n].
    """
    n = left.shape[0]
    epsilon = jnp.finfo(left.dtype).eps
    before = lax.iota(np.int32, n)[:, None] >= lax.iota(np.int32, n)

    def step(now: _Search) -> _Search:
        inverse = 1 / (origin - now.x[:, None])
        terms = weights * inverse
        before_terms = jnp.where(before, terms, 0)
        f = 1 + jnp.sum(terms, 1)
        size = 1 + jnp.sum(terms, 1) - 2 * jnp.sum(before_terms, 1)
        slope = jnp.sum(terms * inverse, 1)
        before_slope = jnp.sum(before_terms * inverse, 1)
        low, high = jnp.where(f < 0, now.x, now.low), jnp.where(f < 0, now.high, now.x)
        a, b = left - now.x, right - now.x
        rest = f - a * before_slope - b * (slope - before_slope)
        new = now.x + _root(rest, (a + b) * f - a * b * slope, a * b * f)
        new = jnp.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        # NaN counts as done.
        done = now.done | ~(abs(f) > 2 * epsilon * size)
        return _Search(jnp.where(done, now.x, new), low, high, done, now.steps + 1)

    def going(now: _Search) -> jax.Array:
        return jnp.any(~now.done) & (now.steps < MOST_STEPS)

    return lax.while_loop(going, step, search).x


def _root(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """The root of a x^2 - b x + c between the two poles that it was made from."""
    root = jnp.sqrt(jnp.maximum(b * b - 4 * a * c, 0))
    small = (b - root) / jnp.where(a == 0, 1, 2 * a)
    return jnp.where(b <= 0, small, 2 * c / (b + root))


def find_vectors(
    roots: Roots, poles: jax.Array, z: jax.Array, together: jax.Array, full_row: jax.Array
) -> Pair:
    """The left and the right singular vectors, as the rows of two matrices [n, n]; rows of
    elements outside all matrices are rows of the unit matrix.

    Args:
        full_row: bool[n], whether the element's row of its matrix is z.
    """
    n = poles.shape[0]
    i = lax.iota(np.int32, n)
    # Loewner's formula: z^2 of a pole is a product over all roots of quotients less than 1.
    beside = jnp.where(i[:, None] < i, roots.gaps, roots.next_gaps)
    quotients = jnp.where(together, roots.distances / beside, 1)
    size = jnp.sqrt(abs(jnp.prod(quotients, 0)))
    # The largest element of a row is between 1 / n and 1 / epsilon^3, so its square may overflow.
    epsilon = jnp.finfo(z.dtype).eps
    right = jnp.where(together, epsilon * jnp.where(z < 0, -size, size) / roots.distances, 0)
    left = jnp.where(together & full_row, -epsilon, right * poles)
    return _unit_rows(left, together), _unit_rows(right, together)


def _unit_rows(x: jax.Array, together: jax.Array) -> jax.Array:
    length = jnp.sqrt(jnp.sum(x * x, 1))
    belongs = jnp.diagonal(together, 0)
    unit = jnp.eye(x.shape[0], dtype=x.dtype)
    rows = x / jnp.where(belongs, length, 1)[:, None]
    return jnp.where(belongs[:, None], rows, unit)

"""Singular values and vectors of many small matrices M that are diagonal but for one full row.

M has the poles p on its diagonal, the first of which is 0, and in the first row the numbers z. Then
M^T M = diag(p)^2 + z z^T, and the squares x of its singular values are the roots of

    f(x) = 1 + sum_k z_k^2 / (p_k^2 - x),

one between every two neighbours among the p^2 and one above all. What makes the vectors orthogonal
to the last bit is due to Gu and Eisenstat: each root is known by its distance to the pole nearest
to it, and z is computed anew as that for which the roots found are exact.

The matrices stand side by side: a row of vectors [g, n] holds the diagonals of several. Elements
that belong to no matrix keep out of everything. In arrays [g, n, n] the rows are poles, and the
columns are roots. Masks are factors 0 and 1: a selection takes three times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOST_STEPS = 60
"""Seven or so are usual."""
TOLERANCE = 4
"""How large f may be at a root, in rounding errors of the sum of its terms' absolute values."""


ABSENT = 2.0
"""The pole of a root that belongs to no matrix: greater than all other poles."""
_FAR = 3.0
"""The pole, as a row, of elements that belong to no matrix: different from all others."""


class _Sum(NamedTuple):
    """Weighted sums over matrices, in two steps: of them, only the first looks at masks.

    Attributes:
        terms: Makes the terms of an array [g, n, n].
        total: The sums [g, 1, n] of such terms.
    """

    terms: Callable[[jax.Array], jax.Array]
    total: Callable[[jax.Array], jax.Array]


class Groups(NamedTuple):
    """Which elements belong to the same matrix.

    Attributes:
        active: Whether an element belongs to a matrix, bool[g, 1, n].
        last: Whether it is the last of its matrix, bool[g, 1, n].
        together: 1 for two elements of one matrix, else 0, [g, n, n]. None if all active elements
            of a row belong to one matrix and come first: no sum then needs a mask.
    """

    active: jax.Array
    last: jax.Array
    together: jax.Array | None

    @classmethod
    def of(cls, number: jax.Array, dtype: np.dtype) -> Groups:
        """The groups of elements with equal numbers [g, n], which are neighbours. Elements with the
        number -1 belong to none."""
        active = number >= 0
        ends = jnp.pad(number[:, 1:] != number[:, :-1], [(0, 0), (0, 1)], constant_values=True)
        columns = jnp.where(active, number, -2)
        together = (number[..., None] == columns[:, None]).astype(dtype)
        return cls(active[:, None], (active & ends)[:, None], together)

    @classmethod
    def of_one(cls, active: jax.Array) -> Groups:
        """One matrix in each row of active elements [g, n], which come first."""
        following = jnp.pad(active[:, 1:], [(0, 0), (0, 1)])
        return cls(active[:, None], (active & ~following)[:, None], None)

    def differences(self, poles: jax.Array, origins: jax.Array) -> jax.Array:
        """The square of each pole [g, n, 1] minus the square of each origin [g, 1, n], accurate to
        the last bits; and any negative number for poles of other matrices, of the same origin the
        same."""
        difference = (poles - origins) * (poles + origins)
        return difference if self.together is None else self.own(difference) + (self.together - 1)

    def own(self, x: jax.Array) -> jax.Array:
        """The elements [g, n, n] for two of one matrix; 0 or, without a mask, any for others."""
        return x if self.together is None else x * self.together

    def sum_of(self, weights: jax.Array) -> _Sum:
        """How to sum over each matrix.

        Args:
            weights: [g, 1, n], 0 for elements that belong to no matrix.
        """
        # Next to a pole the square of an inverse overflows, but not its product with the weight.
        factors = self.own(jnp.swapaxes(weights, 1, 2))
        if self.together is None:
            one = np.ones((1, weights.shape[-1]), weights.dtype)
            return _Sum(lambda x: factors * x, lambda x: one @ x)
        return _Sum(lambda x: factors * x, lambda x: jnp.sum(x, 1, keepdims=True))

    def totals(self, weights: jax.Array) -> jax.Array:
        """The sums of weights [g, 1, n] over each matrix."""
        if self.together is None:
            return jnp.sum(weights, -1, keepdims=True)
        return weights @ self.together


class Roots(NamedTuple):
    """Singular values.

    Attributes:
        values: [g, 1, n]
        poles: [g, n, 1], strictly ascending in each matrix.
        distances: The squares of the poles minus the squares of the singular values, each accurate
            to the last bits, as `Groups.differences` [g, n, n].
        gaps: The same for the poles instead of the singular values.
    """

    values: jax.Array
    poles: jax.Array
    distances: jax.Array
    gaps: jax.Array


def find_roots(poles: jax.Array, z: jax.Array, groups: Groups) -> Roots:
    """The singular values, in the order of the poles.

    Args:
        poles: [g, n], ascending in each matrix, the first being 0 and all less than `ABSENT`.
        z: [g, n], none being 0 in a matrix.
    """
    active, last = groups.active, groups.last
    poles = _apart(poles, groups)
    own, column = (jnp.where(active, poles, absent) for absent in (ABSENT, _FAR))
    column = jnp.swapaxes(column, 1, 2)
    weights = jnp.where(active, (z * z)[:, None], 0)
    following, next_weight = (_next(x) for x in (own, weights))
    gap = jnp.where(last, groups.totals(weights), (following - own) * (following + own))
    gap = jnp.where(active, gap, 1)
    gaps = groups.differences(column, own)

    # f in the middle says which pole is nearer: it becomes the origin.
    middle = 0.5 * gap
    sum_of = groups.sum_of(weights)
    at_middle = 1 + sum_of.total(sum_of.terms(1 / (gaps - middle)))
    below = (at_middle >= 0) | last
    nearest = jnp.where(below, own, following)
    left = jnp.where(below, 0, -gap)
    right = left + jnp.where(last, 2 * gap, gap)
    beyond = last & (at_middle < 0)
    low = jnp.where(beyond, middle, jnp.where(below, 0, -middle))
    # The last root may be at the end of the gap: so it is, if there is no other root.
    high = jnp.where(beyond, right, jnp.where(below, middle, 0))

    # A first guess: exact terms of the two neighbours, and the other terms as in the middle.
    next_weight = jnp.where(last, 0, next_weight)
    rest = at_middle + (weights - next_weight) / middle
    slope = rest * (left + right) + weights + next_weight
    guess = _root(rest, slope, rest * left * right + weights * right + next_weight * left)
    inside = (guess > low) & (guess < high)
    guess = jnp.where(inside, guess, 0.5 * (low + high))
    # The others stay 0, so that their distances are their gaps.
    search = _Search(jnp.where(active, guess, 0), low, high, active, np.int32(0))
    origin = groups.differences(column, nearest)
    x = _refined(search, left, right, origin, sum_of)
    values = jnp.sqrt(jnp.maximum(nearest * nearest + x, 0))
    return Roots(values, column, origin - groups.own(x), gaps)


def _apart(values: jax.Array, groups: Groups) -> jax.Array:
    """Ascending values [g, n] of each matrix as [g, 1, n], increased until they differ by more than
    rounding."""
    i = np.arange(values.shape[-1])
    steps = (i - i[:, None]) * jnp.finfo(values.dtype).eps
    # No value is as great as the number that is subtracted from those which come later.
    steps = np.where(i[:, None] <= i, steps, -2 * ABSENT).astype(values.dtype)
    return jnp.max(groups.own(values[..., None] + steps), 1, keepdims=True)


def _next(x: jax.Array) -> jax.Array:
    return jnp.concatenate([x[..., 1:], x[..., -1:]], -1)


class _Search(NamedTuple):
    """The state of the iteration: roots relative to their origins, bounds, and which to improve."""

    x: jax.Array
    low: jax.Array
    high: jax.Array
    going: jax.Array
    steps: jax.Array


def _refined(
    search: _Search,
    left: jax.Array,
    right: jax.Array,
    origin: jax.Array,
    sum_of: _Sum,
) -> jax.Array:
    """Roots of f by interpolation with two poles, the neighbours of each (Li's middle way): the
    terms of the poles on either side are replaced by one with that neighbour's pole, of the same
    value and derivative. Where that leaves the bounds they are halved.

    Args:
        left, right: The poles around each root [g, 1, n], relative to its origin.
        origin: All poles relative to it [g, n, n].
        sum_of: Sums with the weights z^2.
    """
    tolerance = TOLERANCE * jnp.finfo(left.dtype).eps
    before = np.triu(np.ones(origin.shape[1:], origin.dtype))

    def step(now: _Search) -> _Search:
        inverse = 1 / (origin - now.x)
        terms = sum_of.terms(inverse)
        before_terms = before * terms
        f = 1 + sum_of.total(terms)
        from_before = sum_of.total(before_terms)
        slope = sum_of.total(terms * inverse)
        before_slope = sum_of.total(before_terms * inverse)
        low, high = jnp.where(f < 0, now.x, now.low), jnp.where(f < 0, now.high, now.x)
        a, b = left - now.x, right - now.x
        rest = f - a * before_slope - b * (slope - before_slope)
        new = now.x + _root(rest, (a + b) * f - a * b * slope, a * b * f)
        new = jnp.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        # NaN counts as found.
        going = now.going & (abs(f) > tolerance * (f - 2 * from_before))
        return _Search(jnp.where(going, new, now.x), low, high, going, now.steps + 1)

    def unfinished(now: _Search) -> jax.Array:
        return jnp.any(now.going) & (now.steps < MOST_STEPS)

    return lax.while_loop(unfinished, step, search).x


def _root(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """The root of a x^2 - b x + c between the two poles that it was made from; it may be NaN if
    rounding errors are larger than a."""
    half = 0.5 * b
    root = jnp.sqrt(jnp.maximum(half * half - a * c, 0))
    return jnp.where(half <= 0, (half - root) / a, c / (half + root))


def find_vectors(
    roots: Roots, z: jax.Array, groups: Groups, *, left: bool
) -> tuple[jax.Array | None, jax.Array]:
    """The left (if wanted) and the right singular vectors, as the columns of matrices [g, n, n];
    columns of elements outside all matrices are columns of the unit matrix. The last element has to
    be one of these."""
    epsilon = jnp.finfo(z.dtype).eps
    # Loewner's formula: z^2 of a pole is a product over all roots of quotients less than 1. The
    # divisor is the difference from the pole before the root or, for the poles before the root,
    # from the pole after it.
    quotients = roots.distances[..., :-1] / _without_diagonal(roots.gaps)
    product = jnp.prod(quotients, -1, keepdims=True) * roots.gaps[..., -1:]
    # Without a pole after the last root, its divisor is that of the next element's.
    size = jnp.where(jnp.swapaxes(groups.active, 1, 2), epsilon * jnp.sqrt(abs(product)), 0)
    # The largest element of a column is between 1 / n and 1 / epsilon^3 times epsilon, so that its
    # square does not overflow.
    numerator = jnp.where(z[..., None] < 0, -size, size)
    right = groups.own(numerator / roots.distances)
    unit = np.eye(z.shape[-1], dtype=z.dtype) * (1 - groups.active.astype(z.dtype))
    of_right = _unit_columns(right, groups, unit)
    if not left:
        return None, of_right
    full_row = jnp.where(roots.poles == 0, -epsilon, 0)
    return _unit_columns(right * roots.poles + groups.own(full_row), groups, unit), of_right


def _without_diagonal(x: jax.Array) -> jax.Array:
    """[g, n, n] -> [g, n, n - 1]"""
    count, n, _ = x.shape
    rows = x.reshape(count, n * n)[:, 1:].reshape(count, n - 1, n + 1)
    return rows[..., :-1].reshape(count, n, n - 1)


def _unit_columns(x: jax.Array, groups: Groups, unit: jax.Array) -> jax.Array:
    length = jnp.sqrt(jnp.sum(x * x, 1, keepdims=True))
    return x / jnp.where(groups.active, length, np.inf) + unit

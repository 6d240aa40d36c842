"""Singular values and singular vectors.

Left singular vectors are made to fit the right ones, those of tiny singular values too.

With U and V of an algorithm, M = U^H A V is diagonal but for errors of the size of a rounding error
of A's norm. The product U V^H, the unitary factor of the polar decomposition, is exact only if M is
Hermitian: an error of the other part counts as its quotient with the sum of two singular values,
which may be tiny. Rotations of U by these quotients make M Hermitian, and the singular values and
the residual stay as exact as they were.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg import simultaneous
from dialect_handlers.common.linalg.blocks import Pair, Triple, adjoint, over_batch, scaled, squares
from dialect_handlers.common.linalg.condensed_forms import bidiagonalize
from dialect_handlers.common.linalg.divide_and_conquer import bidiagonal_svd

MOST_STEPS = 12
"""One is usual. More are for singular values near the rounding errors of the largest one."""
_LARGEST_TURN = 0.03
"""After larger turns another step is needed: each squares the error."""
_LARGEST_NORM = 0.3
"""Of the turns of one step, so that the corrections suffice."""
_CORRECTIONS = {4: 1, 8: 2}
"""Steps that make U orthogonal again, by bytes of a number. Each squares the error."""

_LEAST_OF_BATCH = 8
"""Rows of the matrices of a batch that are rotated. Products of many smaller ones are slow."""


def svd(a: jax.Array, *, full_matrices: bool) -> Triple:
    """A = U diag(s) V^H.

    Pairs of singular vectors are unique up to a factor of absolute value 1; for diagonal matrices
    they are unit vectors, with LAPACK's signs.

    Args:
        a: [..., m, n], m and n >= 1.
        full_matrices: Whether U and V are square.

    Returns:
        U [..., m, k or m]; s [..., k], descending; V^H [..., k or n, n], with k = min(m, n). All
        are NaN if A holds NaN or infinities.
    """
    m, n = a.shape[-2:]
    # LAPACK takes the right vector of a negative element to be negative, unless it is the only one.
    if m < n:
        v, s, uh = _tall_svd(adjoint(a), full_matrices, negative_left=m > 1)
        return adjoint(uh), s, adjoint(v)
    return _tall_svd(a, full_matrices, negative_left=n == 1)


def singular_values(a: jax.Array) -> jax.Array:
    """The s of `svd` alone."""
    a = a if a.shape[-2] >= a.shape[-1] else adjoint(a)

    def by_division() -> jax.Array:
        return over_batch(_singular_values, 2, a)

    if not _is_rotated(a):
        return by_division()
    moderate, scale = over_batch(scaled, 2, a)
    found = simultaneous.singular_values_and_vectors(moderate)

    def by_rotations() -> jax.Array:
        return -jnp.sort(-abs(found.values)) * scale[..., None]

    return lax.cond(found.good, by_rotations, by_division)


def _singular_values(a: jax.Array) -> jax.Array:
    a, scale = scaled(a)
    d, e, _, _ = bidiagonalize(a)
    _, v = bidiagonal_svd(d, e, left=False)
    product = _image(d, e, v)
    return -jnp.sort(-jnp.sqrt(jnp.sum(product * product, 1))) * scale


def _image(d: jax.Array, e: jax.Array, v: jax.Array) -> jax.Array:
    """The bidiagonal matrix times each row of v [n, n], as rows."""
    return v * d + jnp.pad(v[:, 1:] * e, [(0, 0), (0, 1)])


def _is_rotated(a: jax.Array) -> bool:
    """Whether rotations of all pairs of rows at once are faster than divide and conquer."""
    if not simultaneous.suits(a, simultaneous.MOST_OF_SINGULAR_VALUES.get(a.dtype.name, 0)):
        return False
    rows: int = a.shape[-2]
    return a.ndim == 2 or rows >= _LEAST_OF_BATCH


def _tall_svd(a: jax.Array, full_matrices: bool, negative_left: bool) -> Triple:
    """`svd` of matrices [..., m, n], m >= n."""

    def by_division() -> Triple:
        return over_batch(lambda a: _svd(a, full_matrices, negative_left), 2, a)

    if not _is_rotated(a):
        return by_division()
    moderate, scale = over_batch(scaled, 2, a)
    left, right, values, diagonal, good = simultaneous.singular_values_and_vectors(moderate)
    n = a.shape[-1]

    def by_rotations() -> Triple:
        # The vectors of diagonal matrices stay unit vectors, with LAPACK's signs.
        image = moderate @ jnp.swapaxes(right, -1, -2)
        square = jnp.pad(image, [(0, 0)] * (a.ndim - 1) + [(0, left.shape[-1] - n)])
        whole = jnp.where(diagonal[..., None, None], left, fitted(left, square))
        u = whole[..., :n, :]
        fitting = jnp.sum(jnp.swapaxes(u, -1, -2) * image, -2)
        s = jnp.where(diagonal[..., None], values, fitting)
        u, s, v = over_batch(partial(_ordered, negative_left), 2, u, s, right)
        if full_matrices:
            u = jnp.concatenate([u, whole[..., n:, :]], -2)
        return adjoint(u), s * scale[..., None], v

    found: Triple = lax.cond(good, by_rotations, by_division)
    return found


def _ordered(negative_left: bool, u: jax.Array, s: jax.Array, v: jax.Array) -> Triple:
    """The vectors, the rows of u and v, and the singular values s [n], of any sign, as LAPACK
    orders them; one vector of each negative value changes its sign."""
    sign = jnp.where(s < 0, -1, 1)[:, None]
    u, v = (sign * u, v) if negative_left else (u, sign * v)
    order = jnp.argsort(-abs(s))
    return u[order], abs(s)[order], v[order]


def _svd(a: jax.Array, full_matrices: bool, negative_left: bool) -> Triple:
    m, n = a.shape
    a, scale = scaled(a)
    d, e, left, right = bidiagonalize(a)
    u, v = bidiagonal_svd(d, e, left=True)
    diagonal_already = jnp.all(e == 0)
    unit = np.eye(n, dtype=d.dtype)
    u, v = jnp.where(diagonal_already, unit, u), jnp.where(diagonal_already, unit, v)
    s = jnp.sum(u * v * d, 1) + jnp.sum(u[:, :-1] * v[:, 1:] * e, 1)
    u, s, v = _ordered(negative_left, u, s, v)
    u, v = u.T.astype(a.dtype), v.T.astype(a.dtype)
    if full_matrices:
        u = jnp.pad(u, [(0, m - n), (0, m - n)])
        u = jnp.where((np.eye(m) > 0) & (np.arange(m) >= n), 1, u)
    else:
        u = jnp.pad(u, [(0, m - n), (0, 0)])
    u, v = left.times(u), right.times(v, shift=1)
    thin = fitted(adjoint(u[:, :n]), a @ v)
    if u.shape[1] == n:
        return adjoint(thin), s * scale, adjoint(v)
    rest = u[:, n:]
    rest -= adjoint(thin) @ (thin @ rest)
    return jnp.concatenate([adjoint(thin), rest], 1), s * scale, adjoint(v)


class _State(NamedTuple):
    u: jax.Array
    going: jax.Array
    steps: jax.Array


def fitted(u: jax.Array, image: jax.Array) -> jax.Array:
    """U^H after rotations that make U^H A V Hermitian, with a diagonal that is not negative. If U
    has fewer columns than rows, it also rotates towards what A V has outside of its columns.

    Values below the rounding errors of the largest one do not count: their vectors stay.

    Args:
        u: The left singular vectors, as rows, real or complex [..., n, m], n <= m.
        image: A V, of the same type [..., m, n].
    """
    limits = jnp.finfo(u.dtype)
    n, m = u.shape[-2:]
    unit = np.eye(n, dtype=u.dtype)

    def turns(u: jax.Array) -> Pair:
        """U with other signs, and the turns [..., n, n], with those to the outside [..., n, m]."""
        product = u @ image
        values = jnp.real(jnp.sum(product * unit, -1, keepdims=True))
        sign = jnp.where(values < 0, -1, 1).astype(values.dtype)
        u, product, values = sign * u, sign * product, abs(values)
        total = values + jnp.swapaxes(values, -1, -2)
        change = adjoint(product) - product
        if n < m:
            outside = adjoint(image) - adjoint(product) @ u
            change = jnp.concatenate([change, outside], -1)
            total = jnp.concatenate([total, jnp.broadcast_to(values, outside.shape)], -1)
        counts = total > limits.eps * jnp.max(values, (-2, -1), keepdims=True)
        length = jnp.where(counts, jnp.maximum(total, abs(change)), 1)
        return u, jnp.where(counts, change, 0) / length

    def step(state: _State) -> _State:
        u, turn = turns(state.u)
        norm = jnp.sum(squares(turn), (-2, -1), keepdims=True)
        turn *= jnp.minimum(1, _LARGEST_NORM * lax.rsqrt(norm + limits.tiny))
        inside = turn[..., :n]
        turned = u + inside @ (u + 0.5 * (inside @ u))
        u = turned + turn[..., n:] if n < m else turned
        for _ in range(_CORRECTIONS[limits.bits // 8]):
            u = u + 0.5 * ((unit - u @ adjoint(u)) @ u)
        return _State(u, jnp.any(abs(turn) > _LARGEST_TURN), state.steps + 1)

    def going(state: _State) -> jax.Array:
        return state.going & (state.steps < MOST_STEPS)

    start = _State(u, jnp.array(True), np.int32(0))
    return lax.while_loop(going, step, start).u

"""Eigenvalues and eigenvectors of any square matrices."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    adjoint,
    divided,
    entry,
    inverse,
    magnitude,
    over_batch,
    reciprocal,
    scaled,
    squares,
    take,
    unit_phase,
)
from dialect_handlers.common.linalg.schur import (
    scales,
    schur_of_balanced,
    triangular_parts_aside,
)


class Eigen(NamedTuple):
    """A V = V diag(w) and U^H A = diag(w) U^H.

    Attributes:
        w: [..., n], complex.
        left: U [..., n, n], complex, or None.
        right: V [..., n, n], complex, or None. The columns of both have norm 1, and the largest
            element of each is real. Columns of real eigenvalues of real matrices are real.
        info: i32[...], the 1-based number of the last eigenvalue that was not found, or 0.
    """

    w: jax.Array
    left: jax.Array | None
    right: jax.Array | None
    info: jax.Array


def eig(a: jax.Array, *, left: bool, right: bool) -> Eigen:
    """The eigenvalues of a [..., n, n], and eigenvectors; NaN where A holds NaN or infinities."""
    return over_batch(lambda a: _eig(a, left, right), 2, a)


def _eig(a: jax.Array, left: bool, right: bool) -> Eigen:
    n = a.shape[0]
    if n == 0:
        nothing = a.astype(np.result_type(a, 1j))
        return Eigen(
            jnp.diagonal(nothing),
            nothing if left else None,
            nothing if right else None,
            jnp.int32(0),
        )
    a, scale = scaled(a)
    order, coupled, _ = triangular_parts_aside(a)
    back = inverse(order)
    a = take(take(a, order).T, order).T
    factors = scales(a, take(coupled, order))
    t, z, w, info = schur_of_balanced(a * factors / factors[:, None], left or right)
    triangle, turn, signs = (t, None, None) if jnp.iscomplexobj(a) else _triangle(t, w)

    def vectors(of_left: bool) -> jax.Array:
        """Eigenvectors of A, from the eigenvectors of T."""
        if of_left:
            x = _triangle_vectors(adjoint(triangle)[::-1, ::-1], jnp.conj(w)[::-1])[::-1, ::-1]
        else:
            x = _triangle_vectors(triangle, w)
        if turn is not None and signs is not None:
            x = turn @ x
            sign = signs.left if of_left else signs.right
            phases = unit_phase(jnp.conj(jnp.diagonal(x)))
            x = x * jnp.where(w.imag > 0, phases * sign, 1)
        x = z @ x
        x = x * (1 / factors if of_left else factors)[:, None]
        return _standard(take(x, back), w, real=turn is not None)

    return Eigen(
        w * scale, vectors(True) if left else None, vectors(False) if right else None, info
    )


class _Signs(NamedTuple):
    """The sign of the first element of the vectors of a real block of 2 x 2, in LAPACK's choice;
    [n], 1 elsewhere."""

    left: jax.Array
    right: jax.Array


def _triangle(t: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, _Signs]:
    """G^H T G, upper triangular, for a standardized real Schur form T and its eigenvalues w; and G.

    A block [[a, b], [c, a]] with b c < 0 has the eigenvector (b, i sqrt(-b c))."""
    above, below = (jnp.pad(jnp.diagonal(t, offset), (0, 1)) for offset in (1, -1))
    starts = below != 0
    size = jnp.where(starts, abs(above) + abs(below), 1)
    p = jnp.sqrt(jnp.where(starts, abs(above) / size, 1)) * jnp.where(starts & (above < 0), -1, 1)
    q = jnp.sqrt(jnp.where(starts, abs(below) / size, 0))
    diagonal = p * jnp.pad(jnp.where(starts, p, 1), (1, 0), constant_values=1)[:-1]
    q = q[:-1]
    turn = lax.complex(jnp.diag(diagonal), jnp.diag(q, 1) + jnp.diag(q, -1))
    n = t.shape[0]
    triangle = adjoint(turn) @ t @ turn
    triangle = jnp.where(np.eye(n, dtype=bool), w, jnp.triu(triangle, 1))
    sign = jnp.where(starts & (above < 0), -1, 1)
    larger = abs(above) >= abs(below)
    signs = _Signs(jnp.where(larger, sign, 1), jnp.where(larger, 1, sign))
    return triangle, turn, signs


def _triangle_vectors(t: jax.Array, w: jax.Array) -> jax.Array:
    """The eigenvectors of an upper triangular complex matrix, as columns of which no element is
    greater than 1, by substitution for all eigenvalues w at once."""
    n = w.shape[0]
    i = lax.iota(np.int32, n)
    epsilon = jnp.finfo(w.dtype).eps
    size = jnp.max(magnitude(t))
    size = jnp.where(size > 0, size, 1)
    t, w = divided(t, size), divided(w, size)
    smallest = jnp.maximum(epsilon * magnitude(w), epsilon * epsilon)

    def step(x: jax.Array, j: jax.Array) -> tuple[jax.Array, None]:
        row = entry(t, j)
        own = entry(w, j)
        divisor = w - own
        divisor = jnp.where(magnitude(divisor) < smallest, -smallest, divisor)
        new = jnp.where(i > j, (row @ x) * reciprocal(divisor), jnp.where(i == j, 1, 0))
        factor = 1 / jnp.maximum(magnitude(new), 1)
        x = x * factor
        return lax.dynamic_update_slice_in_dim(x, (new * factor)[None], j, 0, **IN_BOUNDS), None

    return lax.scan(step, jnp.zeros_like(t), i, reverse=True)[0]


def _standard(x: jax.Array, w: jax.Array, real: bool) -> jax.Array:
    """The columns with norm 1 and a real largest element, positive where A is not real."""
    if real:
        # The second of a pair is the conjugate of the first; the others are real.
        re, im = x.real, jnp.where(w.imag == 0, 0, x.imag)
        second = w.imag < 0
        re = jnp.where(second, jnp.roll(re, 1, 1), re)
        im = jnp.where(second, -jnp.roll(im, 1, 1), im)
        x = lax.complex(re, im)
    x = divided(x, jnp.sqrt(jnp.sum(squares(x), 0)))
    largest = lax.iota(np.int32, x.shape[0])[:, None] == jnp.argmax(squares(x), 0)
    element = jnp.sum(jnp.where(largest, x, 0), 0)
    phase = unit_phase(jnp.conj(element))
    if real:
        phase = jnp.where(element.real < 0, -phase, phase)
    x = x * phase
    return jnp.where(largest, x.real, x)

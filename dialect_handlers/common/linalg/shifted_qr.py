"""Schur forms of complex matrices by shifted QR iterations. Real ones: `real_shifted_qr`.

These are the iterations of LAPACK's lahqr, so the eigenvalues of small matrices have LAPACK's
order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    IN_BOUNDS,
    Triple,
    adjoint,
    divided,
    entry,
    magnitude,
    reciprocal,
    stretch,
)
from dialect_handlers.common.linalg.householder import reflection

STEPS_PER_EIGENVALUE = 30
"""Two or so are usual."""
EXCEPTIONAL = 10
"""After so many steps without success, and again and again, the shifts are chosen otherwise."""


class State(NamedTuple):
    """The state of the iteration, for real matrices, too.

    Attributes:
        rows: H with zeros around it, then Z^H.
        last: Rows after this one are done.
        tries: Steps since the last row was done.
        steps: All steps.
    """

    rows: jax.Array
    last: jax.Array
    tries: jax.Array
    steps: jax.Array


class _Near(NamedTuple):
    """H near its diagonal: main[k] = H[k, k], below[k] = H[k + 1, k], above[k] = H[k, k + 1], and
    before[k] = H[k, k - 1], all [n] with zeros outside of H."""

    main: jax.Array
    below: jax.Array
    above: jax.Array
    before: jax.Array


class _Start(NamedTuple):
    """For every row k: the vector that a step starting there reflects to a multiple of e_k, as
    columns of [2, n]; and whether the elements before row k are then negligible."""

    vectors: jax.Array
    small: jax.Array


def hessenberg_schur(h: jax.Array, z: jax.Array) -> Triple:
    """T and Z' with Z H Z^H = Z' T Z'^H. T is triangular.

    Args:
        h: [n, n], n >= 1, complex, zero below the diagonal beneath the main one; or NaN throughout.
        z: [p, n]

    Returns:
        T [n, n], Z' [p, n], and the number from 1 of the last eigenvalue not found, or 0.
    """
    n = h.shape[0]
    if n == 1:
        return h, z, jnp.int32(0)
    # A row and a column of zeros after H.
    rows = jnp.concatenate([jnp.pad(h, (0, 1)), jnp.pad(adjoint(z), [(0, 1), (0, 0)])], 1)
    last = jnp.where(jnp.isnan(h[0, 0].real), -1, n - 1).astype(np.int32)

    def step(now: State) -> State:
        near = _near(now.rows, n)
        first = _first(near, now.last)
        rows = _without(now.rows, first)
        done = first >= now.last
        tries = now.tries + 1
        start = _one_shift(near, first, now.last, tries)
        # The step may start below the first row, as long as the elements before are small.
        k = lax.iota(np.int32, n)
        there = start.small & (k < now.last) | (k == first)
        begin = jnp.max(jnp.where(there, k, 0))
        vector = entry(start.vectors, begin, 1)
        count = jnp.where(done, 0, now.last - begin)
        rows = lax.fori_loop(0, count, lambda i, x: _reflected(x, vector, begin + i, begin), rows)
        return State(
            rows,
            jnp.where(done, first - 1, now.last),
            jnp.where(done, 0, tries),
            now.steps + 1,
        )

    def going(now: State) -> jax.Array:
        return (now.last >= 0) & (now.steps < STEPS_PER_EIGENVALUE * max(n, 10))

    end = lax.while_loop(going, step, State(rows, last, np.int32(0), np.int32(0)))
    return end.rows[:n, :n], adjoint(end.rows[:n, n + 1 :]), end.last + 1


def _near(rows: jax.Array, n: int) -> _Near:
    below = jnp.diagonal(rows[1:, :n])
    above = jnp.diagonal(rows[:n, 1 : n + 1])
    return _Near(jnp.diagonal(rows[:n, :n]), below, above, _shifted(below, 1))


def _first(near: _Near, last: jax.Array) -> jax.Array:
    """The first row of the block that ends with row `last`: the element before it counts as 0, by
    the criterion of Ahues and Tisseur."""
    n = near.main.shape[0]
    limits = jnp.finfo(near.main.dtype)
    smallest = limits.tiny * (n / limits.eps)
    element, opposite = magnitude(near.before), magnitude(_shifted(near.above, 1))
    here, previous = magnitude(near.main), magnitude(_shifted(near.main, 1))
    difference = magnitude(_shifted(near.main, 1) - near.main)
    size = here + previous
    around = magnitude(_shifted(near.before, 1)) + magnitude(near.below)
    size = jnp.where(size == 0, around, size)
    larger, smaller = jnp.maximum(element, opposite), jnp.minimum(element, opposite)
    most, least = jnp.maximum(here, difference), jnp.minimum(here, difference)
    total = jnp.where(most + larger == 0, 1, most + larger)
    limit = jnp.maximum(smallest, limits.eps * (least * (most / total)))
    tiny = (element <= limits.eps * size) & (smaller * (larger / total) <= limit)
    small = (element <= smallest) | tiny
    k = lax.iota(np.int32, n)
    return jnp.max(jnp.where(small & (k <= last), k, 0))


def _without(rows: jax.Array, first: jax.Array) -> jax.Array:
    """H with 0 before the diagonal element of a row."""
    place = (first, jnp.maximum(first - 1, 0))
    old = lax.dynamic_slice(rows, place, (1, 1), **IN_BOUNDS)
    return lax.dynamic_update_slice(rows, jnp.where(first > 0, 0, old), place, **IN_BOUNDS)


def _reflected(rows: jax.Array, start: jax.Array, k: jax.Array, begin: jax.Array) -> jax.Array:
    """Q^H H Q and Q^H Z^H for the reflection of rows k and k + 1 that puts zeros below the
    first of the elements before them; in row `begin`, for the reflection that starts the step."""
    size, width = start.shape[0], rows.shape[1]
    band = stretch(rows, k, size)
    before = entry(band, k - 1, 1)
    before = jnp.where(k == begin, start, before)
    left, tau = reflection(before, np.int32(0))
    right = tau * left
    band = band - left[:, None] @ (jnp.conj(right)[None] @ band)
    zeros = (lax.iota(np.int32, width) < k) & (np.arange(size) > 0)[:, None]
    band = jnp.where(zeros, 0, band)
    rows = lax.dynamic_update_slice_in_dim(rows, band, k, 0, **IN_BOUNDS)
    columns = stretch(rows, k, size, 1)
    columns = columns - (columns @ right[:, None]) @ jnp.conj(left)[None]
    return lax.dynamic_update_slice_in_dim(rows, columns, k, 1, **IN_BOUNDS)


def _one_shift(near: _Near, first: jax.Array, last: jax.Array, tries: jax.Array) -> _Start:
    """For that eigenvalue of the last block of 2 x 2 that is nearer to the last element."""
    element = entry(near.main, last)
    product = jnp.sqrt(entry(near.above, last - 1)) * jnp.sqrt(entry(near.before, last))
    half = 0.5 * (entry(near.main, last - 1) - element)
    size = jnp.maximum(magnitude(product), magnitude(half))
    scale = jnp.where(size == 0, 1, size)
    p, x = divided(product, scale), divided(half, scale)
    root = jnp.sqrt(x * x + p * p)
    root = jnp.where(x.real * root.real + x.imag * root.imag < 0, -root, root)
    total = x + root
    quotient = p * reciprocal(jnp.where(total == 0, 1, total))
    shift = element - product * quotient
    bottom = tries % (2 * EXCEPTIONAL) == 0
    away = jnp.where(bottom, entry(near.before, last), entry(near.below, first))
    away = jnp.where(bottom, element, entry(near.main, first)) + 0.75 * magnitude(away)
    shift = jnp.where(tries % EXCEPTIONAL == 0, away, shift)

    main = near.main
    distance = main - shift
    size = magnitude(distance) + magnitude(near.below)
    size = jnp.where(size == 0, 1, size)
    v = jnp.stack([divided(distance, size), divided(near.below, size)])
    around = magnitude(main) + magnitude(_shifted(main, -1))
    epsilon = jnp.finfo(main.dtype).eps
    small = magnitude(near.before) * magnitude(v[1]) <= epsilon * magnitude(v[0]) * around
    k = lax.iota(np.int32, main.shape[0])
    return _Start(v, small & (k >= first))


def _shifted(x: jax.Array, by: int) -> jax.Array:
    """x [n] moved by one place to the right (1) or left (-1), with a zero at the other end."""
    return jnp.pad(x, (1, 0))[:-1] if by > 0 else jnp.pad(x, (0, 1))[1:]

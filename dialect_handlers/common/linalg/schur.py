"""Schur forms A = Z T Z^H, of matrices permuted and scaled before as in LAPACK's gebal: the parts
that are triangular already are set aside, and rows get the norms of their columns.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    Pair,
    Triple,
    entry,
    inverse,
    over_batch,
    scaled,
    squares,
    take,
)
from dialect_handlers.common.linalg.condensed_forms import hessenberg
from dialect_handlers.common.linalg.shifted_qr import hessenberg_schur

MOST_SWEEPS = 30
"""Two or three are usual."""
STANDARD_LIMIT = 4
"""In units of rounding: closer eigenvalues count as a double one, not as two real ones."""


class Schur(NamedTuple):
    """A = Z T Z^H.

    Attributes:
        t: [..., n, n], upper triangular; of real matrices with blocks of 2 x 2 for each pair of
            complex eigenvalues, equal elements on the diagonal and others of unlike signs.
        z: [..., n, n], unitary.
        w: The eigenvalues [..., n], complex.
        info: i32[...], from 1 the number of the last eigenvalue not found, or 0.
    """

    t: jax.Array
    z: jax.Array
    w: jax.Array
    info: jax.Array


def schur(a: jax.Array, *, vectors: bool) -> Schur:
    """The Schur form of a [..., n, n]; NaN where A holds NaN or infinities.

    Args:
        vectors: Whether Z is wanted; without it z is [..., 0, n].
    """
    return over_batch(lambda a: _schur(a, vectors), 2, a)


def _schur(a: jax.Array, vectors: bool) -> Schur:
    n = a.shape[0]
    if n == 0:
        return Schur(a, a, jnp.zeros(0, np.result_type(a, 1j)), jnp.int32(0))
    a, scale = scaled(a)
    order = triangular_parts_aside(a).order
    found = schur_of_balanced(take(take(a, order, 0), order, 1), vectors)
    back = inverse(order)
    # A matrix that is not finite has become NaN, but not all of its results.
    t = jnp.where(jnp.isnan(a), a, found.t * scale)
    z = jnp.where(jnp.isnan(a), a, take(found.z, back, 0)) if vectors else found.z
    return Schur(t, z, found.w * scale, found.info)


def schur_of_balanced(a: jax.Array, vectors: bool) -> Schur:
    """The Schur form of a matrix [n, n] of elements that are not extreme."""
    n = a.shape[0]
    h, reflections = hessenberg(a)
    unit = jnp.eye(n if vectors else 0, n, dtype=a.dtype)
    z = reflections.times(unit, shift=1) if vectors else unit
    t, z, info = hessenberg_schur(h, z)
    if jnp.iscomplexobj(a):
        return Schur(jnp.triu(t), z, jnp.diagonal(t), info)
    t, z = _standardized(t, z)
    below, above = jnp.diagonal(t, -1), jnp.diagonal(t, 1)
    imaginary = jnp.sqrt(abs(below)) * jnp.sqrt(abs(above))
    imaginary = jnp.pad(jnp.where(below == 0, 0, imaginary), (1, 1))
    w = jax.lax.complex(jnp.diagonal(t), imaginary[1:] - imaginary[:-1])
    return Schur(t, z, w, info)


def _standardized(t: jax.Array, z: jax.Array) -> Pair:
    """All blocks of 2 x 2 turned at once, as LAPACK's lanv2 turns one: to a triangle where the
    eigenvalues are real, else to equal elements on the diagonal."""
    n = t.shape[0]
    if n == 1:
        return t, z
    main, above, below = (jnp.diagonal(t, offset) for offset in (0, 1, -1))
    block = below != 0
    turned, cosine, sine = _standard(main[:-1], above, below, main[1:])
    cosine, sine = jnp.where(block, cosine, 1), jnp.where(block, sine, 0)
    # No two blocks overlap.
    cosines = jnp.append(cosine, 1) * jnp.append(1, cosine)
    turn = jnp.diag(cosines) + jnp.diag(sine, 1) - jnp.diag(sine, -1)
    t, z = turn @ t @ turn.T, z @ turn.T
    first, second = jnp.append(block, False), jnp.append(False, block)
    main = jnp.where(first, jnp.append(turned.a, 0), main)
    main = jnp.where(second, jnp.append(0, turned.d), main)
    i = np.arange(n)
    row, column = i[:, None], i
    t = jnp.where(row == column, main[:, None], jnp.where(row > column, 0, t))
    beside = first[:, None] & (column == row + 1)
    t = jnp.where(beside, jnp.append(turned.b, 0)[:, None], t)
    under = second[:, None] & (row == column + 1)
    return jnp.where(under, jnp.append(0, turned.c)[:, None], t), z


class _Block(NamedTuple):
    """Elements [[a, b], [c, d]] of matrices, arrays of one shape."""

    a: jax.Array
    b: jax.Array
    c: jax.Array
    d: jax.Array


class _Turned(NamedTuple):
    """What G = [[cosine, sine], [-sine, cosine]] makes of blocks: G [[a, b], [c, d]] G^T."""

    block: _Block
    cosine: jax.Array
    sine: jax.Array


def _standard(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> _Turned:
    """The turn that makes [[a, b], [c, d]], where c is not 0, standard."""
    scale = _nonzero(jnp.maximum(jnp.maximum(abs(a), abs(b)), jnp.maximum(abs(c), abs(d))))
    block = _Block(a / scale, b / scale, c / scale, d / scale)
    a, b, c, d = block
    half = 0.5 * (a - d)
    discriminant, real = _of_real_eigenvalues(block, half)
    pair = _of_a_pair(block, half)
    (_, above, below, _), zero = pair.block, jnp.zeros_like(a)
    like = (below != 0) & ((above == 0) | ((above < 0) == (below < 0)))
    choices = (
        (b == 0, _Turned(_Block(d, -c, zero, a), zero, zero + 1)),
        ((half == 0) & ((b < 0) != (c < 0)), _Turned(block, zero + 1, zero)),
        (discriminant >= STANDARD_LIMIT * jnp.finfo(a.dtype).eps, real),
        (like, _of_a_pair_that_is_real(pair)),
    )
    result = pair
    for condition, choice in reversed(choices):
        result = jax.tree.map(partial(jnp.where, condition), choice, result)
    return result._replace(block=_Block(*(x * scale for x in result.block)))


def _of_real_eigenvalues(block: _Block, half: jax.Array) -> tuple[jax.Array, _Turned]:
    """The discriminant, and the turn to a triangle where that is positive.

    Args:
        half: (a - d) / 2.
    """
    _, b, c, d = block
    larger, smaller = jnp.maximum(abs(b), abs(c)), jnp.minimum(abs(b), abs(c))
    smaller = jnp.where((b < 0) == (c < 0), smaller, -smaller)
    size = _nonzero(jnp.maximum(abs(half), larger))
    discriminant = half / size * half + larger / size * smaller
    root = jnp.sqrt(size) * jnp.sqrt(jnp.maximum(discriminant, 0))
    root = half + jnp.where(half < 0, -root, root)
    length = _nonzero(_hypot(c, root))
    triangle = _Block(d + root, b - c, jnp.zeros_like(c), d - larger / _nonzero(root) * smaller)
    return discriminant, _Turned(triangle, root / length, c / length)


def _of_a_pair(block: _Block, half: jax.Array) -> _Turned:
    """The turn to equal elements on the diagonal: of complex eigenvalues, or of real ones that are
    nearly equal."""
    a, b, c, d = block
    total = _nonzero(_hypot(b + c, 2 * half))
    cosine = jnp.sqrt(0.5 * (1 + abs(b + c) / total))
    sine = half / (total * cosine) * jnp.where(b + c < 0, 1, -1)
    rows = _Block(a * cosine + c * sine, b * cosine + d * sine, 0, 0)
    rows = rows._replace(c=c * cosine - a * sine, d=d * cosine - b * sine)
    first, last = rows.a * cosine + rows.b * sine, rows.d * cosine - rows.c * sine
    mean = 0.5 * (first + last)
    equal = _Block(mean, rows.b * cosine - rows.a * sine, rows.c * cosine + rows.d * sine, mean)
    return _Turned(equal, cosine, sine)


def _of_a_pair_that_is_real(pair: _Turned) -> _Turned:
    """Equal elements on the diagonal turned on, to a triangle, where the others are of like signs
    or the upper one is 0."""
    (mean, b, c, _), cosine, sine = pair
    above, below = jnp.sqrt(abs(b)), jnp.sqrt(abs(c))
    apart = jnp.where(c < 0, -above * below, above * below)
    norm = _nonzero(jnp.sqrt(abs(b) + abs(c)))
    more_cosine, more_sine = above / norm, below / norm
    return _Turned(
        _Block(mean + apart, b - c, jnp.zeros_like(c), mean - apart),
        cosine * more_cosine - sine * more_sine,
        cosine * more_sine + sine * more_cosine,
    )


def _nonzero(x: jax.Array) -> jax.Array:
    return jnp.where(x == 0, 1, x)


def _hypot(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sqrt(x * x + y * y)


class Order(NamedTuple):
    """The order of rows and columns.

    Attributes:
        order: Their numbers [n].
        coupled: bool[n], by number: those between the first and the last ones set aside.
        found: Whether the latest search found anything.
    """

    order: jax.Array
    coupled: jax.Array
    found: jax.Array


def triangular_parts_aside(a: jax.Array) -> Order:
    """Moves rows that are 0 except on the diagonal to the end, then such columns to the front.

    It moves one row at a time, and ignores the columns of rows that it has moved."""
    n = a.shape[0]
    filled = (a != 0) & ~np.eye(n, dtype=bool)
    order = Order(lax.iota(np.int32, n), jnp.ones(n, bool), jnp.bool_(True))
    order = _set_aside(filled, order, to_end=True)
    return _set_aside(filled.T, order._replace(found=jnp.bool_(True)), to_end=False)


def _set_aside(filled: jax.Array, start: Order, to_end: bool) -> Order:
    n = filled.shape[0]
    place = lax.iota(np.int32, n)

    def step(now: Order) -> Order:
        empty = now.coupled & ~jnp.any(filled & now.coupled, 1)
        left, empty = take(now.coupled, now.order), take(empty, now.order)
        if to_end:
            here, target = (jnp.max(jnp.where(x, place, 0)) for x in (empty, left))
        else:
            here, target = (jnp.min(jnp.where(x, place, n - 1)) for x in (empty, left))
        number, other = entry(now.order, here), entry(now.order, target)
        order = jnp.where(place == here, other, jnp.where(place == target, number, now.order))
        found = jnp.any(empty)
        coupled = now.coupled & ((place != number) | ~found)
        return Order(jnp.where(found, order, now.order), coupled, found)

    order: Order = lax.while_loop(lambda now: now.found, step, start)
    return order


def scales(a: jax.Array, coupled: jax.Array) -> jax.Array:
    """The powers of two d [n] with which D^-1 A D has rows about as long as its columns.

    Args:
        a: [n, n].
        coupled: bool[n], the rows and columns to scale, and to look at.
    """
    n = a.shape[0]
    i = lax.iota(np.int32, n)

    def balanced(d: jax.Array, k: jax.Array) -> jax.Array:
        own = entry(d, k)
        column = entry(a, k, 1)
        row = entry(a, k)
        ratios = jnp.where(coupled, d / own, 0)
        inverses = jnp.where(coupled, own / d, 0)
        length = jnp.sqrt(jnp.sum(squares(column) * inverses * inverses))
        width = jnp.sqrt(jnp.sum(squares(row) * ratios * ratios))
        some = (length > 0) & (width > 0)
        quotient = jnp.where(some, width, 1) / jnp.where(some, length, 1)
        factor = jnp.exp2(jnp.round(0.5 * jnp.log2(quotient)))
        pays = length * factor + width / factor < 0.95 * (length + width)
        return jnp.where((i == k) & coupled & some & pays, own * factor, d)

    def sweep(state: Triple) -> tuple[jax.Array, ...]:
        d, _, count = state
        new, _ = lax.scan(lambda d, k: (balanced(d, k), None), d, i)
        return new, jnp.any(new != d), count + 1

    def going(state: Triple) -> jax.Array:
        return state[1] & (state[2] < MOST_SWEEPS)

    start = (jnp.ones(n, a.real.dtype), jnp.bool_(True), np.int32(0))
    return lax.while_loop(going, sweep, start)[0]

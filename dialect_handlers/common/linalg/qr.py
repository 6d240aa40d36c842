"""QR factors by Householder reflections H = I - tau v v^H; v is 1 at its position and 0 before it.
Blocks of them are multiplied as I - V T V^H with a triangular T."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import (
    LARGEST_BLOCK,
    Pair,
    Triple,
    adjoint,
    block_size,
    divided,
    entry,
    first_largest,
    magnitude,
    over_batch,
    reciprocal,
    squares,
    stretch,
    take,
    triangle_inverse,
    with_unit_front,
)


def qr(a: jax.Array) -> Pair:
    """A = Q R as LAPACK's geqrf gives it.

    Args:
        a: [..., m, n].

    Returns:
        R, and below its diagonal the v of Q = H_1 ... H_k, packed into [..., m, n]; and the
        k = min(m, n) factors tau.
    """
    rank = min(a.shape[-2:])
    if rank == 0:
        return a, jnp.zeros((*a.shape[:-2], 0), a.dtype)

    def by_columns() -> Pair:
        return over_batch(_by_columns, 2, a)

    if a.shape[-1] <= LARGEST_BLOCK:
        return by_columns()
    packed, taus = over_batch(_by_blocks, 2, a)
    # Products of whole blocks spread NaN and infinities too far.
    finite = jnp.isfinite(packed).all() & jnp.isfinite(taus).all()
    packed, taus = lax.cond(finite, lambda: (packed, taus), by_columns)
    return packed, taus


def _by_blocks(a: jax.Array) -> Pair:
    m, n = a.shape
    rank = min(m, n)
    size = block_size(rank)
    count = -(-rank // size)
    # The columns of the unit matrix, which make the blocks whole, are their own reflection.
    new = count * size - rank
    a = with_unit_front(a, new)

    def step(carry: Pair, _: None) -> tuple[Pair, Pair]:
        rest, first = carry
        v, taus = _panel(stretch(rest, first, size, 1).T, first)
        v = v.T
        rest = rest - v @ (adjoint(_product_factor(v, taus)) @ (adjoint(v) @ rest))
        return (rest, first + size), (v, taus)

    (r, _), (v, taus) = lax.scan(step, (a, np.int64(0)), length=count)
    v = jnp.moveaxis(v, 0, 1).reshape(new + m, new + rank)[new:, new:]
    return _packed(v, r[new:, new:]), taus.reshape(-1)[new:]


def _by_columns(a: jax.Array) -> Pair:
    position = np.arange(a.shape[0])

    def step(p: jax.Array, k: jax.Array) -> tuple[jax.Array, Pair]:
        v, tau = reflection(take(p, k), k)
        # NaN that appears in later steps does not come from this column.
        return jnp.where(position >= k, reflected(p, v, tau), p), (v[0], tau[0, 0])

    rows, (v, taus) = lax.scan(step, a.T, np.arange(min(a.shape))[:, None])
    return _packed(v.T, rows.T), taus


def _packed(v: jax.Array, r: jax.Array) -> jax.Array:
    """The v [m, k] below the diagonal of r [m, n]."""
    i, j = (lax.iota(np.int32, extent) for extent in r.shape)
    v = jnp.pad(v, [(0, 0), (0, r.shape[1] - v.shape[1])])
    return jnp.where(i[:, None] > j, v, r)


def _panel(p: jax.Array, first: jax.Array) -> Pair:
    """The reflections that make a few columns, the rows of p [b, m], triangular.

    Args:
        first: The position of the first column's diagonal element.

    Returns:
        The v as rows of [b, m], and the b factors tau.
    """
    column = np.arange(p.shape[0])[:, None]
    here = first + column
    place, rest = here == np.arange(p.shape[1]), here <= np.arange(p.shape[1])

    def step(p: jax.Array, at: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        column, *where = at
        u, divisor = _direction(take(p, column), *where)
        # Where LAPACK takes the identity this is not one. It then changes the sign of one element
        # of each later column, which is above their own diagonal elements.
        return p - (p @ adjoint(u)) * reciprocal(divisor) * u, u[0]

    _, u = lax.scan(step, p, (column, here, place[:, None], rest[:, None]))
    v, taus = _unit(u, place)
    return v, taus[:, 0]


def reflected(p: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    """H^H applied to the columns that are the rows of p."""
    return p - (jnp.conj(tau) * (p @ adjoint(v))) * v


def reflection(x: jax.Array, here: jax.Array) -> Pair:
    """The v [1, n] and tau [1, 1] of the reflection that makes the elements of x [1, n] after the
    position `here` [1] 0 and keeps those before it: LAPACK's larfg.

    The element at `here` becomes beta, with the opposite sign of its real part. If it is real and
    only zeros follow it, nothing changes: tau is 0.
    """
    position = np.arange(x.shape[1])
    place, rest = position == here, position >= here
    # NaN must not come to the positions before.
    return _unit(jnp.where(rest, _direction(x, here, place, rest)[0], 0), place)


def _direction(x: jax.Array, here: jax.Array, place: jax.Array, rest: jax.Array) -> Pair:
    """A multiple u [1, n] of the v of `reflection`, and d [1, 1] with H^H = I - u u^H / d.

    Args:
        place, rest: The position `here`, and the positions from there on, as masks.
    """
    limits = jnp.finfo(x.dtype)
    alpha, x = take(x, here, 1), jnp.where(rest, x, 0)
    # Divided by a bound of the norm no square overflows, and not all of them underflow.
    bound = jnp.maximum(jnp.sum(magnitude(x), keepdims=True), limits.tiny)
    alpha, x = divided(alpha, bound), divided(x, bound)
    # Less only if all elements are 0.
    norm = jnp.maximum(jnp.sqrt(jnp.sum(squares(x), keepdims=True)), limits.eps)
    # The sign of -0 counts, too: a selection would lose it.
    one = norm.dtype.type(1)
    minus_beta = norm * lax.clamp(-one, limits.max / alpha.real, one)
    return x + place * minus_beta, minus_beta * (alpha + minus_beta)


def _unit(u: jax.Array, place: jax.Array) -> Pair:
    """The v [k, n] and tau [k, 1] of reflections with the directions u [k, n].

    Args:
        place: Where each v is 1, as a mask [k, n].
    """
    first = jnp.sum(jnp.where(place, u, 0), 1, keepdims=True)
    tail = jnp.where(place, 0, u)
    done = jnp.all(tail == 0, 1, keepdims=True)
    if jnp.iscomplexobj(u):
        done &= first.imag == 0
        v = tail * reciprocal(jnp.where(done, 1, first))
    else:
        v = tail / jnp.where(done, 1, first)
    square = squares(first) + jnp.sum(squares(tail), 1, keepdims=True)
    tau = divided(2 * first.real * first, square)
    return jnp.where(place, 1, v), jnp.where(done, 0, tau)


def _product_factor(v: jax.Array, taus: jax.Array) -> jax.Array:
    """The T of H_1 ... H_k = I - V T V^H, from the columns of V [m, k]: the inverse of a matrix
    with the inverse taus on its diagonal, in a form that lets them be 0."""
    overlaps = jnp.triu(adjoint(v) @ v, 1)
    unit = jnp.eye(v.shape[1], dtype=v.dtype)
    return triangle_inverse(unit + taus[:, None] * overlaps, unit=True) * taus


def multiply_by_q(
    a: jax.Array, taus: jax.Array, c: jax.Array, *, left: bool = True, adjoint_q: bool = False
) -> jax.Array:
    """Q C or C Q, or the same with Q^H, for the Q = H_1 ... H_k of `qr`: LAPACK's ormqr.

    Args:
        a: [..., m, n]; the v are below the diagonal of its first k columns.
        taus: [..., k].
        c: [..., m, p], or [..., p, m] for C Q.
    """
    if left:
        return over_batch(partial(_q_times, adjoint_q=adjoint_q), 2, a, taus, c)
    return adjoint(multiply_by_q(a, taus, adjoint(c), adjoint_q=not adjoint_q))


def product_of_reflections(a: jax.Array, taus: jax.Array) -> jax.Array:
    """The first columns of Q = H_1 ... H_k, in the shape of the packed a [..., m, n]."""
    unit = jnp.broadcast_to(jnp.eye(a.shape[-2], a.shape[-1], dtype=a.dtype), a.shape)
    return multiply_by_q(a, taus, unit)


def _q_times(a: jax.Array, taus: jax.Array, c: jax.Array, *, adjoint_q: bool) -> jax.Array:
    m, k = a.shape[0], taus.shape[0]
    if k == 0 or c.size == 0:
        return c
    size = block_size(k)
    count = -(-k // size)
    i, j = lax.iota(np.int32, m)[:, None], lax.iota(np.int32, k)
    v = jnp.where(i > j, a[:, :k], (i == j).astype(a.dtype))
    new = count * size - k
    v, taus = jnp.pad(v, [(0, 0), (0, new)]), jnp.pad(taus, [(0, new)])

    def step(carry: Pair, _: None) -> tuple[Pair, None]:
        c, first = carry
        block = stretch(v, first, size, 1)
        factor = _product_factor(block, stretch(taus, first, size))
        factor = adjoint(factor) if adjoint_q else factor
        c = c - block @ (factor @ (adjoint(block) @ c))
        return (c, first + (size if adjoint_q else -size)), None

    start = np.int64(0 if adjoint_q else (count - 1) * size)
    (c, _), _ = lax.scan(step, (c, start), length=count)
    return c


def pivoted_qr(a: jax.Array) -> Triple:
    """A P = Q R as in LAPACK's geqp3: the next column is the longest one below the finished rows.

    LAPACK estimates the lengths from the previous step; here they are exact. So the order may
    differ for columns of equal length up to rounding.

    Args:
        a: [..., m, n].

    Returns:
        R and the reflections, packed as by `qr`; the columns of A in the order of P,
        i32[..., n]; and the min(m, n) factors tau.
    """
    return over_batch(_pivoted_qr, 2, a)


def _pivoted_qr(a: jax.Array) -> Triple:
    """Columns stay in place; only their numbers in `order` move."""
    m, n = a.shape
    position = lax.iota(np.int32, n)
    if min(m, n) == 0:
        return a, position, jnp.zeros(0, a.dtype)
    below = lax.iota(np.int64, m)

    def step(carry: Triple, _: None) -> tuple[Triple, Triple]:
        columns, order, k = carry
        lengths = jnp.sum(jnp.where(below >= k, squares(columns), 0), axis=1)
        lengths = take(lengths, order)
        found = first_largest(lengths, k)
        number, here = (stretch(order, i, 1) for i in (found, k))
        order = jnp.where(position == found, here, order)
        order = jnp.where(position == k, number, order)
        v, tau = reflection(take(columns, number), k[None])
        columns = reflected(columns, v, tau)
        return (columns, order, k + 1), (entry(columns, k, 1), v[0], tau[0, 0])

    (_, order, _), (r, v, taus) = lax.scan(step, (a.T, position, np.int64(0)), length=min(m, n))
    r = take(r, order, 1)
    r = jnp.pad(r, [(0, m - r.shape[0]), (0, 0)])
    v = jnp.pad(v.T, [(0, 0), (0, n - v.shape[0])])
    return jnp.where(below[:, None] > position, v, r), order, taus

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
    magnitude,
    over_batch,
    reciprocal,
    squares,
    stretch,
    triangle_inverse,
    with_unit_front,
)
from dialect_handlers.common.linalg.real_panel import real_panel
from dialect_handlers.common.linalg.scaling import scaled


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

    if a.shape[-1] <= LARGEST_BLOCK and jnp.iscomplexobj(a):
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
    a, scale = (a, None) if jnp.iscomplexobj(a) else scaled(a)
    # The columns of the unit matrix, which make the blocks whole, are their own reflection.
    new = count * size - rank
    a = with_unit_front(a, new)

    def step(carry: Pair, _: None) -> tuple[Pair, Pair]:
        rest, first = carry
        columns = stretch(rest, first, size, 1)
        v, taus = (_panel if scale is None else real_panel)(columns.T, first)
        v = v.T
        rest = rest - v @ (adjoint(_product_factor(v, taus)) @ (adjoint(v) @ rest))
        return (rest, first + size), (v, taus)

    (r, _), (v, taus) = lax.scan(step, (a, np.int64(0)), length=count)
    v = jnp.moveaxis(v, 0, 1).reshape(new + m, new + rank)[new:, new:]
    r = r[new:, new:] if scale is None else r[new:, new:] * scale
    return _packed(v, r), taus.reshape(-1)[new:]


def _by_columns(a: jax.Array) -> Pair:
    m, n = a.shape
    position = lax.iota(np.int64, m)

    def step(carry: Pair, _: None) -> tuple[Pair, Triple]:
        rows, k = carry
        column = entry(rows, k)
        v, tau = reflection(column, k)
        rows = jnp.where(position >= k, reflected(rows, v, tau), rows)
        # NaN that appears in later steps does not come from this column.
        done = entry(rows, k)
        return (rows, k + 1), (done, v, tau)

    (rows, _), (r, v, taus) = lax.scan(step, (a.T, np.int64(0)), length=min(m, n))
    return _packed(v.T, jnp.concatenate([r, rows[min(m, n) :]]).T), taus


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

    def step(carry: Pair, _: None) -> tuple[Pair, Pair]:
        p, k = carry
        column = entry(p, k)
        v, tau = reflection(column, first + k)
        return (reflected(p, v, tau), k + 1), (v, tau)

    _, (v, taus) = lax.scan(step, (p, np.int64(0)), length=p.shape[0])
    return v, taus


def reflected(p: jax.Array, v: jax.Array, tau: jax.Array) -> jax.Array:
    """H^H applied to the columns that are the rows of p."""
    return p - (jnp.conj(tau) * (p @ jnp.conj(v)))[:, None] * v


def reflection(x: jax.Array, here: jax.Array) -> Pair:
    """The v [n] and tau of the reflection that makes the elements of x [n] after position `here` 0
    and keeps those before it: LAPACK's larfg.

    The element at `here` becomes beta, with the opposite sign of its real part. If it is real and
    only zeros follow it, nothing changes: tau is 0.
    """
    position = lax.iota(np.int64, x.shape[0])
    tail = jnp.where(position > here, x, 0)
    alpha = entry(x, here)
    size = jnp.sum(magnitude(tail))
    done = size == 0
    if jnp.iscomplexobj(x):
        done &= alpha.imag == 0
    # Scaled by a bound of the norm no square overflows, and not all of them underflow.
    scale = size + magnitude(alpha)
    norm = scale * jnp.sqrt(jnp.sum(squares(divided(tail, scale))) + squares(divided(alpha, scale)))
    # Not alpha >= 0: that holds for -0 too.
    minus_beta = jnp.where(1 / alpha.real > 0, norm, -norm)
    tau = jnp.where(done, 0, divided(alpha + minus_beta, minus_beta))
    v = tail * reciprocal(jnp.where(done, 1, alpha + minus_beta))
    return jnp.where(position == here, 1, v), tau


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

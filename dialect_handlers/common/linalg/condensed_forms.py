"""Reductions of matrices to few diagonals by reflections, in finitely many steps.

The reflections of a reduction are those of `householder.reflection`. The rows of `v` [k, n] are
their vectors. Row j is 1 at position j, or at j + 1 for shifted reflections, and 0 before. `tau`
[k] holds their factors.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import entry
from dialect_handlers.common.linalg.householder import multiply_by_q, reflection


class Reflections(NamedTuple):
    """A product Q = H_1 H_2 ... of reflections: their vectors and factors."""

    v: jax.Array
    tau: jax.Array

    def times(self, x: jax.Array, shift: int = 0) -> jax.Array:
        """Q X.

        Args:
            x: [n, p].
            shift: The number of coordinates that the first reflection does not change.
        """
        head, tail = x[:shift], x[shift:]
        return jnp.concatenate([head, multiply_by_q(self.v[:, shift:].T, self.tau, tail)])


def tridiagonalize(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections]:
    """T = Q^H A Q, as LAPACK's sytrd and hetrd give it for the lower triangle.

    Args:
        a: Hermitian [n, n], n >= 1.

    Returns:
        The diagonal [n] and the subdiagonal [n - 1] of T, both real; and the n - 1
        reflections, shifted by 1.
    """
    n = a.shape[0]

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, Reflections]:
        row = entry(a, k)
        v, tau = reflection(jnp.conj(row), k + 1)
        # A stays Hermitian, and so A v = (v^H A)^H.
        w = tau * jnp.conj(jnp.conj(v) @ a)
        w = w - (0.5 * tau * jnp.sum(jnp.conj(w) * v)) * v
        change = jnp.stack([v, w], axis=1) @ jnp.conj(jnp.stack([w, v]))
        return a - change, Reflections(v, tau)

    a, reflections = lax.scan(step, a, lax.iota(np.int32, n - 1))
    return jnp.diagonal(a, 0).real, jnp.diagonal(a, -1).real, reflections


def bidiagonalize(
    a: jax.Array,
) -> tuple[jax.Array, jax.Array, Reflections, Reflections]:
    """B = Q^H A P, upper bidiagonal, by a column and a row in turn.

    Args:
        a: [m, n], m >= n >= 1.

    Returns:
        The diagonal [n] and the superdiagonal [n - 1] of B, both real; the n reflections of Q;
        and the reflections of P, shifted by 1. The last one does nothing.
    """
    n = a.shape[1]
    # A column of zeros, so that the last row has a reflection too.
    a = jnp.pad(a, [(0, 0), (0, 1)])

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[Reflections, Reflections]]:
        column = entry(a, k, 1)
        v, tau = reflection(column, k)
        from_left = jnp.conj(tau) * (jnp.conj(v) @ a)
        row = entry(a, k) - from_left
        w, rho = reflection(jnp.conj(row), k + 1)
        from_right = rho * (a @ w - v * jnp.sum(from_left * w))
        change = jnp.stack([v, from_right], axis=1) @ jnp.stack([from_left, jnp.conj(w)])
        return a - change, (Reflections(v, tau), Reflections(w, rho))

    a, (left, right) = lax.scan(step, a, lax.iota(np.int32, n))
    right = Reflections(right.v[:, :n], right.tau)
    return jnp.diagonal(a[:, :n], 0).real, jnp.diagonal(a[:, :n], 1).real, left, right


def hessenberg(
    a: jax.Array, low: int = 0, high: int | None = None
) -> tuple[jax.Array, Reflections]:
    """H = Q^H A Q, zero below the diagonal beneath the main one: LAPACK's gehrd.

    Args:
        a: [n, n], n >= 1.
        low, high: Rows and columns outside of low .. high - 1 are triangular already.

    Returns:
        H [n, n]; and the n - 1 reflections, shifted by 1.
    """
    n = a.shape[0]
    high = n if high is None else high
    i = lax.iota(np.int32, n)

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, Reflections]:
        column = entry(a, k, 1)
        if (low, high) != (0, n):
            column = jnp.where((i < high) & (k >= low), column, 0)
        v, tau = reflection(column, k + 1)
        a = a - (tau * (a @ v))[:, None] * jnp.conj(v)
        a = a - v[:, None] * (jnp.conj(tau) * (jnp.conj(v) @ a))
        return a, Reflections(v, tau)

    a, reflections = lax.scan(step, a, lax.iota(np.int32, n - 1))
    return jnp.triu(a, -1), reflections

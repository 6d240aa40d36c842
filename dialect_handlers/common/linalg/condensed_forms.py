"""Reductions of matrices to few diagonals by reflections, in finitely many steps.

The reflections of a reduction are those of `qr.reflection`. The rows of `v` [k, n] are
their vectors. Row j is 1 at position j, or at j + 1 for shifted reflections, and 0 before. `tau`
[k] holds their factors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dialect_handlers.common.linalg.blocks import take
from dialect_handlers.common.linalg.qr import multiply_by_q, reflection


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


_Step = Callable[[jax.Array, jax.Array], tuple[jax.Array, tuple[Reflections, ...]]]


def tridiagonalize(a: jax.Array) -> tuple[jax.Array, jax.Array, Reflections]:
    """T = Q^H A Q, as LAPACK's sytrd and hetrd give it for the lower triangle.

    Args:
        a: Hermitian [n, n], n >= 1.

    Returns:
        The diagonal [n] and the subdiagonal [n - 1] of T, both real; and the n - 1
        reflections, shifted by 1.
    """

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[Reflections, ...]]:
        v, tau = reflection(jnp.conj(take(a, k)), k + 1)
        # A stays Hermitian, and so A v = (v^H A)^H.
        w = tau * jnp.conj(jnp.conj(v) @ a)
        w = w - (0.5 * tau * (jnp.conj(w) @ v.T)) * v
        change = jnp.concatenate([v, w]).T @ jnp.conj(jnp.concatenate([w, v]))
        return a - change, (Reflections(v, tau),)

    d, e, (q,) = _diagonals(step, a, a.shape[0] - 1, -1)
    return d, e, q


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

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[Reflections, ...]]:
        v, tau = reflection(take(a, k, 1).T, k)
        from_left = jnp.conj(tau) * (jnp.conj(v) @ a)
        w, rho = reflection(jnp.conj(take(a, k) - from_left), k + 1)
        from_right = rho * (a @ w.T - v.T * (from_left @ w.T))
        columns, rows = [v.T, from_right], [from_left, jnp.conj(w)]
        change = jnp.concatenate(columns, 1) @ jnp.concatenate(rows)
        return a - change, (Reflections(v, tau), Reflections(w, rho))

    # A column of zeros, so that the last row has a reflection too.
    d, e, (left, right) = _diagonals(step, jnp.pad(a, [(0, 0), (0, 1)]), n, 1)
    return d[:n], e[: n - 1], left, Reflections(right.v[:, :n], right.tau)


def _diagonals(
    step: _Step, a: jax.Array, count: int, offset: int
) -> tuple[jax.Array, jax.Array, list[Reflections]]:
    """The real diagonal and the one beside it after so many steps, and the reflections.

    Args:
        step: Makes the first column, the second, ... of what is left of A final.
    """
    a, found = lax.scan(step, a, np.arange(count)[:, None])
    reflections = [Reflections(v[:, 0], tau[:, 0, 0]) for v, tau in found]
    return jnp.diagonal(a).real, jnp.diagonal(a, offset).real, reflections


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
    i = np.arange(n)

    def step(a: jax.Array, k: jax.Array) -> tuple[jax.Array, Reflections]:
        column = take(a, k, 1).T
        if (low, high) != (0, n):
            column = jnp.where((i < high) & (k >= low), column, 0)
        v, tau = reflection(column, k + 1)
        a = a - (tau * (a @ v.T)) * jnp.conj(v)
        a = a - v.T * (jnp.conj(tau) * (jnp.conj(v) @ a))
        return a, Reflections(v[0], tau[0, 0])

    a, reflections = lax.scan(step, a, np.arange(n - 1)[:, None])
    return jnp.triu(a, -1), reflections

"""Judges the factors of a matrix by their unique properties.

Vectors may be unique only up to sign, phase or order. Also, a change in the last bit of an
ill-conditioned matrix can change all digits of its factors. A good algorithm keeps two errors
small: the difference of the factors' product from the matrix, and the distance of a unitary factor
from orthogonality.

The functions take arrays of NumPy or of JAX, [..., m, n]. They return the error of the worst matrix
of a batch, relative to its norm.
"""

from __future__ import annotations

from typing import TypeAlias

import jax
import numpy as np

Array: TypeAlias = np.ndarray | jax.Array

TIMES_XLA = 4
"""Limit of an error relative to XLA's. Both are sums of random rounding errors."""
UNITS = 10
"""An error of this many units in the last place is always good."""

TINY = np.finfo(np.float64).tiny
"""Matrices of a smaller norm count as 0."""


def limit(xla: Array, dtype: np.dtype) -> Array:
    """The largest good error, for XLA's error and the type of the factors."""
    least, most = UNITS * float(np.finfo(dtype).eps), TIMES_XLA * xla
    return most + (least - most) * (most < least)  # the larger one, also of traced arrays


def wide(array: Array) -> Array:
    """An array of floats in 64 bits, or a complex one in 128."""
    return array.astype(np.result_type(array.dtype, np.float64))


def adjoint(x: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return x.swapaxes(-1, -2).conj()


def norm(x: Array) -> Array:
    """The Frobenius norm of each matrix."""
    return (abs(x) ** 2).sum((-2, -1)) ** 0.5


def relative(difference: Array, whole: Array) -> Array:
    """The largest norm of the difference among the matrices of a batch, relative to the whole."""
    size = norm(whole)
    return (norm(difference) / (size + (size < TINY))).max(initial=0)


def defect(q: Array) -> Array:
    """The distance of the columns of q from orthonormality."""
    unit = np.eye(q.shape[-1])
    return relative(adjoint(q) @ q - unit, unit)


def hermitian(a: Array, lower: bool) -> Array:
    """The Hermitian matrix of one triangle and the real part of the diagonal."""
    n = a.shape[-1]
    triangle = a * (np.tril(np.ones((n, n)), -1) if lower else np.triu(np.ones((n, n)), 1))
    return triangle + adjoint(triangle) + a.real * np.eye(n)


def eigh_error(a: Array, v: Array, w: Array) -> tuple[Array, Array]:
    """A V - V diag(w); and I - V^H V."""
    return relative(a @ v - v * w[..., None, :], a), defect(v)


def svd_error(a: Array, s: Array, u: Array, vh: Array) -> tuple[Array, Array]:
    """A - U diag(s) V^H; and I - U^H U or I - V^H V."""
    rank = s.shape[-1]
    product = (u[..., :rank] * s[..., None, :]) @ vh[..., :rank, :]
    defects = defect(u), defect(adjoint(vh))
    return relative(a - product, a), sum(defects)


def eig_error(a: Array, w: Array, v: Array) -> tuple[Array, Array]:
    """A V - V diag(w); and 1 - the norms of vectors."""
    lengths = (abs(v) ** 2).sum(-2) ** 0.5
    return relative(a @ v - v * w[..., None, :], a), abs(lengths - 1).max(initial=0)


def schur_error(a: Array, t: Array, z: Array) -> tuple[Array, Array]:
    """A - Z T Z^H, and the part of T below its diagonal or its blocks of 2 x 2; and I - Z^H Z."""
    n = t.shape[-1]
    below = t * np.tril(np.ones((n, n)), -1 if np.iscomplexobj(t) else -2)
    return relative(a - z @ t @ adjoint(z), a) + relative(below, a), defect(z)

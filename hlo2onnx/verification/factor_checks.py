"""Whether factors of a matrix are right, judged by what is unique about them.

Vectors may be unique only up to their sign, phase or order, and a change of the last bit of an
ill-conditioned matrix may change all digits of its factors. What a good algorithm keeps small is
the difference between their product and the matrix, and the distance of a unitary factor from
orthogonality.

The functions take arrays of NumPy or of JAX, [..., m, n], and return how large the error is,
relative to the norm of the matrix, in the worst matrix of a batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TIMES_XLA = 4
"""How much larger than XLA's an error may be; both are sums of random rounding errors."""
UNITS = 10
"""An error of this many units in the last place is good whatever XLA's is."""

TINY = np.finfo(np.float64).tiny
"""Matrices of a smaller norm count as 0."""


def limit(xla: Any, dtype: np.dtype) -> Any:
    """The largest error that is good, where XLA's is this and the factors have this type."""
    least, most = UNITS * float(np.finfo(dtype).eps), TIMES_XLA * xla
    return most + (least - most) * (most < least)  # the larger one, also of traced arrays


def wide(array: Any) -> Any:
    """An array of floats in 64 bits, or a complex one in 128."""
    return array.astype(np.result_type(array.dtype, np.float64))


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return x.swapaxes(-1, -2).conj()


def norm(x: Any) -> Any:
    """The Frobenius norm of each matrix."""
    return (abs(x) ** 2).sum((-2, -1)) ** 0.5


def relative(difference: Any, whole: Any) -> Any:
    """The largest norm of the difference among the matrices of a batch, relative to the whole."""
    size = norm(whole)
    return (norm(difference) / (size + (size < TINY))).max(initial=0)


def defect(q: Any) -> Any:
    """How far the columns of q are from being orthonormal."""
    unit = np.eye(q.shape[-1])
    return relative(adjoint(q) @ q - unit, unit)


def hermitian(a: Any, lower: bool) -> Any:
    """The Hermitian matrix of which one triangle is given, and the real part of the diagonal."""
    n = a.shape[-1]
    triangle = a * (np.tril(np.ones((n, n)), -1) if lower else np.triu(np.ones((n, n)), 1))
    return triangle + adjoint(triangle) + a.real * np.eye(n)


def eigh_error(a: Any, v: Any, w: Any) -> tuple[Any, Any]:
    """A V - V diag(w); and I - V^H V."""
    return relative(a @ v - v * w[..., None, :], a), defect(v)


def svd_error(a: Any, s: Any, u: Any, vh: Any) -> tuple[Any, Any]:
    """A - U diag(s) V^H; and I - U^H U or I - V^H V."""
    rank = s.shape[-1]
    product = (u[..., :rank] * s[..., None, :]) @ vh[..., :rank, :]
    defects = defect(u), defect(adjoint(vh))
    return relative(a - product, a), sum(defects)


def eig_error(a: Any, w: Any, v: Any) -> tuple[Any, Any]:
    """A V - V diag(w); and 1 - the norms of vectors."""
    lengths = (abs(v) ** 2).sum(-2) ** 0.5
    return relative(a @ v - v * w[..., None, :], a), abs(lengths - 1).max(initial=0)


def schur_error(a: Any, t: Any, z: Any) -> tuple[Any, Any]:
    """A - Z T Z^H, and what T has below its diagonal or its blocks of 2 x 2; and I - Z^H Z."""
    n = t.shape[-1]
    below = t * np.tril(np.ones((n, n)), -1 if np.iscomplexobj(t) else -2)
    return relative(a - z @ t @ adjoint(z), a) + relative(below, a), defect(z)

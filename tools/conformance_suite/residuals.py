"""Factors judged by their product.

Vectors may be unique only up to their sign, phase or order, and a change of the last bit of an
ill-conditioned matrix may change all digits of its factors. What a good algorithm keeps small is
the difference between their product and the matrix.

    cholesky   L              A - L L^H, of the lower triangle
    lu         LU, _, rows    A[rows] - L U
    qr         Q, R, [P]      A[:, P] - Q R, and I - Q^H Q
    eigh       V, w           A - V diag(w) V^H, and I - V^H V
    svd        s, [U, V^H]    A - U diag(s) V^H, I - U^H U, and I - V^H V
    eig        w, [VL], [VR]  A VR - VR diag(w), A^H VL - VL diag(w)^H, the norms of vectors, and
                              w against the eigenvalues in f64, in the order that fits best and
                              relative to how much each of them moves when A does

The values of eigh and svd are not among what is judged so: they have to be XLA's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

Arrays = Sequence[np.ndarray]

TIMES_XLA = 4
"""How much larger than XLA's a residual may be; both are sums of random rounding errors."""
UNITS = 10
"""A residual of this many units in the last place is good whatever XLA's is."""


def as_good(group: str, inputs: Arrays, actual: Arrays, expected: Arrays) -> set[int]:
    """The results of a harness of a group that are factors as good as XLA's, by their index."""
    judgement = _JUDGEMENTS.get(group)
    if judgement is None or not all(map(_alike, actual, expected)):
        return set()
    matrix = _wide(inputs[0])
    ours, theirs = ([_wide(item) for item in run] for run in (actual, expected))
    xla, error = min(
        ((error(matrix, theirs), error) for error in judgement.errors), key=itemgetter(0)
    )
    unit = float(np.finfo(expected[0].dtype).eps)
    if not error(matrix, ours) <= max(TIMES_XLA * xla, UNITS * unit):
        return set()
    return set(range(len(expected))[judgement.of])


def _alike(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal integers, and numbers where the other has numbers."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind in "iu":
        return bool((got == want).all())
    return bool((np.isfinite(got) == np.isfinite(want)).all() and np.isfinite(want).all())


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.result_type(array, np.float64)) if array.dtype.kind in "fc" else array


def _relative(difference: np.ndarray, whole: np.ndarray) -> float:
    """The largest norm of the difference among the matrices of a batch, relative to the whole."""
    return float(np.max(_norm(difference) / np.maximum(_norm(whole), _TINY), initial=0))


_TINY = np.finfo(np.float64).tiny


def _norm(a: np.ndarray) -> np.ndarray:
    norms: np.ndarray = np.linalg.norm(a, axis=(-2, -1))
    return norms


def _adjoint(x: np.ndarray) -> np.ndarray:
    transposed: np.ndarray = np.swapaxes(x, -1, -2).conj()
    return transposed


def _not_unitary(q: np.ndarray) -> float:
    """How far the columns of q are from being orthonormal."""
    unit = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    return _relative(unit - _adjoint(q) @ q, unit)


def _cholesky(a: np.ndarray, results: Arrays) -> float:
    lower = np.tril(results[0])
    return _relative(np.tril(a - lower @ _adjoint(lower)), a)


def _lu(a: np.ndarray, results: Arrays) -> float:
    packed, _, rows = results
    rank = min(a.shape[-2:])
    lower = np.tril(packed[..., :rank], -1) + np.eye(a.shape[-2], rank)
    permuted = np.take_along_axis(a, rows[..., None].astype(np.int64), axis=-2)
    return _relative(permuted - lower @ np.triu(packed[..., :rank, :]), a)


def _qr(a: np.ndarray, results: Arrays) -> float:
    q, r, *order = results
    if order:
        a = np.take_along_axis(a, order[0][..., None, :].astype(np.int64), axis=-1)
    return max(_relative(a - q @ r, a), _not_unitary(q))


def _eigh(a: np.ndarray, results: Arrays) -> float:
    v, w = results
    return max(_relative(a - v * w[..., None, :] @ _adjoint(v), a), _not_unitary(v))


def _svd(a: np.ndarray, results: Arrays) -> float:
    s, *vectors = results
    if not vectors:
        return 0.0
    u, vh = vectors
    rank = s.shape[-1]
    product = u[..., :rank] * s[..., None, :] @ vh[..., :rank, :]
    return max(_relative(a - product, a), _not_unitary(u), _not_unitary(_adjoint(vh)))


def _eig(a: np.ndarray, results: Arrays, *, alone: Literal["left", "right"]) -> float:
    """Vectors are left and right ones, or those of one side."""
    w, *vectors = results
    sides = {"left": (_adjoint(a), w.conj()), "right": (a, w)}
    wanted = [sides[alone]] if len(vectors) == 1 else list(sides.values())[: len(vectors)]
    errors = [_eigenvectors(*side, v) for side, v in zip(wanted, vectors, strict=True)]
    return max([_eigenvalues(a, w), *errors])


def _eigenvectors(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> float:
    lengths = np.linalg.norm(v, axis=-2, keepdims=True)
    return max(_relative(a @ v - v * w[..., None, :], a), float(abs(lengths - 1).max(initial=0)))


def _eigenvalues(a: np.ndarray, w: np.ndarray) -> float:
    """The largest change of a matrix, relative to it, that an error of an eigenvalue stands for."""
    true, v = np.linalg.eig(a)
    conditions = np.linalg.norm(v, axis=-2) * np.linalg.norm(np.linalg.inv(v), axis=-1)
    worst = 0.0
    for index in np.ndindex(a.shape[:-2]):
        distances = abs(true[index][:, None] - w[index])
        distances /= conditions[index][:, None] * max(np.linalg.norm(a[index]), _TINY)
        worst = max(worst, float(distances[linear_sum_assignment(distances)].max(initial=0)))
    return worst


class _Judgement(NamedTuple):
    """How the results of a group are judged.

    Attributes:
        errors: What is 0 for the factors of a matrix; one function for each way in which the
            results can be meant, of which XLA's decide.
        of: The results that need no other comparison then.
    """

    errors: Sequence[Callable[[np.ndarray, Arrays], float]]
    of: slice = slice(None)


_JUDGEMENTS = {
    "cholesky": _Judgement([_cholesky]),
    "lu": _Judgement([_lu]),
    "qr": _Judgement([_qr]),
    "eigh": _Judgement([_eigh], of=slice(1)),
    "svd": _Judgement([_svd], of=slice(1, None)),
    "eig": _Judgement([partial(_eig, alone="left"), partial(_eig, alone="right")]),
}

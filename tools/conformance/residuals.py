"""Factors judged by their product.

Vectors may be unique only up to their sign, phase or order, and a change of the last bit of an
ill-conditioned matrix may change all digits of its factors. What a good algorithm keeps small is
the difference between their product and the matrix.

    cholesky   L              A - L L^H, of the lower triangle
    lu         LU, _, rows    A[rows] - L U
    qr         Q, R, [P]      A[:, P] - Q R, and I - Q^H Q
    eigh       V, w           A V - V diag(w), and I - V^H V
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

from hlo2onnx.verify.decompositions import (
    TINY,
    adjoint,
    defect,
    eig_error,
    eigh_error,
    limit,
    relative,
    svd_error,
    wide,
)

Arrays = Sequence[np.ndarray]


def as_good(group: str, inputs: Arrays, actual: Arrays, expected: Arrays) -> set[int]:
    """The results of a harness of a group that are factors as good as XLA's, by their index."""
    judgement = _JUDGEMENTS.get(group)
    if judgement is None or not all(map(_alike, actual, expected)):
        return set()
    matrix = _as_wide(inputs[0])
    ours, theirs = ([_as_wide(item) for item in run] for run in (actual, expected))
    xla, error = min(
        ((error(matrix, theirs), error) for error in judgement.errors), key=itemgetter(0)
    )
    if not error(matrix, ours) <= limit(xla, expected[0].dtype):
        return set()
    return set(range(len(expected))[judgement.of])


def _alike(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal integers, and numbers where the other has numbers."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind in "iu":
        return bool((got == want).all())
    return bool((np.isfinite(got) == np.isfinite(want)).all() and np.isfinite(want).all())


def _as_wide(array: np.ndarray) -> np.ndarray:
    return wide(array) if array.dtype.kind in "fc" else array


def _cholesky(a: np.ndarray, results: Arrays) -> float:
    lower = np.tril(results[0])
    return relative(np.tril(a - lower @ adjoint(lower)), a)


def _lu(a: np.ndarray, results: Arrays) -> float:
    packed, _, rows = results
    rank = min(a.shape[-2:])
    lower = np.tril(packed[..., :rank], -1) + np.eye(a.shape[-2], rank)
    permuted = np.take_along_axis(a, rows[..., None].astype(np.int64), axis=-2)
    return relative(permuted - lower @ np.triu(packed[..., :rank, :]), a)


def _qr(a: np.ndarray, results: Arrays) -> float:
    q, r, *order = results
    if order:
        a = np.take_along_axis(a, order[0][..., None, :].astype(np.int64), axis=-1)
    return max(relative(a - q @ r, a), defect(q))


def _eigh(a: np.ndarray, results: Arrays) -> float:
    return max(eigh_error(a, *results))


def _svd(a: np.ndarray, results: Arrays) -> float:
    s, *vectors = results
    if not vectors:
        return 0.0
    return max(svd_error(a, s, *vectors))


def _eig(a: np.ndarray, results: Arrays, *, alone: Literal["left", "right"]) -> float:
    """Vectors are left and right ones, or those of one side."""
    w, *vectors = results
    sides = {"left": (adjoint(a), w.conj()), "right": (a, w)}
    wanted = [sides[alone]] if len(vectors) == 1 else list(sides.values())[: len(vectors)]
    errors = [max(eig_error(*side, v)) for side, v in zip(wanted, vectors, strict=True)]
    return max([_eigenvalues(a, w), *errors])


def _eigenvalues(a: np.ndarray, w: np.ndarray) -> float:
    """The largest change of a matrix, relative to it, that an error of an eigenvalue stands for."""
    true, v = np.linalg.eig(a)
    conditions = np.linalg.norm(v, axis=-2) * np.linalg.norm(np.linalg.inv(v), axis=-1)
    worst = 0.0
    for index in np.ndindex(a.shape[:-2]):
        distances = abs(true[index][:, None] - w[index])
        distances /= conditions[index][:, None] * max(np.linalg.norm(a[index]), TINY)
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

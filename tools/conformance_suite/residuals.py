"""Factors of ill-conditioned matrices, judged by their product.

A change of the last bit of the matrix may change all digits of its factors. What a good algorithm
keeps small is the difference between their product and the matrix.

    cholesky   L            A - L L^H, of the lower triangle
    lu         LU, _, rows  A[rows] - L U
    qr         Q, R, [P]    A[:, P] - Q R, and I - Q^H Q
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Arrays = Sequence[np.ndarray]

TIMES_XLA = 4
"""How much larger than XLA's a residual may be; both are sums of random rounding errors."""
UNITS = 10
"""A residual of this many units in the last place is good whatever XLA's is."""


def as_good(group: str, inputs: Arrays, actual: Arrays, expected: Arrays) -> bool:
    """Whether the results of a harness of a group are factors as good as XLA's."""
    rule = _RULES.get(group)
    if rule is None or not all(map(_alike, actual, expected)):
        return False
    wide = [_wide(item) for item in inputs]
    ours, theirs = (rule(wide, [_wide(item) for item in run]) for run in (actual, expected))
    unit = float(np.finfo(expected[0].dtype).eps)
    return bool(ours <= max(TIMES_XLA * theirs, UNITS * unit))


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
    norms = (np.linalg.norm(item, axis=(-2, -1)) for item in (difference, whole))
    absolute, size = norms
    return float(np.max(absolute / np.maximum(size, np.finfo(np.float64).tiny), initial=0))


def _adjoint(x: np.ndarray) -> np.ndarray:
    transposed: np.ndarray = np.swapaxes(x, -1, -2).conj()
    return transposed


def _cholesky(inputs: Arrays, outputs: Arrays) -> float:
    a, lower = inputs[0], np.tril(outputs[0])
    return _relative(np.tril(a - lower @ _adjoint(lower)), a)


def _lu(inputs: Arrays, outputs: Arrays) -> float:
    a, (packed, _, rows) = inputs[0], outputs
    rank = min(a.shape[-2:])
    lower = np.tril(packed[..., :rank], -1) + np.eye(a.shape[-2], rank)
    permuted = np.take_along_axis(a, rows[..., None].astype(np.int64), axis=-2)
    return _relative(permuted - lower @ np.triu(packed[..., :rank, :]), a)


def _qr(inputs: Arrays, outputs: Arrays) -> float:
    a, (q, r, *order) = inputs[0], outputs
    if order:
        a = np.take_along_axis(a, order[0][..., None, :].astype(np.int64), axis=-1)
    unit = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], q.shape[-1], q.shape[-1]))
    return max(_relative(a - q @ r, a), _relative(unit - _adjoint(q) @ q, unit))


_RULES: dict[str, Callable[[Arrays, Arrays], float]] = {
    "cholesky": _cholesky,
    "lu": _lu,
    "qr": _qr,
}

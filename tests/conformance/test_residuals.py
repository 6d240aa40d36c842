"""Factors judged by their product: as good as XLA's, or not."""

from __future__ import annotations

import numpy as np
import pytest
from conformance_suite.residuals import as_good

RNG = np.random.default_rng(0)
A = RNG.normal(size=(2, 6, 6)).astype(np.float32)
SQUARE = A @ A.swapaxes(-1, -2)


def lu_of(a: np.ndarray) -> list[np.ndarray]:
    """LU factors, pivots and rows, of matrices that need no exchanges."""
    packed = a.astype(np.float64)
    for k in range(a.shape[-1]):
        packed[..., k + 1 :, k] /= packed[..., k, None, k]
        rest = packed[..., k + 1 :, None, k] * packed[..., k, None, k + 1 :]
        packed[..., k + 1 :, k + 1 :] -= rest
    rows = np.broadcast_to(np.arange(a.shape[-1], dtype=np.int32), a.shape[:-1])
    return [packed.astype(a.dtype), rows, rows]


DOMINANT = A + 10 * np.eye(6, dtype=np.float32)
CASES = {
    "cholesky": (SQUARE, [np.linalg.cholesky(SQUARE)]),
    "qr": (A, list(np.linalg.qr(A))),
    "lu": (DOMINANT, lu_of(DOMINANT)),
}


@pytest.mark.parametrize("group", CASES)
def test_factors_are_as_good_as_themselves(group: str) -> None:
    matrix, factors = CASES[group]
    assert as_good(group, [matrix], factors, factors)


PLACES = {
    ("cholesky", 0): (1, 5, 2),
    ("qr", 0): (1, 5, 2),
    ("qr", 1): (1, 2, 5),
    ("lu", 0): (1, 5, 2),
    ("lu", 1): (1, 2),
    ("lu", 2): (1, 2),
}


@pytest.mark.parametrize(("group", "index"), PLACES)
@pytest.mark.parametrize("wrong", [1e-4, np.nan])
def test_a_wrong_element_is_not(group: str, index: int, wrong: float) -> None:
    matrix, factors = CASES[group]
    bad = [factor.copy() for factor in factors]
    factor, place = bad[index], PLACES[group, index]
    factor[place] += 1 if factor.dtype.kind == "i" else wrong * np.abs(factor).max()
    assert not as_good(group, [matrix], bad, factors)


def test_q_has_to_be_orthogonal() -> None:
    q, r = CASES["qr"][1]
    assert not as_good("qr", [A], [q * 2, r / 2], [q, r])


def test_what_is_no_factorization_has_no_such_rule() -> None:
    assert not as_good("dot_general", [A], [A], [A])

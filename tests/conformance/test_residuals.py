"""Factors judged by their product: as good as XLA's, or not."""

from __future__ import annotations

import numpy as np
import pytest

from tools.conformance.residuals import as_good

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
HERMITIAN = (A + A.swapaxes(-1, -2)) / 2
COMPLEX = (A + 1j * A[::-1]).astype(np.complex64)


def eigh_of(a: np.ndarray) -> list[np.ndarray]:
    values, vectors = np.linalg.eigh(a)
    return [vectors, values]


def svd_of(a: np.ndarray, full: bool = True) -> list[np.ndarray]:
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    return [s, u, vh]


def eig_of(a: np.ndarray, *sides: str) -> list[np.ndarray]:
    values, right = np.linalg.eig(a)
    left = np.linalg.inv(right).conj().swapaxes(-1, -2)
    vectors = {"left": left / np.linalg.norm(left, axis=-2, keepdims=True), "right": right}
    return [values, *(vectors[side] for side in sides)]


CASES: dict[str, tuple[np.ndarray, list[np.ndarray]]] = {
    "cholesky": (SQUARE, [np.linalg.cholesky(SQUARE)]),
    "qr": (A, list(np.linalg.qr(A))),
    "lu": (DOMINANT, lu_of(DOMINANT)),
    "eigh": (HERMITIAN, eigh_of(HERMITIAN)),
    "svd": (A, svd_of(A)),
    "svd, wide": (A[:, :4], svd_of(A[:, :4])),
    "svd, tall": (A[..., :4], svd_of(A[..., :4], full=False)),
    "eig": (A, eig_of(A, "left", "right")),
    "eig, left": (A, eig_of(A, "left")),
    "eig, right": (COMPLEX, eig_of(COMPLEX, "right")),
    "eig, values": (COMPLEX, eig_of(COMPLEX)),
}
JUDGED = {"eigh": {0}, "svd": {1, 2}}
"""Of the others all results are."""


def judged(name: str, factors: list[np.ndarray]) -> bool:
    """Whether factors of the matrix of a case are as good as those of the case."""
    matrix, expected = CASES[name]
    group = name.partition(",")[0]
    found = as_good(group, [matrix], factors, expected)
    assert found in (set(), JUDGED.get(group, set(range(len(expected)))))
    return bool(found)


@pytest.mark.parametrize("name", CASES)
def test_factors_are_as_good_as_themselves(name: str) -> None:
    assert judged(name, CASES[name][1])


PLACES = {
    ("cholesky", 0): (1, 5, 2),
    ("qr", 0): (1, 5, 2),
    ("qr", 1): (1, 2, 5),
    ("lu", 0): (1, 5, 2),
    ("lu", 1): (1, 2),
    ("lu", 2): (1, 2),
    ("eigh", 0): (1, 5, 2),
    ("svd", 1): (1, 5, 2),
    ("svd", 2): (1, 2, 5),
    ("svd, wide", 2): (1, 5, 2),  # of the vectors that belong to no singular value
    ("svd, tall", 1): (1, 5, 2),
    ("eig", 0): (1, 3),
    ("eig", 1): (1, 5, 2),
    ("eig", 2): (1, 5, 2),
    ("eig, left", 1): (1, 5, 2),
    ("eig, right", 1): (1, 5, 2),
    ("eig, values", 0): (1, 3),
}


@pytest.mark.parametrize(("name", "index"), PLACES)
@pytest.mark.parametrize("wrong", [1e-4, np.nan])
def test_a_wrong_element_is_not(name: str, index: int, wrong: float) -> None:
    bad = [factor.copy() for factor in CASES[name][1]]
    factor, place = bad[index], PLACES[name, index]
    factor[place] += 1 if factor.dtype.kind == "i" else wrong * np.abs(factor).max()
    assert not judged(name, bad)


def test_q_has_to_be_orthogonal() -> None:
    q, r = CASES["qr"][1]
    assert not judged("qr", [q * 2, r / 2])


PHASES = np.array([1, -1, 1j, -1j, 1, -1], np.complex64)


def test_signs_and_phases_of_vectors_are_free() -> None:
    v, w = CASES["eigh"][1]
    assert judged("eigh", [v * np.sign(A[0, 0]), w])
    s, u, vh = CASES["svd"][1]
    assert judged("svd", [s, -u, -vh])
    assert not judged("svd", [s, -u, vh]), "they turn together"
    w, right = CASES["eig, right"][1]
    assert judged("eig, right", [w, right * PHASES])
    assert not judged("eig, right", [w, right * 2])


def test_vectors_beyond_the_singular_values_are_free() -> None:
    s, u, vh = CASES["svd, wide"][1]
    turned = np.concatenate([vh[:, :4], vh[:, 5:], -vh[:, 4:5]], axis=1)
    assert judged("svd, wide", [s, u, turned])


def test_the_order_of_general_eigenvalues_is_free() -> None:
    w, left, right = CASES["eig"][1]
    order = [3, 1, 5, 0, 2, 4]
    assert judged("eig", [w[:, order], left[:, :, order], right[:, :, order]])
    assert not judged("eig", [w[:, order], left, right])
    twice = [0, 0, 2, 3, 4, 5]
    assert not judged("eig", [w[:, twice], left[:, :, twice], right[:, :, twice]])


def test_left_vectors_are_not_right_ones() -> None:
    _, left, right = CASES["eig"][1]
    w = CASES["eig"][1][0]
    assert not judged("eig", [w, right, left])
    assert not judged("eig, left", [w, right])


def test_what_is_no_factorization_has_no_such_rule() -> None:
    assert not as_good("dot_general", [A], [A], [A])

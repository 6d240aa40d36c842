"""Eigenvalues and eigenvectors of Hermitian matrices: syevd of CPU and GPU, Eigh of the TPU."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from factors import (
    assert_equal,
    assert_nodes_do_not_depend_on_the_size,
    assert_poison_stays,
    assert_unitary,
    factors,
    nodes_of,
    product,
    wide,
)
from jax.lax import linalg
from matrices import REAL, hermitian, matrix

pytestmark = pytest.mark.wide

SHAPES = [(0, 0), (1, 1), (2, 2), (5, 5), (33, 33), (2, 3, 4, 4), (0, 3, 3)]


def eigh(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """V and w."""
    v, w = linalg.eigh(a, symmetrize_input=False)
    return v, w


def check(a: np.ndarray, units: float = 10) -> None:
    """A V = V diag(w), V is unitary, and w is ascending and what it is in f64."""
    v, w = factors(eigh, a)
    assert_unitary(v, units)
    assert_equal(product(a, v), wide(v) * w[..., None, :], a, units)
    assert_equal(w, np.linalg.eigvalsh(wide(a)), a, units)
    assert (np.diff(w) >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_random(dtype: str, shape: tuple[int, ...]) -> None:
    check(hermitian(shape, dtype))


ONES = np.ones((8, 8))
PLACE = np.arange(8)
SPECIAL: dict[str, np.ndarray] = {
    "zeros": 0 * ONES,
    "minus zeros": -0.0 * ONES,
    "identity": np.eye(8),
    "diagonal": np.diag([3.0, -1, 2, 2, 0, 5, -1, 3]),
    "rank one": ONES,
    "tridiagonal": np.diag(2.0 - 0 * PLACE) - np.eye(8, k=1) - np.eye(8, k=-1),
    "Wilkinson": np.diag(abs(PLACE - 3.5)) + np.eye(8, k=1) + np.eye(8, k=-1),
    "nearly equal": np.eye(8) + 1e-7 * hermitian((8, 8), "float64"),
    "blocks": np.kron(np.eye(4), [[0.0, 1], [1, 0]]),
    "exchange": np.eye(8)[::-1].copy(),
    "graded": 10.0 ** -(2 * np.maximum(PLACE[:, None], PLACE)),
    "huge": 1e36 * hermitian((8, 8), "float64"),
    "tiny": 1e-36 * hermitian((8, 8), "float64"),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_special(dtype: str, name: str) -> None:
    check(SPECIAL[name].astype(dtype))


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extremes_of_f64(scale: float) -> None:
    check(scale * hermitian((8, 8), "float64"))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_only_one_triangle_is_read(dtype: str, lower: bool) -> None:
    """And of the diagonal only the real part."""
    a = hermitian((5, 5), dtype)
    other = np.triu_indices(5, 1) if lower else np.tril_indices(5, -1)
    poisoned = a.copy()
    poisoned[other] = np.nan
    if poisoned.dtype.kind == "c":
        poisoned += 1j * np.eye(5, dtype=dtype)

    def of_a_triangle(a: jax.Array) -> Any:
        return linalg.eigh(a, lower=lower, symmetrize_input=False)

    v, w = factors(of_a_triangle, poisoned)
    assert_unitary(v)
    assert_equal(product(a, v), wide(v) * w, a)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("size", [4, 6])
def test_nan_makes_all_of_one_matrix_nan(size: int, dtype: str, value: float) -> None:
    """Of infinities LAPACK makes arbitrary numbers."""
    assert_poison_stays(eigh, hermitian((2, 3, size, size), dtype), (1, 0, 2, 1), value)


@pytest.mark.parametrize("size", [64, 200])
@pytest.mark.parametrize("dtype", REAL)
def test_large(dtype: str, size: int) -> None:
    check(hermitian((size, size), dtype), units=2)


def test_clusters() -> None:
    """Many eigenvalues that are equal, or nearly."""
    q = np.linalg.qr(matrix((60, 60), "float64"))[0]
    w = np.repeat([1.0, 1 + 1e-13, 2, 3, -1, 0], 10)
    a = product(q * w, q.T)
    check((a + a.T) / 2)


def test_nodes_do_not_depend_on_the_size() -> None:
    assert_nodes_do_not_depend_on_the_size(eigh, 1500, smallest=81, large=(600, 960))


def test_nodes_of_matrices_that_are_rotated() -> None:
    assert max(nodes_of(eigh, 5, 80)) < 900

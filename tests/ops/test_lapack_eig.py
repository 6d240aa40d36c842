"""Eigenvalues and eigenvectors of any square matrices: geev calls."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factors import (
    adjoint,
    assert_equal,
    assert_nodes_do_not_depend_on_the_size,
    assert_poison_stays,
    factors,
    in_xla,
    product,
    wide,
)
from jax.lax import linalg
from matrices import REAL, matrix
from scipy.optimize import linear_sum_assignment

pytestmark = pytest.mark.wide


def eig(a: jax.Array) -> Any:
    """w, left and right eigenvectors."""
    return linalg.eig(a)


def eigenvalues(a: jax.Array) -> Any:
    return jnp.linalg.eigvals(a)


def check(a: np.ndarray, moves: float = 1, units: float = 10) -> None:
    """A V = V diag(w), U^H A = diag(w) U^H, and the vectors have norm 1.

    Args:
        moves: How far eigenvalues are from those in f64, relative to the change of the matrix.
    """
    w, left, right = factors(eig, a)
    assert_equal(product(a, right), wide(right) * w[..., None, :], a, units)
    conjugate = w.conj()[..., None, :]
    assert_equal(product(adjoint(a), left), wide(left) * conjugate, a, units)
    for vectors in (left, right):
        norms = np.linalg.norm(wide(vectors), axis=-2)
        assert_equal(norms, np.ones_like(norms), np.ones((*a.shape[:-1], 1), a.dtype), units)
    expected = np.linalg.eigvals(wide(a))
    [alone] = factors(eigenvalues, a)
    for found in (w, alone):
        assert_equal(_matched(found, expected), expected, a, moves * units)


def _matched(w: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The values in the order that fits best."""
    result = wide(w)
    for index in np.ndindex(w.shape[:-1]):
        distances = abs(expected[index][:, None] - result[index])
        result[index] = result[index][linear_sum_assignment(distances)[1]]
    return result


@pytest.mark.parametrize(
    "shape", [(0, 0), (1, 1), (2, 2), (3, 3), (6, 6), (33, 33), (2, 2, 4, 4), (0, 3, 3)]
)
def test_real(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "float64"), moves=4)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (6, 6), (3, 4, 4)])
def test_complex(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "complex64"), moves=4)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_values_come_in_the_order_of_xla(dtype: str) -> None:
    """Where the matrix is small: there LAPACK makes the same iterations."""
    a = matrix((6, 6), dtype)
    got, want = factors(eig, a)[0], in_xla(eig, a)[0]
    np.testing.assert_allclose(got, want, atol=100 * np.finfo(dtype).eps)


def test_real_eigenvalues_and_vectors_are_real() -> None:
    a = np.array([[2.0, 1, 0], [1, 3, 2], [0, 1, 5]])
    for result in factors(eig, a):
        assert (result.imag == 0).all()


def test_complex_ones_come_in_pairs() -> None:
    """First the one above the axis, then exactly its conjugate."""
    a = matrix((6, 6), "float32")
    w, left, right = factors(eig, a)
    [places] = np.nonzero(w.imag)
    assert places.size
    for k, one in enumerate(places[::2]):
        assert one + 1 == places[2 * k + 1] and w[one].imag > 0
        np.testing.assert_array_equal(w[one], w[one + 1].conj())
        np.testing.assert_array_equal(left[:, one], left[:, one + 1].conj())
        np.testing.assert_array_equal(right[:, one], right[:, one + 1].conj())


SIX = matrix((6, 6), "float64")
PLACE = np.arange(6)
CYCLE = np.roll(np.eye(6), 1, axis=0)
SPECIAL: dict[str, np.ndarray] = {
    "zeros": 0 * SIX,
    "minus zeros": -0.0 * np.ones((6, 6)),
    "identity": np.eye(6),
    "minus identity": -np.eye(6),
    "diagonal": np.diag([3.0, -1, 2, 2, 0, 5]),
    "upper triangle": np.triu(SIX),
    "lower triangle": np.tril(SIX),
    "permuted triangle": np.triu(SIX)[[3, 1, 4, 0, 5, 2]][:, [3, 1, 4, 0, 5, 2]],
    "cycle": CYCLE,
    "rotations": np.kron(np.eye(3), [[0.0, 1], [-1, 0]]),
    "skew": SIX - SIX.T,
    "symmetric": SIX + SIX.T,
    "rank one": np.ones((6, 6)),
    "blocks": np.kron(np.eye(2), SIX[:3, :3]),
    "repeated": np.linalg.inv(SIX) @ np.diag([1.0, 1, 1, 2, 2, 3]) @ SIX,
    "to be balanced": SIX * 10.0 ** (PLACE[:, None] - PLACE),
    "huge": 1e30 * SIX,
    "tiny": 1e-30 * SIX,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_special(dtype: str, name: str) -> None:
    check(SPECIAL[name].astype(dtype), moves=10)


DEFECTIVE: dict[str, np.ndarray] = {
    "Jordan": np.eye(6) + np.eye(6, k=1),
    "nilpotent": np.eye(6, k=1),
    "lower": 2 * np.eye(6) + np.eye(6, k=-1),
    "two blocks": np.kron(np.eye(2), np.eye(3) + np.eye(3, k=1)),
    "hidden": np.linalg.inv(SIX) @ (np.eye(6) + np.eye(6, k=1)) @ SIX,
    "pairs": np.kron(np.eye(3), [[0.0, 1], [-1, 0]]) + np.eye(6, k=2),
}


@pytest.mark.parametrize("name", DEFECTIVE)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_defective(dtype: str, name: str) -> None:
    """There are fewer eigenvectors than eigenvalues, which move by the n-th root of a change."""
    a = DEFECTIVE[name].astype(dtype)
    root = float(np.finfo(dtype).eps) ** (1 / 6 - 1)
    check(a, moves=root)


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extremes_of_f64(scale: float) -> None:
    check(scale * SIX, moves=4)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_nan_makes_all_of_one_matrix_nan(dtype: str, value: float) -> None:
    assert_poison_stays(eig, matrix((3, 4, 4), dtype), (1, 0, 2), value)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("right", [True, False])
def test_vectors_of_one_side(left: bool, right: bool) -> None:
    def some(a: jax.Array) -> Any:
        return linalg.eig(a, compute_left_eigenvectors=left, compute_right_eigenvectors=right)

    w, *vectors = factors(eig, SIX)
    wanted = [w, *vectors[:left], *(vectors[1:] if right else [])]
    for got, want in zip(factors(some, SIX), wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize("dtype", REAL)
def test_large(dtype: str) -> None:
    check(matrix((100, 100), dtype), moves=10, units=2)


def test_nodes_do_not_depend_on_the_size() -> None:
    assert_nodes_do_not_depend_on_the_size(eig, 1500)

"""Vectors of diagonal matrices, LAPACK's if values differ, and spaces of equal eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factors import adjoint, factors, in_xla, wide
from jax.lax import linalg

DIAGONALS: dict[str, list[float]] = {
    "identity": [1, 1, 1, 1, 1, 1],
    "zeros": [0, 0, 0, 0, 0, 0],
    "minus zeros": [-0.0] * 6,
    "ascending": [-2, -1, 0, 3, 4, 5],
    "descending": [6, 5, 2, 0, -1, -3],
    "unsorted": [2, -1, 4, 0, -3, 5],
    "large": [1e30, -2e30, 3e30, 1e25, 4e30, 0],
}
REAL_AND_COMPLEX = [
    pytest.param("float32"),
    pytest.param("float64", marks=pytest.mark.wide),
    pytest.param("complex64", marks=pytest.mark.wide),
    pytest.param("complex128", marks=pytest.mark.wide),
]


def diagonal(values: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Matrices [..., rows, columns] with these values [..., n] on the diagonal."""
    n = values.shape[-1]
    made = np.zeros((*values.shape[:-1], rows, columns), values.dtype)
    made[..., range(n), range(n)] = values
    return made


def table(dtype: str, rows: int = 6, columns: int = 6) -> np.ndarray:
    return diagonal(np.array(list(DIAGONALS.values()), dtype), rows, columns)


def assert_exactly(function: Callable[..., Any], a: np.ndarray) -> None:
    """Asserts that vectors are XLA's, and values but for their last bits."""
    for got, want in zip(factors(function, a), in_xla(function, a), strict=True):
        if want.ndim < a.ndim:
            limit = 4 * np.finfo(want.dtype).eps
            np.testing.assert_allclose(got, want, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(got, want)


def eigh(a: jax.Array) -> Any:
    return linalg.eigh(a, symmetrize_input=False)


def eigh_of_upper(a: jax.Array) -> Any:
    return linalg.eigh(a, lower=False, symmetrize_input=False)


@pytest.mark.wide
@pytest.mark.parametrize("function", [eigh, eigh_of_upper])
@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_eigenvectors(dtype: str, function: Callable[..., Any]) -> None:
    assert_exactly(function, table(dtype))


def thin(a: jax.Array) -> Any:
    return linalg.svd(a, full_matrices=False)


def full(a: jax.Array) -> Any:
    return linalg.svd(a, full_matrices=True)


@pytest.mark.parametrize(
    ("function", "rows", "columns"),
    [
        (full, 6, 6),
        pytest.param(full, 7, 6, marks=pytest.mark.wide),
        pytest.param(full, 6, 7, marks=pytest.mark.wide),
        pytest.param(full, 18, 6, marks=pytest.mark.wide),
        (thin, 6, 18),
        pytest.param(thin, 7, 6, marks=pytest.mark.wide),
        (jnp.linalg.svdvals, 6, 7),
    ],
)
@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_singular_vectors(
    dtype: str, function: Callable[..., Any], rows: int, columns: int
) -> None:
    assert_exactly(function, table(dtype, rows, columns))


@pytest.mark.wide
@pytest.mark.parametrize("rows", [3, 4])
def test_phases_of_complex_diagonals(rows: int) -> None:
    """Phases that are exact, of elements that differ in absolute value."""
    values = np.array([[1j, 2, -3j], [-1, 2j, 3], [-3j, -2, 1j]], np.complex64)
    for a in (diagonal(values, rows, 3), diagonal(values, 3, rows)):
        assert_exactly(full, a)


def test_diagonal_matrices_among_others() -> None:
    """Each matrix of a batch is treated as it is."""
    other = np.array([[2.0, 1], [1, 5]])
    v, w = factors(eigh, np.stack([np.eye(2), other, np.diag([2.0, 1])]))
    np.testing.assert_array_equal(v[[0, 2]], [np.eye(2), np.eye(2)[::-1]])
    np.testing.assert_allclose((v[1] * w[1]) @ v[1].T, other, atol=1e-14)


@pytest.mark.wide
@pytest.mark.parametrize("function", [jnp.linalg.eig, lambda a: jax.scipy.linalg.schur(a)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_eig_and_schur(dtype: str, function: Callable[..., Any]) -> None:
    for a in table(dtype)[:-1]:
        assert_exactly(function, a)


# -- not diagonal -------------------------------------------------------------------------------

Q = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
OTHERS = {
    "ones": np.ones((6, 6)),
    "blocks": np.kron(np.eye(3), [[2.0, 1], [1, 2]]),
    "exchange": np.eye(6)[::-1].copy(),
    "repeated": (Q * [1, 1, 1, 4, 4, 9]) @ Q.T,
    "rank one": np.outer(Q[0], Q[0]),
    "rank two": np.outer(Q[0], Q[0]) - 2 * np.outer(Q[1], Q[1]),
    "distinct": (Q * [1, -2, 3, 5, 8, 13]) @ Q.T,
}


def projectors(values: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Onto the spaces of eigenvalues that are equal, in their order."""
    order = np.argsort(values)
    starts = [0, *(np.flatnonzero(np.diff(values[order]) > 0.1) + 1), len(values)]
    spaces = [wide(v)[:, order[start:end]] for start, end in pairwise(starts)]
    return [space @ adjoint(space) for space in spaces]


@pytest.mark.wide
@pytest.mark.parametrize("function", [eigh, eigh_of_upper])
@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_spaces_are_those_of_xla(dtype: str, function: Callable[..., Any]) -> None:
    a = np.stack([x.astype(dtype) for x in OTHERS.values()])
    limit = 200 * np.finfo(dtype).eps
    (v, w), (xla_v, xla_w) = factors(function, a), in_xla(function, a)
    np.testing.assert_allclose(w, xla_w, atol=limit)
    for index in range(len(a)):
        spaces = zip(
            projectors(w[index], v[index]), projectors(xla_w[index], xla_v[index]), strict=True
        )
        for got, want in spaces:
            np.testing.assert_allclose(got, want, atol=limit)


@pytest.mark.wide
@pytest.mark.parametrize("dtype", REAL_AND_COMPLEX)
def test_spaces_of_singular_vectors(dtype: str) -> None:
    a = np.stack([x.astype(dtype) for x in OTHERS.values()])
    limit = 200 * np.finfo(dtype).eps
    (u, s, vh), (xla_u, xla_s, xla_vh) = factors(full, a), in_xla(full, a)
    np.testing.assert_allclose(s, xla_s, atol=limit)
    for index in range(len(a)):
        for ours, theirs in ((u, xla_u), (adjoint(vh), adjoint(xla_vh))):
            got, want = (projectors(x[index], y[index]) for x, y in ((s, ours), (xla_s, theirs)))
            np.testing.assert_allclose(np.stack(got), np.stack(want), atol=limit)

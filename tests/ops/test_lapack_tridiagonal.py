"""Hermitian matrices reduced to tridiagonal form: sytrd and hetrd calls of CPU and GPU."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from factors import assert_equal, factors, in_xla, nodes_of
from jax.lax import linalg
from matrices import hermitian


def lower(a: jax.Array) -> Any:
    """The reflections around T, d, e and taus."""
    return linalg.tridiagonal(a, lower=True)


def upper(a: jax.Array) -> Any:
    return linalg.tridiagonal(a, lower=False)


def check(function: Any, a: np.ndarray, units: float = 10) -> None:
    """The same reflections as LAPACK's, with its signs."""
    for got, want in zip(factors(function, a), in_xla(function, a), strict=True):
        assert_equal(got, want, np.maximum(abs(a), 1), units)


@pytest.mark.costly
@pytest.mark.parametrize("function", [lower, upper])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (2, 3, 4, 4), (0, 3, 3)])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_random(dtype: str, shape: tuple[int, ...], function: Any) -> None:
    check(function, hermitian(shape, dtype))


@pytest.mark.parametrize("function", [lower, upper])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_large(dtype: str, function: Any) -> None:
    """The eigenvalues of T are those of A; after many reflections its elements are not as close."""
    a = hermitian((60, 60), dtype)
    _, d, e, _ = factors(function, a)
    t = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    expected = np.linalg.eigvalsh(a.astype(np.complex128))
    assert_equal(np.linalg.eigvalsh(t.astype(np.float64)), expected, a)


SPECIAL: dict[str, np.ndarray] = {
    "zeros": np.zeros((6, 6)),
    "identity": np.eye(6),
    "tridiagonal": 2 * np.eye(6) - np.eye(6, k=1) - np.eye(6, k=-1),
    "negative beside": 2 * np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1),
    "a corner": np.eye(6) + np.eye(6, k=5) + np.eye(6, k=-5),
}


@pytest.mark.parametrize("function", [lower, upper])
@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_special(dtype: str, name: str, function: Any) -> None:
    """Nothing is done where nothing is to do."""
    check(function, SPECIAL[name].astype(dtype))


@pytest.mark.parametrize("function", [lower, upper])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_only_one_triangle_is_read(dtype: str, function: Any) -> None:
    """The other one stays as it is."""
    a = hermitian((6, 6), dtype)
    other = np.triu_indices(6, 1) if function is lower else np.tril_indices(6, -1)
    poisoned = a.copy()
    poisoned[other] = np.nan
    clean, found = factors(function, a), factors(function, poisoned)
    assert np.isnan(found[0][other]).all()
    found[0][other] = clean[0][other] = 0
    for got, want in zip(found, clean, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("function", [lower, upper])
def test_nan_stays_in_its_matrix(function: Any) -> None:
    a = hermitian((3, 4, 4), "float32")
    clean = factors(function, a)
    a[1, 2, 2] = np.nan
    for got, want in zip(factors(function, a), clean, strict=True):
        np.testing.assert_array_equal(got[[0, 2]], want[[0, 2]])
        assert np.isnan(got[1]).any()


@pytest.mark.wide
@pytest.mark.parametrize("function", [lower, upper])
def test_nodes_do_not_depend_on_the_size(function: Any) -> None:
    counts = nodes_of(function, 40, 300, 960)
    # Large matrices are cut into four parts.
    assert counts[2] - counts[1] <= 12 and counts[2] < 260
    assert counts[0] <= counts[1], "small tables of constants are computed beforehand"

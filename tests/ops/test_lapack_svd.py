"""Singular values and vectors: gesdd and gesvd calls, and what other platforms call instead."""

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
    assert_unitary,
    factors,
    product,
    wide,
)
from matrices import REAL, matrix

pytestmark = pytest.mark.wide

SHAPES = [
    (0, 0), (3, 0), (0, 3), (1, 1), (1, 4), (4, 1), (5, 5), (6, 3), (3, 6), (34, 33), (2, 3, 5, 4),
    (0, 3, 2),
]  # fmt: skip


def full(a: jax.Array) -> Any:
    return jnp.linalg.svd(a, full_matrices=True)


def reduced(a: jax.Array) -> Any:
    return jnp.linalg.svd(a, full_matrices=False)


def values(a: jax.Array) -> Any:
    return jnp.linalg.svd(a, compute_uv=False)


def check(a: np.ndarray, units: float = 10) -> None:
    """The results of all three functions; s is descending and what it is in f64."""
    [alone] = factors(values, a)
    expected = np.linalg.svd(wide(a), compute_uv=False)
    for function in (full, reduced):
        u, s, vh = factors(function, a)
        rank = s.shape[-1]
        assert_unitary(u, units)
        assert_unitary(adjoint(vh), units)
        assert_equal(product(u[..., :rank] * s[..., None, :], vh[..., :rank, :]), a, a, units)
        assert_equal(s, expected, a, units)
        assert_equal(s, alone, a, units)
        assert (np.diff(s) <= 0).all() and (s >= 0).all()
    assert (np.diff(alone) <= 0).all() and (alone >= 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_real(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "float64"))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (6, 3), (2, 3, 4)])
def test_complex(shape: tuple[int, ...]) -> None:
    check(matrix(shape, "complex64"))


PLACE = np.arange(7)
SQUARE = matrix((7, 7), "float64")
SPECIAL: dict[str, np.ndarray] = {
    "zeros": np.zeros((7, 7)),
    "minus zeros": -np.zeros((7, 7)),
    "identity": np.eye(7),
    "minus identity": -np.eye(7),
    "diagonal": np.diag([3.0, -1, 2, 2, 0, 5, -1]),
    "rank one": np.ones((7, 7)),
    "rank two": np.add.outer(PLACE, PLACE).astype(float),
    "nilpotent": np.eye(7, k=1),
    "Hilbert": 1 / (PLACE[:, None] + PLACE + 1),
    "orthogonal": np.linalg.qr(SQUARE)[0],
    "a zero column": SQUARE * (PLACE != 2),
    "zero rows": SQUARE * (PLACE > 2)[:, None],
    "graded": SQUARE * 10.0 ** -(4 * PLACE),
    "huge": 1e36 * SQUARE,
    "tiny": 1e-36 * SQUARE,
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_special(dtype: str, name: str) -> None:
    check(SPECIAL[name].astype(dtype))


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extremes_of_f64(scale: float) -> None:
    check(scale * SQUARE)


@pytest.mark.parametrize("function", [full, reduced, values])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_nan_makes_all_of_one_matrix_nan(dtype: str, function: Any, value: float) -> None:
    assert_poison_stays(function, matrix((2, 3, 5, 3), dtype), (1, 0, 2, 1), value)


@pytest.mark.parametrize("shape", [(64, 64), (200, 150)])
@pytest.mark.parametrize("dtype", REAL)
def test_large(dtype: str, shape: tuple[int, int]) -> None:
    a = matrix(shape, dtype)
    u, s, vh = factors(reduced, a)
    assert_unitary(u, 2)
    assert_unitary(vh.T, 2)
    assert_equal(product(u * s, vh), a, a, 2)
    assert_equal(s, np.linalg.svd(wide(a), compute_uv=False), a, 2)


def test_clusters() -> None:
    """Many singular values that are equal, or nearly, or 0."""
    q, p = np.linalg.qr(matrix((2, 60, 60), "float64"))[0]
    check(product(q * np.repeat([1.0, 1 + 1e-13, 2, 1e-9, 1e-17, 0], 10), p))


@pytest.mark.parametrize("function", [full, values])
def test_nodes_do_not_depend_on_the_size(function: Any) -> None:
    # 960 takes four nodes less: all blocks of columns are full.
    assert_nodes_do_not_depend_on_the_size(function, 1750, large=(600, 700))

"""Parts of the decompositions, in plain JAX: each against its definition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dialect_handlers.common.linalg.divide_and_conquer import bidiagonal_svd
from dialect_handlers.common.linalg.svd import fitted, svd

# Compiled as a whole: op by op they take ten times as long.
BIDIAGONAL_SVD = jax.jit(bidiagonal_svd, static_argnames="left")
SVD = jax.jit(partial(svd, full_matrices=False))

LARGE = [pytest.param(n, marks=pytest.mark.wide) for n in (32, 96, 97, 127, 200)]


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.wide
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("n", [1, 2, 31, *LARGE])
def test_bidiagonal_matrices(n: int, left: bool) -> None:
    """With zeros that are not those behind the matrix."""
    rng = np.random.default_rng(n)
    d, e = rng.normal(size=n), rng.normal(size=n - 1)
    d[n // 2 :: 3] = 0
    e[::5] = 0
    u, v = (np.asarray(x) for x in BIDIAGONAL_SVD(d, e, left=left))
    b = np.diag(d) + np.diag(e, 1)
    limit = 10 * n * np.finfo(np.float64).eps
    values = np.linalg.norm(v @ b.T, axis=1)
    wanted = np.linalg.svd(b, compute_uv=False)
    np.testing.assert_allclose(np.sort(values)[::-1], wanted, atol=limit * wanted[0])
    np.testing.assert_allclose(v @ v.T, np.eye(n), atol=limit)
    assert u.shape == (n, n if left else 0)
    if left:
        np.testing.assert_allclose(u @ u.T, np.eye(n), atol=limit)
        off = (u @ b @ v.T)[~np.eye(n, dtype=bool)]
        assert abs(off).max(initial=0) <= limit * wanted[0]


@pytest.mark.wide
@pytest.mark.parametrize("n", [9, 70])
@pytest.mark.parametrize("least", [-19, -22])
def test_bidiagonal_matrices_of_elements_whose_squares_are_denormal(n: int, least: int) -> None:
    """The vectors are as orthogonal as ever."""
    rng = np.random.default_rng(n)
    d, e = (10.0 ** rng.uniform(least, least + 4, k) for k in (n, n - 1))
    d[0] = 1
    single = [jnp.array(x, jnp.float32) for x in (d, e)]
    for vectors in map(np.asarray, BIDIAGONAL_SVD(*single, left=True)):
        limit = 10 * n * np.finfo(np.float32).eps
        np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=limit)


@pytest.mark.wide
def test_roots_next_to_poles() -> None:
    """One is so near that the square of its inverse distance overflows."""
    n, rng = 98, np.random.default_rng(14)
    d, e = ((10.0 ** rng.uniform(-5, 0, k)).astype(np.float32) for k in (n, n - 1))
    b = np.diag(d) + np.diag(e, 1)
    u, v = map(np.asarray, BIDIAGONAL_SVD(d, e, left=True))
    product = u.astype(np.float64) @ b @ v.T
    limit = 0.3 * n * np.finfo(np.float32).eps
    np.testing.assert_allclose(product, np.diag(np.diag(product)), atol=limit)


def _graded(m: int, n: int, condition: float) -> np.ndarray:
    """A matrix with singular values from 1 to 1 / condition, f32[m, n], m >= n."""
    rng = np.random.default_rng(0)
    q, p = (np.linalg.qr(rng.normal(size=(extent, n)))[0] for extent in (m, n))
    return (q * np.geomspace(1, 1 / condition, n) @ p.T).astype(np.float32)


@pytest.mark.parametrize("m", [9, pytest.param(6, marks=pytest.mark.wide)])
def test_left_vectors_are_rotated_to_fit_the_right_ones(m: int) -> None:
    u, s, v = np.linalg.svd(_graded(m, 6, 1e3).astype(np.float64), full_matrices=False)
    noise = 1e-3 * np.random.default_rng(1).normal(size=u.shape)
    wrong, triangle = np.linalg.qr(u + noise)
    wrong *= np.sign(np.diag(triangle)) * [1, 1, -1, 1, 1, 1]
    found = np.asarray(jax.jit(fitted)(jnp.array(wrong.T, "f4"), jnp.array(u * s, "f4")))
    np.testing.assert_allclose(found.T @ v, u @ v, atol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("condition", [1e5, 1e7])
@pytest.mark.parametrize("shape", [(16, 16), (16, 12), (128, 128), (128, 64)])
def test_vectors_of_tiny_singular_values_fit_together(
    shape: tuple[int, int], condition: float
) -> None:
    """U V^T is about as exact as LAPACK's in f32 (NumPy computes in f64)."""
    a = _graded(*shape, condition)
    errors = []
    exact_u, _, exact_v = np.linalg.svd(a.astype(np.float64), full_matrices=False)
    for u, _, v in (SVD(a), jnp.linalg.svd(a, full_matrices=False)):
        found = np.asarray(u, np.float64) @ np.asarray(v, np.float64)
        errors.append(abs(found - exact_u @ exact_v).max())
    assert errors[0] < 3 * errors[1]

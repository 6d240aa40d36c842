"""jax.numpy.linalg and jax.scipy.linalg, as far as they need eigen- or singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from factors import adjoint, assert_equal, assert_unitary, factors, in_xla, product, wide
from matrices import definite, matrix
from scipy.optimize import linear_sum_assignment

pytestmark = pytest.mark.wide

N = 5
SQUARE = {dtype: matrix((N, N), dtype) for dtype in ("float64", "complex64")}
DEFINITE = definite((N, N), "complex64")
TALL = {dtype: matrix((7, 3), dtype) for dtype in SQUARE}


def close(function: Callable[..., Any], a: np.ndarray, units: float = 100) -> None:
    """Asserts that results are XLA's, to a few roundings in the size of each."""
    for got, want in zip(factors(function, a), in_xla(function, a), strict=True):
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
        else:
            limit = units * np.finfo(want.dtype).eps * abs(want).max(initial=0)
            np.testing.assert_allclose(wide(got), wide(want), rtol=0, atol=limit)


OF_ANY: dict[str, Callable[..., Any]] = {
    "pinv": jnp.linalg.pinv,
    "matrix_rank": jnp.linalg.matrix_rank,
    "cond": jnp.linalg.cond,
    "norm 2": lambda a: jnp.linalg.norm(a, 2),
    "norm -2": lambda a: jnp.linalg.norm(a, -2),
    "norm nuc": lambda a: jnp.linalg.norm(a, "nuc"),
    "svdvals": jnp.linalg.svdvals,
    "svdvals of scipy": lambda a: jsl.svd(a, compute_uv=False),
    "lstsq": lambda a: jnp.linalg.lstsq(a, jnp.stack([a[:, 0], a[:, 1] ** 2], 1)),
    "polar": jsl.polar,
    "polar, left": lambda a: jsl.polar(a, side="left"),
}


@pytest.mark.parametrize("name", OF_ANY)
def test_of_a_tall_matrix(name: str) -> None:
    a = TALL["complex64"]
    close(OF_ANY[name], a.T if name == "polar, left" else a)


OF_SQUARE: dict[str, Callable[..., Any]] = {
    # Of a negative eigenvalue both roots are right, and rounding decides between them.
    "sqrtm": lambda a: jsl.sqrtm(a + 3 * jnp.eye(N)),
    "expm": jsl.expm,
    "expm_frechet": lambda a: jsl.expm_frechet(a / 4, a.T),
    "funm": lambda a: jsl.funm(a, jnp.sin, disp=False),
    "solve_sylvester": lambda a: jsl.solve_sylvester(a, a + 5 * jnp.eye(N), a.T),
    "rsf2csf": lambda a: jnp.sort(jnp.abs(jnp.diagonal(jsl.rsf2csf(*jsl.schur(a))[0]))),
    "matrix_power": lambda a: jnp.linalg.matrix_power(a, 3),
    "cond": jnp.linalg.cond,
}


@pytest.mark.parametrize("name", OF_SQUARE)
@pytest.mark.parametrize("dtype", ["float64", pytest.param("complex64", marks=pytest.mark.wide)])
def test_of_a_square_matrix(dtype: str, name: str) -> None:
    close(OF_SQUARE[name], SQUARE[dtype], 2000)


OF_DEFINITE: dict[str, Callable[..., Any]] = {
    "eigvalsh": jnp.linalg.eigvalsh,
    "eigh of scipy, values": lambda a: jsl.eigh(a, eigvals_only=True),
    "pinv, hermitian": lambda a: jnp.linalg.pinv(a, hermitian=True),
    "svd, hermitian": lambda a: jnp.linalg.svd(a, hermitian=True, compute_uv=False),
    "square root": lambda a: _apply(jnp.sqrt, a),
    "logarithm": lambda a: _apply(jnp.log, a),
    "gradient of eigenvalues": lambda a: jax.jacfwd(jnp.linalg.eigvalsh)(a.real),
    "vmap": lambda a: jax.vmap(jnp.linalg.eigvalsh)(jnp.stack([a, 2 * a])),
}


def _apply(function: Callable[..., Any], a: jax.Array) -> jax.Array:
    w, v = jnp.linalg.eigh(a)
    result: jax.Array = (v * function(w)) @ v.conj().T
    return result


@pytest.mark.parametrize("name", OF_DEFINITE)
def test_of_a_definite_matrix(name: str) -> None:
    close(OF_DEFINITE[name], DEFINITE)


GRADIENTS: dict[str, Callable[..., Any]] = {
    "largest eigenvalue": lambda a: jnp.linalg.eigvalsh(a + a.T)[-1],
    "nuclear norm": lambda a: jnp.linalg.norm(a, "nuc"),
    "projector": lambda a: jnp.sum(jnp.sin(_apply(jnp.tanh, a + a.T))),
    "spectral radius": lambda a: jnp.max(jnp.abs(jnp.linalg.eigvals(a))),
    "pinv": lambda a: jnp.sum(jnp.cos(jnp.linalg.pinv(a[:, :3]))),
    "expm": lambda a: jnp.sum(jsl.expm(a)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    close(jax.grad(GRADIENTS[name]), SQUARE["float64"], 1000)


def test_eigvals_and_eig_of_jnp() -> None:
    """A V = V diag(w); jnp.linalg.eig gives right vectors alone."""
    a = matrix((2, 4, 4), "float32")
    w, v = factors(jnp.linalg.eig, a)
    assert_equal(product(a, v), wide(v) * w[..., None, :], a)
    [alone] = factors(jnp.linalg.eigvals, a)
    np.testing.assert_allclose(alone, w, atol=1e-5)


@pytest.mark.parametrize("function", [jsl.sqrtm, jsl.expm])
def test_of_a_defective_matrix(function: Any) -> None:
    a = 2 * np.eye(N) + np.eye(N, k=1)
    close(function, a)


def test_sqrtm_is_a_square_root() -> None:
    a = SQUARE["float64"]
    [root] = factors(jsl.sqrtm, a)
    assert_equal(product(root, root), a, a, 100)


ROOTS = {
    "simple": [1.0, -6, 11, -6],
    "complex": [1.0, 0, 1, 0, 4],
    "double": [1.0, -2, 1],
    "triple": [1.0, -3, 3, -1],
    "with zeros": [2.0, 3, 0, 0],
    "linear": [4.0, 2],
}


@pytest.mark.parametrize("name", ROOTS)
def test_roots(name: str) -> None:
    """What is a root several times is known to the root of the precision only."""

    def roots(p: jax.Array) -> jax.Array:
        return jnp.roots(p, strip_zeros=False)

    [got] = factors(roots, np.array(ROOTS[name]))
    want = np.roots(ROOTS[name])
    distances = abs(got[:, None] - want)
    limit = 1e-4 if name == "triple" else 1e-7 if name == "double" else 1e-13
    assert distances[linear_sum_assignment(distances)].max() < limit


def tridiagonal_values(rows: jax.Array) -> Any:
    return jsl.eigh_tridiagonal(rows[0], rows[1, :-1], eigvals_only=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigh_tridiagonal(dtype: str) -> None:
    rows = matrix((2, 8), dtype)
    close(tridiagonal_values, rows)


@pytest.mark.parametrize("dtype", SQUARE)
def test_polar_factors(dtype: str) -> None:
    a = TALL[dtype]
    unitary, positive = factors(jsl.polar, a)
    assert_unitary(unitary)
    assert_equal(product(unitary, positive), a, a)
    assert_equal(positive, adjoint(positive), a)


def test_pca() -> None:
    """Of eigenvectors of a covariance only the space that some of them span is unique."""

    def project(x: jax.Array) -> jax.Array:
        centred = x - x.mean(0)
        _, v = jnp.linalg.eigh(centred.T @ centred)
        return centred @ v[:, -2:] @ v[:, -2:].T

    close(project, matrix((20, 4), "float64"))


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 0, 0)])
def test_small_matrices(shape: tuple[int, ...]) -> None:
    a = np.full(shape, 4.0)
    functions = [jnp.linalg.eigvals, jnp.linalg.eigvalsh, jnp.linalg.svdvals, jnp.linalg.pinv]
    for function in functions:
        close(function, a)

"""jax.numpy.linalg and jax.scipy.linalg, as far as they need eigen- or singular values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from factors import factors, in_xla, wide
from matrices import definite, matrix

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
    # Of solutions of 98 in solve_sylvester, ours are 3e-11 off the exact ones, XLA's 1.6e-11.
    close(OF_SQUARE[name], SQUARE[dtype], 2500)


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


def tridiagonal_values(rows: jax.Array) -> Any:
    return jsl.eigh_tridiagonal(rows[0], rows[1, :-1], eigvals_only=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigh_tridiagonal(dtype: str) -> None:
    rows = matrix((2, 8), dtype)
    close(tridiagonal_values, rows)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 0, 0)])
def test_small_matrices(shape: tuple[int, ...]) -> None:
    a = np.full(shape, 4.0)
    functions = [jnp.linalg.eigvals, jnp.linalg.eigvalsh, jnp.linalg.svdvals, jnp.linalg.pinv]
    for function in functions:
        close(function, a)

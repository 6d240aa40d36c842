"""jax.numpy.linalg and jax.scipy.linalg, as far as they need no eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from matrices import dominant, like_jax, matrix, text_of

import hlo2onnx

pytestmark = pytest.mark.wide

N = 5
SQUARE = {dtype: dominant((N, N), dtype) for dtype in ("float64", "complex64")}
RIGHT = {dtype: matrix((N, 2), dtype) for dtype in SQUARE}

OF_ONE: dict[str, Callable[..., Any]] = {
    "lu": jsl.lu,
    "lu, permuted": lambda a: jsl.lu(a, permute_l=True),
    "lu_factor": jsl.lu_factor,
    "cholesky, upper": lambda a: jsl.cholesky(a @ a.conj().T, lower=False),
    "qr": jsl.qr,
    "qr, r": lambda a: jsl.qr(a, mode="r"),
    "qr_multiply": lambda a: jsl.qr_multiply(a, a[:2]),
    "qr_multiply, left": lambda a: jsl.qr_multiply(a, a[:, :2], mode="left"),
    "expm": lambda a: jsl.expm(a / 10),
    "expm, scaled": lambda a: jsl.expm(a / 2),
    "matrix_power": lambda a: jnp.linalg.matrix_power(a / 10, 5),
    "matrix_power, negative": lambda a: jnp.linalg.matrix_power(a, -3),
    "vmap of inv": lambda a: jax.vmap(jnp.linalg.inv)(jnp.stack([a, a.T])),
}
OF_TWO: dict[str, Callable[..., Any]] = {
    "solve": jsl.solve,
    "solve, lower": lambda a, b: jsl.solve(a, b, lower=True),
    "solve, transposed": lambda a, b: jnp.linalg.solve(a.T, b),
    "lu_solve": lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b),
    "lu_solve, transposed": lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=1),
    "lu_solve, adjoint": lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=2),
    "lu_solve, vector": lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b[:, 0]),
    "solve_triangular": jsl.solve_triangular,
    "solve_triangular, transposed": lambda a, b: jsl.solve_triangular(a, b, trans=1, lower=True),
    "solve_triangular, adjoint": lambda a, b: jsl.solve_triangular(a, b, trans="C"),
    "solve_triangular, unit": lambda a, b: jsl.solve_triangular(
        a / 100, b[:, 0], lower=True, unit_diagonal=True
    ),
    "vmap over right-hand sides": lambda a, b: jax.vmap(
        lambda column: jnp.linalg.solve(a, column), in_axes=1
    )(b),
}


@pytest.mark.parametrize("name", OF_ONE)
@pytest.mark.parametrize("dtype", SQUARE)
def test_of_one_matrix(dtype: str, name: str) -> None:
    like_jax(OF_ONE[name], SQUARE[dtype]).close()


@pytest.mark.parametrize("name", OF_TWO)
@pytest.mark.parametrize("dtype", SQUARE)
def test_of_two_matrices(dtype: str, name: str) -> None:
    like_jax(OF_TWO[name], SQUARE[dtype], RIGHT[dtype]).close()


def test_an_unknown_call_says_what_to_do() -> None:
    text = text_of(jnp.linalg.cholesky, np.eye(2, dtype=np.float32))
    old = text.replace("lapack_spotrf_ffi", "lapack_spotrf")
    with pytest.raises(hlo2onnx.TranslationError, match="lapack_spotrf"):
        hlo2onnx.translate(old)

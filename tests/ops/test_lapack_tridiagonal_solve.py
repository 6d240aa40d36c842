"""Tridiagonal systems: the gtsv calls of CPU and GPU, and the solver for singular matrices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from against_xla import against_xla
from jax.lax import linalg
from matrices import FLOATS, MLIR, like_jax, matrix, text_of

import hlo2onnx

pytestmark = pytest.mark.wide


def diagonals(shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    """dl, d, du of random elements, so that about half of the steps exchange rows."""
    return [matrix(shape, dtype, k) for k in range(3)]


def dense(dl: np.ndarray, d: np.ndarray, du: np.ndarray) -> np.ndarray:
    return np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 2), (30, 3), (2, 3, 5, 2), (0, 4, 2)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_solve(dtype: str, shape: tuple[int, ...]) -> None:
    """Random matrices, which need their rows exchanged."""
    b = matrix(shape, dtype, 7)
    like_jax(linalg.tridiagonal_solve, *diagonals(shape[:-1], dtype), b).close()


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_all_results(dtype: str, n: int) -> None:
    """U in the places of the diagonals, and info, as the call itself returns them."""
    count = 4
    dl, d, du = diagonals((count, n), dtype)
    for index, place in enumerate((0, n // 2, n - 1)):
        d[index, place] = dl[index, min(place + 1, n - 1)] = du[index, place - 1] = 0
    rows, vector = f"tensor<{count}x{n}x{MLIR[dtype]}>", f"tensor<{count}x{n}x1x{MLIR[dtype]}>"
    letter = dict(zip(FLOATS, "sdcz", strict=True))[dtype]
    row, column = "dense<[1, 0]> : tensor<2xindex>", "dense<[1, 2, 0]> : tensor<3xindex>"
    types = f"{rows}, {rows}, {rows}, {vector}"
    text = f"""
      func.func public @main(%dl: {rows}, %d: {rows}, %du: {rows}, %b: {vector})
          -> ({types}, tensor<{count}xi32>) {{
        %0:5 = stablehlo.custom_call @lapack_{letter}gtsv_ffi(%dl, %d, %du, %b) {{
          backend_config = {{}}, api_version = 4 : i32,
          operand_layouts = [{row}, {row}, {row}, {column}],
          result_layouts = [{row}, {row}, {row}, {column}, dense<0> : tensor<1xindex>]
        }} : ({types}) -> ({types}, tensor<{count}xi32>)
        return %0#0, %0#1, %0#2, %0#3, %0#4 : {types}, tensor<{count}xi32>
      }}"""
    run = against_xla(text, dl, d, du, matrix((count, n, 1), dtype, 7))
    info = run.expected[4]
    assert (info != 0).any()
    good = info == 0
    for results in run.actual:
        np.testing.assert_array_equal(results[4], info)
        for got, want in zip(results[:4], run.expected[:4], strict=True):
            np.testing.assert_allclose(got[good], want[good], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_singular(dtype: str) -> None:
    """NaN for the matrix of a batch that is singular."""
    dl, d, du = diagonals((3, 5), dtype)
    d[1, 0] = dl[1, 1] = 0
    d[2, 4] = du[2, 3] = dl[2, 4] = 0
    result = like_jax(linalg.tridiagonal_solve, dl, d, du, matrix((3, 5, 2), dtype)).close()
    assert np.isnan(result.actual[0][0]).all((1, 2)).tolist() == [False, True, True]


def test_nan() -> None:
    dl, d, du = diagonals((6,), "float32")
    d[3] = np.nan
    like_jax(linalg.tridiagonal_solve, dl, d, du, matrix((6, 1), "float32")).close()


def test_unused_elements_are_not_read() -> None:
    dl, d, du = diagonals((8,), "float32")
    dl[0] = du[-1] = np.nan
    like_jax(linalg.tridiagonal_solve, dl, d, du, matrix((8, 2), "float32")).close()


perturbed = partial(linalg.tridiagonal_solve, perturb_singular=True)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 2), (30, 3), (2, 3, 5, 2)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_perturbed(dtype: str, shape: tuple[int, ...]) -> None:
    """Regular matrices are solved as they are, with pivots chosen in proportion to their rows."""
    b = matrix(shape, dtype, 7)
    like_jax(perturbed, *diagonals(shape[:-1], dtype), b).close()


SINGULAR = {
    "zeros": (np.zeros(4), np.zeros(4), np.zeros(4)),
    "minus zero": (np.zeros(3), np.array([1, -0.0, 1]), np.zeros(3)),
    "differences": (-np.ones(6), np.array([1.0, 2, 2, 2, 2, 1]), -np.ones(6)),
    "one zero": (np.array([0, 0, 1.0]), np.array([0, 1.0, 2]), np.array([0, 3.0, 0])),
    "tiny": (np.zeros(3), np.array([1, 1e-310, 2]), np.zeros(3)),
    "small": (np.zeros(3), np.array([1, 1e-30, 2]), np.ones(3)),
    "one by one": (np.zeros(1), np.zeros(1), np.zeros(1)),
}


@pytest.mark.parametrize("scale", [1, 1e290])
@pytest.mark.parametrize("name", SINGULAR)
def test_perturbed_singular(name: str, scale: float) -> None:
    """The solution is finite, and of the direction that the matrix maps to 0."""
    args = [np.array(x, np.float64) for x in SINGULAR[name]]
    run = like_jax(perturbed, *args, scale * matrix((len(args[0]), 1), "float64"))
    if name != "tiny":  # XLA takes denormal numbers for 0 in some of its operations
        run.close()
    for (x,) in run.actual:
        assert np.isfinite(x).all()


def test_inverse_iteration() -> None:
    """What the solver is for: one step gives the eigenvector of a known eigenvalue."""
    n = 12
    dl, d, du = -np.ones(n), 2 * np.ones(n), -np.ones(n)
    values, vectors = np.linalg.eigh(dense(dl, d, du))
    program = hlo2onnx.translate(text_of(perturbed, dl, d, du, np.ones((n, 1))))
    for k in (0, 5, n - 1):
        x = program(dl, d - values[k], du, matrix((n, 1), "float64"))[:, 0]
        np.testing.assert_allclose(abs(x @ vectors[:, k]), np.linalg.norm(x), rtol=1e-12)

"""QR factors: geqrf, orgqr, ormqr and geqp3 calls of CPU and GPU, and the TPU's Qr."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factors import assert_nodes_do_not_depend_on_the_size
from jax.lax import linalg
from matrices import FLOATS, REAL, like_jax, matrix, text_of

import hlo2onnx
from dialect_handlers.common.linalg.qr import qr
from hlo2onnx.errors import TranslationError

pytestmark = pytest.mark.wide

SHAPES = [
    (0, 0), (3, 0), (0, 3), (1, 1), (1, 4), (4, 1), (5, 5), (5, 3), (3, 5), (32, 32), (33, 33),
    (70, 40), (40, 70), (2, 3, 5, 4), (0, 3, 3),
]  # fmt: skip


def packed(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """R with the reflections below it, and taus."""
    transposed, taus = jnp.linalg.qr(a, mode="raw")
    return transposed.mT, taus


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", REAL)
def test_real(shape: tuple[int, ...], dtype: str) -> None:
    """Q and R with LAPACK's signs."""
    like_jax(jnp.linalg.qr, matrix(shape, dtype)).close()


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (5, 3), (3, 5), (40, 33), (2, 4, 4)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(shape: tuple[int, ...], dtype: str) -> None:
    """The last row of a square complex matrix is reflected too, to make R real there."""
    like_jax(jnp.linalg.qr, matrix(shape, dtype)).close()


@pytest.mark.parametrize("mode", ["complete", "raw", "r"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (2, 5, 5), (3, 0)])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_modes(dtype: str, shape: tuple[int, ...], mode: Any) -> None:
    like_jax(lambda a: jnp.linalg.qr(a, mode=mode), matrix(shape, dtype)).close()


SPECIAL: dict[str, np.ndarray] = {
    "zeros": np.zeros((4, 3)),
    "identity": np.eye(4),
    "permutation": np.eye(6)[[3, 1, 5, 0, 2, 4]],
    "triangle": np.triu(matrix((5, 5), "float64")),
    "minus zero": np.array([[-0.0, 1], [2, 3]]),
    "imaginary": 1j * np.triu(np.abs(matrix((4, 4), "float64"))),
    "a zero column": matrix((6, 6), "float64") * np.array([1, 0, 1, 1, 0, 1]),
    "tiny below": np.array([[1, 2], [1e-25, 3], [0, 1e-30]], np.float32),
    "huge": 1e30 * matrix((5, 5), "float32"),
    "tiny": 1e-30 * matrix((5, 5), "float32"),
    "graded": matrix((6, 6), "float64") * np.logspace(0, -300, 6),
    "huge complex": 1e200 * matrix((4, 4), "complex128"),
    "negative": -np.abs(matrix((5, 4), "float64")),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name: str) -> None:
    """Nothing overflows or vanishes, and the signs are LAPACK's, that of -0 included."""
    a = SPECIAL[name]
    run = like_jax(packed, a).close()
    for got, want in zip(run.actual[0], run.expected, strict=True):
        np.testing.assert_array_equal(got == 0, want == 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(6, 6), (70, 40), (3, 40)])
def test_nan_comes_to_what_depends_on_it(shape: tuple[int, int], value: float) -> None:
    """Columns before it are numbers, as in LAPACK."""
    a = matrix(shape, "float64")
    a[shape[0] // 2, shape[1] // 2] = value
    like_jax(packed, a).close()


def test_one_nan_in_a_batch() -> None:
    a = matrix((3, 40, 40), "float32")
    a[1, 0, 20] = np.nan
    like_jax(packed, a).close()


def test_of_nearly_dependent_columns() -> None:
    """Q is orthogonal to rounding however badly conditioned the matrix is."""
    a = 1 / (np.arange(50)[:, None] + np.arange(50) + 1).astype(np.float32)
    q, r = (x.astype(np.float64) for x in hlo2onnx.translate(text_of(jnp.linalg.qr, a))(a))
    assert np.abs(q @ r - a).max() <= 20 * np.finfo(np.float32).eps
    assert np.abs(q.T @ q - np.eye(50)).max() <= 20 * np.finfo(np.float32).eps


def test_nodes_do_not_depend_on_the_size() -> None:
    assert_nodes_do_not_depend_on_the_size(qr, 165, 101, (200, 1000))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_ormqr(dtype: str, transpose: bool, left: bool) -> None:
    """Q C, C Q, Q^H C and C Q^H, also by fewer reflections than a has columns."""

    def multiply(a: jax.Array, c: jax.Array) -> list[jax.Array]:
        reflections, taus = packed(a)
        return [
            linalg.ormqr(reflections, taus[..., :k], c, left=left, transpose=transpose)
            for k in (0, 2, 40)
        ]

    shape = (2, 45, 3) if left else (2, 3, 45)
    like_jax(multiply, matrix((2, 45, 40), dtype), matrix(shape, dtype)).close()


@pytest.mark.parametrize("dtype", FLOATS)
def test_householder_product(dtype: str) -> None:
    """Of arbitrary vectors and factors, which make no orthogonal matrix."""
    a, taus = matrix((2, 6, 4), dtype), matrix((2, 3), dtype)
    like_jax(linalg.householder_product, a, taus).close()


# -- pivoted ----------------------------------------------------------------------------------


def pivoted(mode: str) -> Callable[[jax.Array], Any]:
    return lambda a: jax.scipy.linalg.qr(a, pivoting=True, mode=mode)


@pytest.mark.parametrize("shape", [(5, 5), (6, 4), (4, 6), (1, 3), (3, 1), (40, 40), (2, 5, 5)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pivoted(shape: tuple[int, ...], dtype: str) -> None:
    """The same columns in the same order, then the same factors."""
    like_jax(pivoted("economic"), matrix(shape, dtype)).close()


PIVOTED_SPECIAL = {
    "graded": matrix((6, 6), "float32") * np.logspace(-30, 0, 6, dtype=np.float32),
    "graded in f64": matrix((6, 6), "float64") * np.logspace(0, -100, 6),
    "of rank 1": np.outer(np.arange(1.0, 6), [3, 1, 4, 2]),
    "zeros": np.zeros((3, 3)),
    "diagonal": np.diag([1.0, -5, 3, 2]),
}


@pytest.mark.parametrize("name", PIVOTED_SPECIAL)
def test_pivoted_special(name: str) -> None:
    """Lengths that differ by many orders of magnitude are told apart; where only rounding errors
    are left, any order will do."""
    a = PIVOTED_SPECIAL[name]
    run = like_jax(pivoted("economic"), a)
    q, r, order = run.actual[0]
    np.testing.assert_allclose(q @ r, a[:, order], rtol=1e-5, atol=1e-5 * np.abs(a).max())
    rank = np.linalg.matrix_rank(a / np.maximum(np.abs(a).max(0), 1e-300))
    np.testing.assert_array_equal(order[:rank], run.expected[2][:rank])
    want = run.expected[1][:rank, :rank]
    np.testing.assert_allclose(r[:rank, :rank], want, rtol=1e-5, atol=1e-300)


@pytest.mark.parametrize("columns", ["1", "[0, 1, 0]"])
def test_columns_told_to_come_first_are_refused(columns: str) -> None:
    text = text_of(pivoted("economic"), np.ones((3, 3), np.float32))
    spread = "stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3xi32>"
    fixed = text.replace(spread, f"stablehlo.constant dense<{columns}> : tensor<3xi32>")
    assert fixed != text
    with pytest.raises(TranslationError, match="to the front"):
        hlo2onnx.translate(fixed)

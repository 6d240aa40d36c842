"""Cholesky factors: stablehlo.cholesky and the potrf calls of CPU and GPU."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from factors import assert_nodes_do_not_depend_on_the_size
from jax.lax import linalg
from matrices import FLOATS, MLIR, definite, like_jax, matrix
from mlir_text import tensor

import hlo2onnx
from hlo2onnx.runtime.sessions import OrtProgram

pytestmark = pytest.mark.wide

SHAPES = [(0, 0), (1, 1), (2, 2), (5, 5), (32, 32), (33, 33), (70, 70), (2, 3, 4, 4), (0, 3, 3)]


def op(dtype: str, lower: str, shape: tuple[int, ...]) -> str:
    type_ = tensor(shape, MLIR[dtype])
    return f"""
      func.func public @main(%a: {type_}) -> {type_} {{
        %0 = stablehlo.cholesky %a{lower} : {type_}
        return %0 : {type_}
      }}"""


def call(dtype: str, uplo: str, shape: tuple[int, ...], batch: str = "") -> str:
    """A potrf call that returns all its results. Column-major layouts, as JAX asks for."""
    type_, info = tensor(shape, MLIR[dtype]), f"tensor<{batch}i32>"
    rank = len(shape)
    layout = [rank - 2, rank - 1, *reversed(range(rank - 2))]
    infos = list(reversed(range(rank - 2)))
    letter = dict(zip(FLOATS, "sdcz", strict=True))[dtype]
    return f"""
      func.func public @main(%a: {type_}) -> ({type_}, {info}) {{
        %0:2 = stablehlo.custom_call @lapack_{letter}potrf_ffi(%a) {{
          backend_config = {{uplo = {ord(uplo)} : ui8}},
          operand_layouts = [dense<{layout}> : tensor<{rank}xindex>],
          result_layouts = [dense<{layout}> : tensor<{rank}xindex>,
                            dense<{infos}> : tensor<{rank - 2}xindex>],
          api_version = 4 : i32
        }} : ({type_}) -> ({type_}, {info})
        return %0#0, %0#1 : {type_}, {info}
      }}"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_potrf(shape: tuple[int, ...], dtype: str) -> None:
    like_jax(lambda a: linalg.cholesky(a, symmetrize_input=False), definite(shape, dtype)).close()


@pytest.mark.parametrize("lower", ["", ", lower = false", ", lower = true"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 3), (0, 2, 2), (0, 0)])
@pytest.mark.parametrize("dtype", MLIR)
def test_op(dtype: str, lower: str, shape: tuple[int, ...]) -> None:
    wide = "complex128" if dtype.startswith("complex") else "float64"
    against_xla(op(dtype, lower, shape), definite(shape, wide).astype(MLIR_TYPES[dtype])).close()


MLIR_TYPES = {name: np.dtype(getattr(ml_dtypes, name, None) or name) for name in MLIR}


@pytest.mark.parametrize("lower", [True, False])
def test_op_reads_one_triangle(lower: bool) -> None:
    """Nothing of the other triangle reaches the result, which has zeros there."""
    a = definite((40, 40), "float64")
    other = np.triu(np.ones((40, 40), bool), 1) if lower else np.tril(np.ones((40, 40), bool), -1)
    run = against_xla(
        op("float64", f", lower = {str(lower).lower()}", a.shape), np.where(other, np.nan, a)
    )
    run.close()
    assert (run.actual[0][0][other] == 0).all()


INDEFINITE = {
    "negative first": (0, -1.0),
    "zero first": (0, 0.0),
    "negative within": (2, -1.0),
    "negative last": (4, -1.0),
    "NaN": (3, np.nan),
}


@pytest.mark.parametrize(("place", "value"), INDEFINITE.values(), ids=INDEFINITE)
@pytest.mark.parametrize("size", [5, 40])
def test_op_of_indefinite(place: int, value: float, size: int) -> None:
    """NaN throughout for the matrix that has no factor; the others of a batch have theirs."""
    a = definite((2, size, size), "float32")
    a[1, place, place] = value
    run = against_xla(op("float32", ", lower = true", a.shape), a).close()
    assert np.isnan(run.actual[0][0]).all(axis=(-2, -1)).tolist() == [False, True]


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_potrf_keeps_the_other_triangle(dtype: str, uplo: str) -> None:
    a = definite((2, 6, 6), dtype)
    other = np.triu(np.ones((6, 6), bool), 1) if uplo == "L" else np.tril(np.ones((6, 6), bool), -1)
    a[:, other] = matrix((2, int(other.sum())), dtype)
    run = against_xla(call(dtype, uplo, a.shape, "2x"), a).close()
    np.testing.assert_array_equal(run.actual[0][0][:, other], a[:, other])
    assert not run.actual[0][1].any()


@pytest.mark.parametrize("uplo", ["L", "U"])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("size", [1, 6, 45])
def test_info(dtype: str, uplo: str, size: int) -> None:
    """The number of the first leading minor that is not positive, for each matrix. NaN is none."""
    places = sorted({0, size // 2, size - 1})
    bad = [(place, value) for place in places for value in (-1.0, 0.0, np.nan)]
    a = definite((len(bad) + 1, size, size), dtype)
    for index, (place, value) in enumerate(bad):
        if value == 0:
            a[index, place, :] = a[index, :, place] = 0
        a[index, place, place] = value
    run = against_xla(call(dtype, uplo, a.shape, f"{len(a)}x"), a)
    want = [0 if np.isnan(value) else place + 1 for place, value in bad] + [0]
    for _, info in (*run.actual, run.expected):
        assert info.tolist() == want


@pytest.mark.parametrize("size", [6, 45])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_comes_to_what_depends_on_it(size: int, value: float) -> None:
    """Element by element as in LAPACK."""
    a = definite((4, size, size), "float64")
    a[0, size // 2, size // 2] = value
    a[1, -1, -1] = value
    a[2, size - 1, size // 3] = value
    like_jax(lambda x: linalg.cholesky(x, symmetrize_input=False), a).close()


def test_the_diagonal_is_real() -> None:
    """Imaginary parts on the diagonal are not read."""
    a = definite((4, 4), "complex128")
    a[np.diag_indices(4)] += 1j
    like_jax(lambda x: linalg.cholesky(x, symmetrize_input=False), a).close()


def test_nodes_do_not_depend_on_the_size() -> None:
    assert_nodes_do_not_depend_on_the_size(jnp.linalg.cholesky, 105, 101, (200, 1000))


def test_an_ill_conditioned_matrix() -> None:
    """The residual is small beside the matrix, however small its least eigenvalue is."""
    x = np.linspace(0, 1, 150)
    a = np.exp(-((x[:, None] - x) ** 2) / 0.02) + 1e-5 * np.eye(150)
    a = a.astype(np.float32)
    program = hlo2onnx.translate(op("float32", ", lower = true", a.shape))
    session = OrtProgram(program.model_proto.SerializeToString())
    (factor,) = session({program.input_names[0]: a})
    wide = factor.astype(np.float64)
    assert np.abs(wide @ wide.T - a).max() <= 20 * np.finfo(np.float32).eps

"""LU factors: the getrf calls of CPU and GPU, the TPU's LuDecomposition, pivots as permutations."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from factors import assert_nodes_do_not_depend_on_the_size
from jax.lax import linalg
from matrices import FLOATS, MLIR, REAL, dominant, like_jax, matrix, text_of

import hlo2onnx
from dialect_handlers.common.linalg.lu import lu

pytestmark = pytest.mark.wide

SHAPES = [
    (0, 0), (3, 0), (0, 3), (1, 1), (1, 4), (4, 1), (5, 5), (5, 3), (3, 5), (32, 32), (33, 33),
    (70, 40), (40, 70), (2, 3, 4, 4), (0, 3, 3),
]  # fmt: skip


def call(dtype: str, shape: tuple[int, int, int]) -> str:
    """A getrf call that returns all its results."""
    batch, m, n = shape
    type_ = f"tensor<{batch}x{m}x{n}x{MLIR[dtype]}>"
    pivots, info = f"tensor<{batch}x{min(m, n)}xi32>", f"tensor<{batch}xi32>"
    letter = dict(zip(FLOATS, "sdcz", strict=True))[dtype]
    return f"""
      func.func public @main(%a: {type_}) -> ({type_}, {pivots}, {info}) {{
        %0:3 = stablehlo.custom_call @lapack_{letter}getrf_ffi(%a) {{
          backend_config = {{}}, api_version = 4 : i32,
          operand_layouts = [dense<[1, 2, 0]> : tensor<3xindex>],
          result_layouts = [dense<[1, 2, 0]> : tensor<3xindex>, dense<[1, 0]> : tensor<2xindex>,
                            dense<0> : tensor<1xindex>]
        }} : ({type_}) -> ({type_}, {pivots}, {info})
        return %0#0, %0#1, %0#2 : {type_}, {pivots}, {info}
      }}"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", REAL)
def test_real(shape: tuple[int, ...], dtype: str) -> None:
    """Factors, pivots and permutation are LAPACK's."""
    like_jax(linalg.lu, matrix(shape, dtype)).close()


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (33, 33), (2, 4, 4)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(shape: tuple[int, ...], dtype: str) -> None:
    like_jax(linalg.lu, matrix(shape, dtype)).close()


def test_complex_pivots_are_largest_by_the_sum_of_their_parts() -> None:
    """|re| + |im| is what LAPACK compares: 3 + 3i comes before 5."""
    a = np.array([[5, 1], [3 + 3j, 2]], "complex128")
    _, pivots, _ = like_jax(linalg.lu, a).close().actual[0]
    assert pivots.tolist() == [1, 1]


TIES = {
    "signs": np.sign(matrix((12, 12), "float64")),
    "ones": np.ones((5, 5)),
    "zeros": np.zeros((4, 6)),
    "identity": np.eye(6),
    "reversed": np.eye(6)[::-1].copy(),
    "small integers": np.round(matrix((20, 14), "float64")),
    "differences": np.eye(40) - np.eye(40, k=1) - np.eye(40, k=-1),
    "after an exchange": np.array([[1.0, 1, 2], [2, 0, 0], [1, 1, 3]]),
}


@pytest.mark.parametrize("name", TIES)
def test_ties(name: str) -> None:
    """Of equally large elements the first in the rows' present order is the pivot."""
    run = like_jax(linalg.lu, TIES[name])
    for pivots, want in zip(run.actual[0][1:], run.expected[1:], strict=True):
        np.testing.assert_array_equal(pivots, want)
    run.close()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("size", [1, 5, 40])
def test_info(dtype: str, size: int) -> None:
    """The number of the first pivot that is exactly zero."""
    zeros = sorted({0, size // 2, size - 1})
    a = np.stack([np.triu(matrix((size, size), dtype)) for _ in (*zeros, "")])
    for index, place in enumerate(zeros):
        a[index, place, place] = 0
    run = against_xla(call(dtype, a.shape), a).close()
    assert run.actual[0][2].tolist() == [place + 1 for place in zeros] + [0]


def test_singular_within() -> None:
    """Elimination goes on below a column of zeros."""
    a = matrix((6, 6), "float64")
    a[:, [2, 4]] = 0
    like_jax(linalg.lu, a).close()


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan(dtype: str) -> None:
    """NaN stays NaN, and pivots and permutation are valid whatever it is compared with."""
    a = matrix((40, 40), dtype)
    a[3, 2] = np.nan
    program = hlo2onnx.translate(text_of(linalg.lu, a))
    packed, pivots, rows = program(a)
    assert np.isnan(packed).any()
    assert sorted(rows) == list(range(40))
    assert (pivots >= np.arange(40)).all()
    assert (pivots < 40).all()


@pytest.mark.parametrize("size", [64, 200])
@pytest.mark.parametrize("dtype", REAL)
def test_residual(size: int, dtype: str) -> None:
    a = matrix((size, size), dtype)
    packed, _, rows = hlo2onnx.translate(text_of(linalg.lu, a))(a)
    wide = packed.astype(np.float64)
    product = (np.tril(wide, -1) + np.eye(size)) @ np.triu(wide)
    assert np.abs(product - a[rows]).max() <= 20 * np.finfo(dtype).eps * np.abs(a).max()


def test_nodes_do_not_depend_on_the_size() -> None:
    """In place, and moving rows where elements are equal."""
    assert_nodes_do_not_depend_on_the_size(lu, 200, 101, (200, 1000))


def scans(graph: oir.Graph) -> list[Counter[str]]:
    """The operators in the body of each Scan of a graph, also within bodies, but not branches."""
    found = []
    for node in graph:
        if node.op_type == "Scan":
            body = node.attributes["body"].as_graph()
            found += [Counter(one.op_type for one in body), *scans(body)]
    return found


@pytest.mark.parametrize(("size", "loops"), [(8, 1), (64, 1), (65, 2), (200, 2)])
def test_each_column_takes_few_nodes(size: int, loops: int) -> None:
    """Rows stay in place, and nothing clamps an index. Small matrices are not cut into blocks."""
    program = hlo2onnx.translate(text_of(lambda a: linalg.lu(a)[0], np.ones((size, size))))
    *blocks, panel = scans(program.model.graph)
    assert len(blocks) + 1 == loops
    assert panel.total() <= 7 and not {"Clip", "Max", "Min"} & set(panel)


@pytest.mark.parametrize("shape", [(50, 50), (3, 3), (7, 3, 3), (2, 6, 6)])
def test_the_permutation_takes_no_loop(shape: tuple[int, ...]) -> None:
    """JAX's loop from pivots to the permutation gives what the factorization knows."""

    def rows(a: jax.Array) -> jax.Array:
        return linalg.lu(a)[2]

    program = hlo2onnx.translate(text_of(rows, np.ones(shape)))
    whole = hlo2onnx.translate(text_of(lambda a: linalg.lu(a)[0], np.ones(shape)))
    assert len(scans(program.model.graph)) <= len(scans(whole.model.graph))
    like_jax(rows, matrix(shape, "float64")).close()


def test_another_loop_over_pivots_stays() -> None:
    """It exchanges rows from the last one on."""

    def backwards(a: jax.Array) -> jax.Array:
        _, pivots, _ = linalg.lu(a)
        return linalg.lu_pivots_to_permutation(pivots[::-1], 6)

    like_jax(backwards, matrix((6, 6), "float64")).close()


def test_exchanges_in_a_state() -> None:
    """A solver keeps a factorization from one trip to the next."""

    def solve(a: jax.Array, b: jax.Array) -> Any:
        def step(k: Any, state: Any) -> Any:
            factors, x = state
            again = lambda: jax.scipy.linalg.lu_factor(a + k)  # noqa: E731
            factors = jax.lax.cond(k % 3 == 0, again, lambda: factors)
            return factors, jax.scipy.linalg.lu_solve(factors, x + b)

        return jax.lax.fori_loop(0, 5, step, (jax.scipy.linalg.lu_factor(a), b))[1]

    like_jax(solve, dominant((3, 3), "float64")[::-1], matrix((3,), "float64")).close()


@pytest.mark.parametrize("dtype", REAL)
def test_equal_elements_in_a_late_column(dtype: str) -> None:
    """Rows that stay in place find the first of the equal elements by its original number."""
    a = np.diag(np.arange(40.0, 0, -1)).astype(dtype)
    a[[0, 39]] = a[[39, 0]]
    a[30:, 33] = 2
    run = like_jax(linalg.lu, a)
    np.testing.assert_array_equal(run.actual[0][1], run.expected[1])
    run.close()


@pytest.mark.parametrize("dtype", REAL)
def test_singular_matrices(dtype: str) -> None:
    """det is 0, slogdet -inf, and what is infinite in JAX is infinite here."""
    a = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 0]], [[1, 2], [3, 4]]], dtype)

    def everything(a: jax.Array) -> list[jax.Array]:
        return [jnp.linalg.inv(a), jnp.linalg.det(a), *jnp.linalg.slogdet(a)]

    like_jax(everything, a).close()

"""Triangular systems: stablehlo.triangular_solve and the trsm calls of the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from jax.lax import linalg
from matrices import FLOATS, MLIR, dominant, like_jax, matrix, text_of
from mlir_text import tensor

import hlo2onnx

pytestmark = pytest.mark.wide

TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


Combination = tuple[bool, bool, bool]
"""left_side, lower, unit_diagonal"""
COMBINATIONS: Sequence[Combination] = [
    (left_side, lower, unit_diagonal)
    for left_side, lower, unit_diagonal in product((False, True), repeat=3)
]


def op(
    dtype: str,
    dims: Sequence[int],
    columns: int,
    transpose_a: str,
    combinations: Sequence[Combination] = COMBINATIONS,
) -> str:
    """Solves of these combinations, on b [..., n, columns] or its transpose."""
    *batch, n = dims
    a, left, right = (
        tensor((*batch, *last), MLIR[dtype]) for last in ((n, n), (n, columns), (columns, n))
    )
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    lines = [f"%t = stablehlo.transpose %b, dims = {order} : ({left}) -> {right}"]
    for index, (left_side, lower, unit_diagonal) in enumerate(combinations):
        b, type_ = ("%b", left) if left_side else ("%t", right)
        attributes = ", ".join(
            f"{name} = {str(value).lower()}"
            for name, value in (
                ("left_side", left_side),
                ("lower", lower),
                ("unit_diagonal", unit_diagonal),
            )
        )
        lines.append(
            f"""%{index} = "stablehlo.triangular_solve"(%a{int(lower)}, {b}) <{{{attributes},
            transpose_a = #stablehlo<transpose {transpose_a}>}}> : ({a}, {type_}) -> {type_}"""
        )
    types = ", ".join(left if combination[0] else right for combination in combinations)
    results = ", ".join(f"%{index}" for index in range(len(combinations)))
    return f"""
      func.func public @main(%a0: {a}, %a1: {a}, %b: {left}) -> ({types}) {{
        {chr(10).join(lines)}
        return {results} : {types}
      }}"""


def halves(dims: Sequence[int], dtype: np.dtype[Any] | str) -> list[np.ndarray]:
    """Matrices of which the upper or the lower triangle is well-conditioned, also with ones on the
    diagonal, and the other triangle NaN."""
    *batch, n = dims
    wide = "complex128" if np.dtype(dtype).kind == "c" else "float64"
    a = dominant((*batch, n, n), wide) / max(n, 1) ** 2
    other = np.tri(n, k=-1, dtype=bool)
    return [np.where(unread, np.nan, a).astype(dtype) for unread in (other, other.T)]


@pytest.mark.parametrize("transpose_a", TRANSPOSES)
@pytest.mark.parametrize("dtype", MLIR)
def test_op(dtype: str, transpose_a: str) -> None:
    """Every combination of attributes."""
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    b = matrix((2, 5, 3), "complex128" if kind.kind == "c" else "float64").astype(kind)
    against_xla(op(dtype, (2, 5), 3, transpose_a), *halves((2, 5), kind), b).close()


SHAPES = [
    ((0,), 2),
    ((3,), 0),
    ((1,), 1),
    ((2,), 1),
    ((32,), 1),
    ((33,), 2),
    ((65,), 1),
    ((0, 3), 1),
]


@pytest.mark.parametrize(("dims", "columns"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_shapes(dtype: str, dims: tuple[int, ...], columns: int) -> None:
    text = op(dtype, dims, columns, "NO_TRANSPOSE", [(True, True, False), (False, True, False)])
    against_xla(text, *halves(dims, dtype), matrix((*dims, columns), dtype)).close()


@pytest.mark.parametrize("unit_diagonal", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_trsm(dtype: str, unit_diagonal: bool) -> None:
    """Every combination of attributes that JAX has."""
    upper, lower = halves((6,), dtype)
    if unit_diagonal:
        upper[np.diag_indices(6)] = lower[np.diag_indices(6)] = np.nan

    def solve(upper: jax.Array, lower: jax.Array, b: jax.Array) -> list[jax.Array]:
        return [
            linalg.triangular_solve(
                lower if is_lower else upper,
                b if left_side else b.T,
                left_side=left_side,
                lower=is_lower,
                transpose_a=transpose_a,
                conjugate_a=conjugate_a,
                unit_diagonal=unit_diagonal,
            )
            for left_side, is_lower in product((False, True), repeat=2)
            for transpose_a, conjugate_a in ((False, False), (True, False), (True, True))
        ]

    like_jax(solve, upper, lower, matrix((6, 2), dtype)).close()


def lower_solve(a: jax.Array, b: jax.Array) -> jax.Array:
    return linalg.triangular_solve(a, b, left_side=True, lower=True)


SPECIAL = {
    "zero diagonal": ((2, 2), 0.0),
    "zero diagonal first": ((0, 0), 0.0),
    "zero diagonal last": ((-1, -1), 0.0),
    "infinite diagonal": ((3, 3), np.inf),
    "NaN diagonal": ((3, 3), np.nan),
    "NaN": ((4, 1), np.nan),
    "infinity": ((4, 1), -np.inf),
}


@pytest.mark.parametrize(("place", "value"), SPECIAL.values(), ids=SPECIAL)
@pytest.mark.parametrize("size", [6, 40])
def test_singular(place: tuple[int, int], value: float, size: int) -> None:
    """Infinities and NaN come where substitution brings them, and nowhere else."""
    a = dominant((size, size), "float64")
    a[place] = value
    like_jax(lower_solve, a, matrix((size, 2), "float64")).close()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_special_right_hand_side(value: float) -> None:
    b = matrix((40, 3), "float32")
    b[20, 1] = value
    like_jax(lower_solve, dominant((40, 40), "float32"), b).close()


def graded(n: int) -> np.ndarray:
    """A triangle that grows by 25 orders of magnitude."""
    return np.tril(dominant((n, n), "float64")) * np.logspace(0, -25, n)[:, None]


ILL_CONDITIONED = {
    "kernel": lambda n: np.linalg.cholesky(
        np.exp(-((np.linspace(0, 9, n)[:, None] - np.linspace(0, 9, n)) ** 2)) + 1e-6 * np.eye(n)
    ),
    "random": lambda n: np.tril(matrix((n, n), "float64")),
    "minus ones": lambda n: np.eye(n) - np.tril(np.ones((n, n)), -1),
    "graded": graded,
}


@pytest.mark.parametrize("name", ILL_CONDITIONED)
@pytest.mark.parametrize("size", [20, 60])
def test_residual(name: str, size: int) -> None:
    """Element by element the residual is small beside |A| |X|, as substitution has it."""
    a = ILL_CONDITIONED[name](size).astype(np.float32)
    b = matrix((size, 3), "float32")
    x = hlo2onnx.translate(text_of(lower_solve, a, b))(a, b)
    wide = np.tril(a).astype(np.float64)
    residual = np.abs(b - wide @ x.astype(np.float64))
    allowed = size * np.finfo(np.float32).eps * (np.abs(wide) @ np.abs(x.astype(np.float64)))
    assert (residual <= allowed).all()


def test_nodes_do_not_depend_on_the_size() -> None:
    sizes = {
        hlo2onnx.translate(
            text_of(lower_solve, np.eye(size), np.ones((size, 2)))
        ).report.nodes.total()
        for size in (101, 200, 1000)
    }
    assert max(sizes) - min(sizes) <= 2, "another way to write rows, perhaps"
    assert max(sizes) < 90

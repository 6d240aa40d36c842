"""Decompositions in ONNX Runtime, judged by the product of their factors.

Vectors are unique only up to a sign or a phase, and rounding differs from LAPACK. Residuals are
relative to the largest element of the matrix, in units of its size times the rounding error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from matrices import text_of

import hlo2onnx
from hlo2onnx.program import OnnxProgram

Function = Callable[..., Any]

UNITS = 10
"""The largest allowed residual, in those units."""


@cache
def _translated(function: Function, shape: tuple[int, ...], dtype: str) -> OnnxProgram:
    return hlo2onnx.translate(text_of(function, np.zeros(shape, dtype)))


def factors(function: Function, a: np.ndarray) -> list[np.ndarray]:
    """The results of a function of one array in ONNX Runtime, with XLA's types and shapes.

    It translates the module for each shape and type once.
    """
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(jax.eval_shape(function, a))
    found = _translated(function, a.shape, a.dtype.name)(a)
    results = list(found) if isinstance(found, tuple) else [found]
    assert [(x.shape, x.dtype) for x in results] == [(x.shape, x.dtype) for x in wanted]
    return results


def in_xla(function: Function, a: np.ndarray) -> list[np.ndarray]:
    """The results of the function in XLA."""
    with jax.enable_x64(True):
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(a))]


def wide(a: np.ndarray) -> np.ndarray:
    """An array of floats in 64 bits, or a complex one in 128."""
    return a.astype(np.result_type(a, np.float64))


def adjoint(a: np.ndarray) -> np.ndarray:
    """The conjugate transpose of each matrix."""
    transposed: np.ndarray = a.conj().swapaxes(-1, -2)
    return transposed


def product(*matrices: np.ndarray) -> np.ndarray:
    """The product of matrices, in at least 64 bits."""
    result = wide(matrices[0])
    for matrix in matrices[1:]:
        result = result @ wide(matrix)
    return result


def assert_equal(got: np.ndarray, want: np.ndarray, a: np.ndarray, units: float = UNITS) -> None:
    """Asserts that two arrays made from the matrices `a` [..., m, n] are equal to rounding."""
    limit = units * max(*a.shape[-2:], 1) * np.finfo(a.dtype).eps * abs(wide(a)).max(initial=0)
    difference = abs(wide(got) - wide(want)).max(initial=0)
    assert difference <= limit, f"{difference / limit * units:.1f} units, not {units}"


def assert_unitary(q: np.ndarray, units: float = UNITS) -> None:
    """Asserts that the columns of each matrix [..., m, n] are orthonormal."""
    unit = np.broadcast_to(np.eye(q.shape[-1], dtype=q.dtype), (*q.shape[:-2], *q.shape[-1:] * 2))
    assert_equal(product(adjoint(q), q), unit, unit, units)


def nodes_of(function: Function, *sizes: int) -> list[int]:
    """The node counts of the models for square matrices of these sizes."""
    return [_translated(function, (size, size), "float64").report.nodes.total() for size in sizes]


THRESHOLDS = 8
"""Nodes by which models may differ as tables of constants pass the sizes at which rules fire."""


def assert_nodes_do_not_depend_on_the_size(
    function: Function, most: int, smallest: int = 40, large: tuple[int, int] = (300, 960)
) -> None:
    """Asserts that models have fewer than `most` nodes, however large the matrices are."""
    small, *whole_blocks = nodes_of(function, smallest, *large)
    assert max(whole_blocks) < most
    assert abs(whole_blocks[0] - whole_blocks[1]) <= THRESHOLDS
    assert small <= whole_blocks[0], "small tables of constants are computed beforehand"


def assert_poison_stays(
    function: Function, a: np.ndarray, place: tuple[int, ...], value: float
) -> None:
    """Asserts that NaN or an infinity in one of the matrices `a` [..., m, n] makes all results of
    this matrix NaN, as in XLA for NaN, and does not change the results of other matrices."""
    poisoned = a.copy()
    poisoned[place] = value
    own = place[:-2]
    others = np.ones(a.shape[:-2], bool)
    others[own] = False
    pairs = zip(factors(function, a), factors(function, poisoned), strict=True)
    for (before, after), want in zip(pairs, in_xla(function, poisoned), strict=True):
        assert np.isnan(after[own]).all()
        np.testing.assert_array_equal(after[others], before[others])
        if np.isnan(value):
            np.testing.assert_array_equal(np.isnan(after), np.isnan(want))

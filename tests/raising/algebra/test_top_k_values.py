"""The values of a TopK replace a gather at its places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_jax
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.top_k_values import TopKValues

ROW = np.array([3, -0.0, 2, 0.0, -5, 3, -np.inf, 2], np.float32)
MATRIX = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def top_k(
    b: GraphBuilder, x: oir.Value, k: int, axis: int = -1, largest: int = 1
) -> tuple[oir.Value, oir.Value]:
    values, places = b.outputs("TopK", x, b.i64([k]), axis=axis, n_outputs=2, largest=largest)
    return values, places


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.int8])
@pytest.mark.parametrize("op_type", ["Gather", "GatherElements"])
@pytest.mark.parametrize("largest", [0, 1])
def test_vectors(dtype: type, op_type: str, largest: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op(op_type, x, top_k(b, x, 5, -1, largest)[1], axis=0)

    row = ROW if np.issubdtype(dtype, np.floating) else np.where(np.isinf(ROW), 9, ROW)
    Rewrite(build, {"x": row.astype(dtype)}, TopKValues()).gives("TopK")


@pytest.mark.parametrize("axis", [0, 1])
def test_axes(axis: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.GatherElements(x, top_k(b, x, 2, axis - 2)[1], axis=axis)

    Rewrite(build, {"x": MATRIX}, TopKValues()).gives("TopK")


Build = Callable[[GraphBuilder, oir.Value], oir.Value]
NEAR_MISSES: dict[str, Build] = {
    "another axis": lambda b, x: b.GatherElements(x, top_k(b, x, 2, 0)[1], axis=1),
    "whole rows": lambda b, x: b.Gather(x, top_k(b, x, 2, 0)[1], axis=0),
    "of another value": lambda b, x: b.GatherElements(b.Neg(x), top_k(b, x, 2, 0)[1], axis=0),
    "other places": lambda b, x: b.GatherElements(x, b.Neg(top_k(b, x, 2, 0)[1]), axis=0),
    "places of places": lambda b, x: b.GatherElements(x, _places_as_values(b, x), axis=0),
}


def _places_as_values(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return top_k(b, top_k(b, x, 2, 0)[1], 2, 0)[0]


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_other_gathers_stay(name: str) -> None:
    Rewrite(NEAR_MISSES[name], {"x": MATRIX}, TopKValues()).nothing()


def test_indices_of_the_row_itself() -> None:
    """A TopK of the gathered value whose values, not places, are the indices."""
    rows = np.array([2, 0, 1], np.int64)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Gather(x, top_k(b, x, 2)[0], axis=0)

    Rewrite(build, {"x": rows}, TopKValues()).nothing()


SORTED: dict[str, tuple[Any, np.ndarray]] = {
    "argsort": (lambda x: x[jnp.argsort(x)], np.array([3, 1, 2, 1, -4], np.int32)),
    "along an axis": (
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, 0), 0),
        np.array([[3, 1, 2], [1, -4, 7]], np.int32),
    ),
}


@pytest.mark.parametrize("name", SORTED)
def test_in_jax(name: str) -> None:
    function, x = SORTED[name]
    against_jax(function, x).bit_exact().graph_is("TopK")

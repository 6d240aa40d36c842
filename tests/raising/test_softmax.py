"""Softmax and LogSoftmax: where they are raised, and what is something else."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.softmax import LogSoftmax, Softmax

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32) * 9
EDGES = X.copy()
EDGES[0, 0, 0], EDGES[1, 0], EDGES[1, 1, :3], EDGES[2, 0, 0] = np.nan, -np.inf, -np.inf, 3e38


def shifted(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    result: oir.Value = b.Sub(x, b.ReduceMax(x, b.i64([axis]), keepdims=keepdims))
    return result


def total(b: GraphBuilder, x: oir.Value, axis: int, keepdims: int = 1) -> oir.Value:
    result: oir.Value = b.ReduceSum(x, b.i64([axis]), keepdims=keepdims)
    return result


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("axis", "keepdims"), [(2, 1), (1, 1), (0, 1), (0, 0)])
def test_softmax(axis: int, keepdims: int, dtype: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, axis, keepdims))
        return b.Neg(b.Div(exponential, total(b, exponential, axis, keepdims)))

    Rewrite(build, {"x": X.astype(dtype)}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


def test_softmax_at_the_edges() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, 2))
        return b.Neg(b.Div(exponential, total(b, exponential, 2)))

    # Without a NaN: of those the bare ReduceMax of the runtime loses some.
    edges = np.nan_to_num(EDGES, nan=0, posinf=np.inf, neginf=-np.inf)
    Rewrite(build, {"x": edges}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


@pytest.mark.parametrize(("of_maximum", "of_sum"), [(1, 2), (2, 1)])
def test_softmax_needs_one_axis(of_maximum: int, of_sum: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, of_maximum))
        return b.Div(exponential, total(b, exponential, of_sum))

    Rewrite(build, {"x": X}, Softmax()).nothing()


def test_softmax_needs_the_maximum_of_its_own_operand() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        exponential = b.Exp(b.Sub(x, b.ReduceMax(y, b.i64([2]), keepdims=1)))
        return b.Div(exponential, total(b, exponential, 2))

    Rewrite(build, {"x": X, "y": X + 1}, Softmax()).nothing()


def test_softmax_needs_aligned_statistics() -> None:
    """Of a square, a maximum over the last axis that lost it stands beside the first."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        exponential = b.Exp(shifted(b, x, 1, keepdims=0))
        return b.Div(exponential, total(b, exponential, 1, keepdims=0))

    Rewrite(build, {"x": X[0, :, :4]}, Softmax()).nothing()


def test_log_softmax() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        moved = shifted(b, x, 1)
        return b.Neg(b.Sub(moved, b.Log(total(b, b.Exp(moved), 1))))

    Rewrite(build, {"x": X}, LogSoftmax(), tolerance=5e-7).gives("LogSoftmax", "Neg")


def test_log_softmax_needs_the_sum_of_its_exponentials() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sub(shifted(b, x, 1), b.Log(total(b, b.Exp(x), 1)))

    Rewrite(build, {"x": X / 9}, LogSoftmax()).nothing()

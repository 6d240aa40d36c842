"""Softmax and LogSoftmax: where they are raised, and what is something else."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, model_of

import hlo2onnx
from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.softmax import LogSoftmax, LogSumExp, Softmax
from hlo2onnx.targets import load_target

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


@pytest.mark.parametrize("dims", [(4, 3, 1), (1, 4, 3, 1)])
def test_softmax_of_reshaped_statistics(dims: tuple[int, ...]) -> None:
    """As those of windows of one image are, whose axis of extent 1 comes and goes."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        highest = b.ReduceMax(x, b.i64([3]), keepdims=0)
        exponential = b.Exp(b.Sub(x, b.Reshape(highest, b.i64(dims))))
        return b.Neg(b.Div(exponential, total(b, exponential, 3)))

    windows = np.ascontiguousarray(np.moveaxis(X, 0, 1))[None]
    Rewrite(build, {"x": windows}, Softmax(), tolerance=5e-7).gives("Softmax", "Neg")


@pytest.mark.parametrize("dims", [(1, 1, 3, 3), (1, 3, 1, 3), (3, 3)])
def test_softmax_of_misplaced_statistics(dims: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        highest = b.ReduceMax(x, b.i64([3]), keepdims=0)
        exponential = b.Exp(b.Sub(x, b.Reshape(highest, b.i64(dims))))
        return b.Div(exponential, total(b, exponential, 3))

    Rewrite(build, {"x": X[None, :, :3, :3]}, Softmax()).nothing()


def test_log_softmax() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        moved = shifted(b, x, 1)
        return b.Neg(b.Sub(moved, b.Log(total(b, b.Exp(moved), 1))))

    Rewrite(build, {"x": X}, LogSoftmax(), tolerance=5e-7).gives("LogSoftmax", "Neg")


def test_log_softmax_needs_the_sum_of_its_exponentials() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sub(shifted(b, x, 1), b.Log(total(b, b.Exp(x), 1)))

    Rewrite(build, {"x": X / 9}, LogSoftmax()).nothing()


def log_sum_exp(
    b: GraphBuilder, x: oir.Value, *, axes: tuple[int, ...] = (2,), keepdims: int = 0, limit: float
) -> oir.Value:
    """As jax.nn.logsumexp."""

    def highest(keepdims: int) -> oir.Value:
        r = b.ReduceMax(x, b.i64(axes), keepdims=keepdims)
        is_finite = b.LessOrEqual(b.Abs(r), b.scalar_like(limit, x))
        value: oir.Value = b.Where(is_finite, r, b.scalar_like(0, x))
        return value

    exponential = b.Exp(b.Sub(x, highest(1)))
    logarithm = b.Log(b.Abs(b.ReduceSum(exponential, b.i64(axes), keepdims=keepdims)))
    result: oir.Value = b.Neg(b.Add(logarithm, highest(keepdims)))
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(2,), (0,), (1, 2), (0, 1, 2)])
def test_log_sum_exp(axes: tuple[int, ...], keepdims: int, dtype: type[np.floating]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        limit = float(np.finfo(dtype).max)
        return log_sum_exp(b, x, axes=axes, keepdims=keepdims, limit=limit)

    rewrite = Rewrite(build, {"x": X.astype(dtype)}, LogSumExp(), tolerance=5e-7)
    rewrite.gives("Neg", "ReduceLogSumExp")


LARGEST = float(np.finfo(np.float32).max)


def test_log_sum_exp_of_infinities() -> None:
    edges = np.nan_to_num(EDGES, nan=np.inf, posinf=np.inf, neginf=-np.inf)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=LARGEST)

    Rewrite(build, {"x": edges}, LogSumExp(), tolerance=5e-7).gives("Neg", "ReduceLogSumExp")


@pytest.mark.parametrize("limit", [3e38, np.inf])
def test_log_sum_exp_needs_the_guard(limit: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=limit)

    Rewrite(build, {"x": X}, LogSumExp()).nothing()


@pytest.mark.parametrize("extent", [0, 1025])
def test_log_sum_exp_of_nothing_or_too_much(extent: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return log_sum_exp(b, x, limit=LARGEST)

    model = model_of(build, {"x": np.zeros((1, 2, extent), np.float32)})
    assert not apply_rules(model, [LogSumExp()], load_target("ort-cpu"))


def test_log_sum_exp_in_jax() -> None:
    """Of NaN too, which the maximum of the program lets through."""
    program = hlo2onnx.translate(jax.jit(partial(jax.nn.logsumexp, axis=-1)).lower(EDGES))
    assert [node.op_type for node in program.model_proto.graph.node] == ["ReduceLogSumExp"]
    np.testing.assert_allclose(program(EDGES), jax.nn.logsumexp(EDGES, axis=-1), rtol=5e-7)

"""Operators of bodies on small graphs, computed for all trips at once or left there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    loop,
    numbers,
)
from loop_parts import EARLY

from hlo2onnx.ir.builder import GraphBuilder

FLOAT = oir.DataType.FLOAT
Value = oir.Value
Row = Callable[[GraphBuilder, Value], Value]
X = numbers(4, 3, 5)


W = numbers(5, 2)


def split(b: GraphBuilder, x: Value, axis: int) -> Value:
    two = b.outputs("Split", x, b.i64([1, 4]), axis=axis, n_outputs=2)
    return b.concat(list(two)[::-1], axis)


def vector(b: GraphBuilder, x: Value, k: int) -> Value:
    """A row of a row."""
    return b.squeeze(b.slice(x, [k], [k + 1], axes=[0]), [0])


ROWS: dict[str, Row] = {
    "unary": lambda b, r: b.Abs(r),
    "scalar": lambda b, r: b.Add(r, b.const(np.float32(2))),
    "smaller-row": lambda b, r: b.Add(r, b.ReduceMax(r, b.i64([0]), keepdims=0)),
    "larger-constant": lambda b, r: b.Add(b.const(numbers(2, 3, 5)), r),
    "matrix": lambda b, r: b.MatMul(r, b.const(W)),
    "matrix-from-the-left": lambda b, r: b.MatMul(b.const(numbers(2, 3)), r),
    "vector-times-a-matrix": lambda b, r: b.op(
        "MatMul", vector(b, r, 0), b.const(W), types=[(FLOAT, (2,))]
    ),
    "batched-matrix": lambda b, r: b.MatMul(r, b.const(numbers(2, 5, 4))),
    "two-rows": lambda b, r: b.MatMul(r, b.transpose(r, [1, 0])),
    "clip": lambda b, r: b.Clip(b.Abs(r), b.const(np.float32(1)), b.const(np.float32(2))),
    "reshape": lambda b, r: b.reshape(b.Abs(r), (5, 3)),
    "squeeze": lambda b, r: b.squeeze(b.slice(b.Abs(r), [1], [2], axes=[0]), [0]),
    "unsqueeze": lambda b, r: b.unsqueeze(b.Abs(r), [1]),
    "expand": lambda b, r: b.Softmax(b.expand(b.Abs(r), (2, 3, 5)), axis=0),
    "transpose": lambda b, r: b.transpose(b.Abs(r), [1, 0]),
    "softmax": lambda b, r: b.Softmax(r, axis=0),
    "softmax-of-the-last": lambda b, r: b.Softmax(r, axis=-1),
    "softmax-by-default": lambda b, r: b.Softmax(r),
    "arg-max": lambda b, r: b.cast(b.op("ArgMax", r, axis=1, keepdims=0), FLOAT),
    "arg-min-by-default": lambda b, r: b.cast(b.op("ArgMin", r, keepdims=1), FLOAT),
    "split": lambda b, r: split(b, r, 1),
    "split-of-the-last": lambda b, r: split(b, r, -1),
    "split-by-default": lambda b, r: b.Neg(
        b.outputs("Split", r, b.i64([1, 2]), n_outputs=2)[1]
    ),
    "concat": lambda b, r: b.concat([b.Abs(r), b.const(numbers(2, 5)), r], 0),
    "concat-of-the-last": lambda b, r: b.concat([b.const(numbers(3, 1)), b.Abs(r)], -1),
    "sum": lambda b, r: b.ReduceSum(r, b.i64([0]), keepdims=0),
    "sum-of-the-last": lambda b, r: b.ReduceSum(r, b.i64([-1]), keepdims=1),
    "sum-of-all": lambda b, r: b.ReduceSum(r, keepdims=0),
    "slice": lambda b, r: b.slice(r, [1], [3], axes=[0]),
    "slice-of-all": lambda b, r: b.slice(r, [1, 0], [3, 2]),
    "slice-without-axes": lambda b, r: b.op("Slice", r, b.i64([1, 0]), b.i64([3, 2])),
    "slice-backwards": lambda b, r: b.slice(r, [-1], [-9], [-2], [1]),
    "take": lambda b, r: b.Gather(b.Abs(r), b.i64([2, 0]), axis=1),
    "take-of-the-last": lambda b, r: b.Gather(b.Abs(r), b.i64([2, 0]), axis=-1),
    "take-first": lambda b, r: b.Gather(b.Abs(r), b.i64(1)),
    "pad": lambda b, r: b.Pad(r, b.i64([1, 0, 0, 2]), b.const(np.float32(7))),
    "running-sum": lambda b, r: b.CumSum(r, b.i64(1)),
    "running-sum-of-the-first": lambda b, r: b.CumSum(r, b.i64(-2)),
    "convolution": lambda b, r: b.op(
        "Conv", b.reshape(r, (1, 3, 5)), b.const(numbers(2, 3, 2)), kernel_shape=[2]
    ),
    "pooling": lambda b, r: b.op("MaxPool", b.reshape(r, (3, 1, 5)), kernel_shape=[2]),
    "where": lambda b, r: b.Where(b.Less(r, b.const(np.float32(0))), r, b.const(numbers(3, 1))),
}  # fmt: skip

LEFT: dict[str, Row] = {
    "matrix-times-a-vector": lambda b, r: b.op(
        "MatMul", b.const(numbers(2, 5)), vector(b, r, 0), types=[(FLOAT, (2,))]
    ),
    "vector-times-what-changes": lambda b, r: b.op(
        "MatMul", vector(b, r, 1), b.transpose(r, [1, 0]), types=[(FLOAT, (3,))]
    ),
    "vector-times-matrices": lambda b, r: b.op(
        "MatMul", vector(b, r, 1), b.const(numbers(2, 5, 4)), types=[(FLOAT, (2, 4))]
    ),
    "sorted": lambda b, r: b.outputs("TopK", r, b.i64([2]), axis=0, n_outputs=2)[0],
    "pooling-with-places": lambda b, r: b.outputs(
        "MaxPool", b.reshape(r, (3, 1, 5)), kernel_shape=[2], n_outputs=2
    )[0],
    "nothing-to-sum": lambda b, r: b.op(
        "ReduceSum", r, b.i64([0]), keepdims=0, noop_with_empty_axes=1
    ),
}  # fmt: skip


def stack(of: Row, *rules: Any, x: np.ndarray = X) -> LoopRewrite:
    """A loop that stacks a function of each row and of nothing else, beside a state."""

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        def step(trip: Value, h: Value) -> Any:
            return [b.Neg(h)], [of(b, b.Gather(x, trip, axis=0))]

        return [b.Identity(v) for v in loop(b, len(X), [h], step)]

    return LoopRewrite(build, {"x": x, "h": numbers(2)}, *rules)


@pytest.mark.parametrize("name", ROWS)
def test_done_for_all_trips(name: str) -> None:
    run = stack(ROWS[name], EARLY)
    assert run.fired and set(+run.inside) == {"Neg"}


@pytest.mark.parametrize("name", LEFT)
def test_done_in_each_trip(name: str) -> None:
    run = stack(LEFT[name], EARLY)
    assert "Loop" in run.outside and set(+run.inside) - {"Neg", "Gather", "Reshape"}


TAKEN: dict[str, tuple[Callable[[GraphBuilder, Value], Value], dict[str, int]]] = {
    "forwards": (lambda b, i: b.Add(i, b.i64(1)), {"Slice": 1}),
    "backwards": (lambda b, i: b.Sub(b.i64(3), i), {"Slice": 1}),
    "backwards-to-the-second": (lambda b, i: b.Sub(b.i64(5), i), {"Slice": 1}),
    "every-other": (lambda b, i: b.Mul(b.i64(2), i), {"Gather": 1}),
    "again-and-again": (lambda b, i: b.Mod(i, b.i64(2)), {"Gather": 1}),
    "negative": (lambda b, i: b.Sub(i, b.i64(4)), {"Gather": 1}),
    "negative-at-first": (lambda b, i: b.Sub(i, b.i64(1)), {"Gather": 1}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_rows_that_are_taken(name: str) -> None:
    of, outside = TAKEN[name]

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        def step(trip: Value, h: Value) -> Any:
            return [b.Neg(h)], [b.Abs(b.Gather(x, of(b, trip), axis=0))]

        return loop(b, 4, [h], step)

    run = LoopRewrite(build, {"x": numbers(7, 2), "h": numbers(2)}, EARLY)
    assert {op: run.outside[op] for op in ("Slice", "Gather") if run.outside[op]} == outside


@pytest.mark.parametrize(("size", "small"), [(1 << 18, True), ((1 << 18) + 1, False)])
def test_rows_of_a_megabyte(size: int, small: bool) -> None:
    run = stack(lambda b, r: b.expand(b.slice(r, [0, 0], [1, 1]), (1, size)), EARLY)
    assert bool(run.inside["Expand"]) != small

"""Bounds of sums, places and remainders: each must hold for every input."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import Range
from hlo2onnx.runtime.sessions import OrtProgram

T = oir.DataType
WHOLE = Range(-(2**31), 2**31 - 1)


def _sum(b: GraphBuilder, x: oir.Value, op_type: str, item: int) -> oir.Value:
    """An operator that adds up elements of x (rank 1, i32)."""
    if op_type == "CumSum":
        return b.CumSum(x, b.i64(0), exclusive=item % 2, reverse=item // 2 % 2)
    if op_type == "ReduceSum":
        return b.ReduceSum(x, b.i64([0]), keepdims=1)
    if op_type.startswith("Scatter"):
        _, reduction = op_type.split()
        start = b.const(np.array([item, -item, 3, 0], np.int32))
        count = int(x.shape[0])  # type: ignore[index]
        index = b.const(np.arange(count, dtype=np.int64) % 4)
        return b.ScatterElements(start, index, x, axis=0, reduction=reduction)
    if op_type == "TopK":
        values, _ = b.outputs("TopK", x, b.i64([1]), axis=0, n_outputs=2)
        return values
    if op_type == "Remainder":
        y = b.const(np.array([abs(item) + 1], np.int32))
        return b.Sub(x, b.Mul(b.Div(x, y), y))
    return b.Sign(x)


_OPS = ["CumSum", "ReduceSum", "Scatter add", "Scatter max", "Scatter none", "Remainder", "Sign",
        "TopK"]  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.tuples(st.sampled_from(_OPS), st.integers(-300, 300)), max_size=4),
    values=st.lists(st.integers(-1000, 1000), min_size=4, max_size=7),
    bounds=st.tuples(st.integers(-1000, 1000), st.integers(-1000, 1000)).map(sorted),
)
def test_ranges_hold(
    steps: list[tuple[str, int]], values: list[int], bounds: tuple[int, int]
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        made = b.Clip(x, b.scalar(bounds[0], T.INT32), b.scalar(bounds[1], T.INT32))
        for op_type, item in steps:
            made = _sum(b, made, op_type, item)
        return b.Identity(made)

    inputs = {"x": np.array(values, np.int32)}
    model = model_of(build, inputs)
    found = Facts().int_range(model.graph.outputs[0])
    assert found is not None
    (result,) = OrtProgram(oir.to_proto(model).SerializeToString(), optimize=False)(inputs)
    assert found.low <= result.min()
    assert result.max() <= found.high


@pytest.mark.parametrize(
    ("op_type", "item", "expected"),
    [
        ("CumSum", 0, Range(-6, 15)),
        ("ReduceSum", 0, Range(-6, 15)),
        ("Scatter add", 10, Range(-16, 25)),
        ("Scatter max", 10, Range(-10, 10)),
        ("Scatter none", 0, Range(-2, 5)),
        ("Scatter mul", 10, WHOLE),
        ("Remainder", 2, Range(-2, 2)),
        ("Remainder", 99, Range(-5, 5)),
        ("Sign", 0, Range(-1, 1)),
        ("TopK", 0, Range(-2, 5)),
    ],
)
def test_ranges_are_useful(op_type: str, item: int, expected: Range) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        clipped = b.Clip(x, b.scalar(-2, T.INT32), b.scalar(5, T.INT32))
        return b.Identity(_sum(b, clipped, op_type, item))

    model = model_of(build, {"x": np.zeros(3, np.int32)})
    assert Facts().int_range(model.graph.outputs[0]) == expected


@pytest.mark.parametrize(
    ("low", "high", "magnitude", "opposite", "remainder"),
    [
        (-2, 5, Range(0, 5), Range(-5, 2), Range(-2, 2)),
        (-7, -4, Range(4, 7), Range(4, 7), Range(-2, 0)),
        (0, 1, Range(0, 1), Range(-1, 0), Range(0, 1)),
        (4, 7, Range(4, 7), Range(-7, -4), Range(0, 2)),
    ],
)
def test_signs(low: int, high: int, magnitude: Range, opposite: Range, remainder: Range) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        x = b.Clip(x, b.scalar(low, T.INT32), b.scalar(high, T.INT32))
        three = b.scalar(3, T.INT32)
        return [b.Abs(x), b.Neg(x), b.Sub(x, b.Mul(three, b.Div(x, three)))]

    outputs = model_of(build, {"x": np.zeros(3, np.int32)}).graph.outputs
    assert [Facts().int_range(value) for value in outputs] == [magnitude, opposite, remainder]


def test_places_of_what_is_not_zero() -> None:
    """An integer result of floats alone, of which nothing is known."""
    types = [(T.INT64, (1, oir.SymbolicDim("n")))]
    model = model_of(lambda b, x: b.NonZero(x, types=types), {"x": np.zeros(3, np.float32)})
    assert Facts().int_range(model.graph.outputs[0]) == Range(-(2**63), 2**63 - 1)


def test_a_sum_that_may_wrap_may_be_anything() -> None:
    model = model_of(
        lambda b, x: b.ReduceSum(b.Identity(x), b.i64([0])), {"x": np.zeros(2, np.int32)}
    )
    assert Facts().int_range(model.graph.outputs[0]) == WHOLE


def test_a_sum_over_one_axis() -> None:
    """Three elements each, not six."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.ReduceSum(b.Cast(x, to=T.INT32), b.i64([1]), keepdims=0)

    model = model_of(build, {"x": np.zeros((2, 3), bool)})
    assert Facts().int_range(model.graph.outputs[0]) == Range(0, 3)


@pytest.mark.parametrize(("axis", "places"), [(0, Range(0, 3)), (-1, Range(0, 6))])
def test_places_of_top_k(axis: int, places: Range) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.outputs("TopK", x, b.i64([2]), axis=axis, n_outputs=2)[1]

    model = model_of(build, {"x": np.zeros((4, 7), np.float32)})
    assert Facts().int_range(model.graph.outputs[0]) == places


def test_extents() -> None:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    x = b.value("x", oir.DataType.FLOAT, (oir.SymbolicDim("n"), 2))
    limit = b.squeeze(b.Shape(x, start=0, end=1), [0])
    types = [(oir.DataType.INT64, (oir.SymbolicDim("n"),))]
    count = b.Range(b.i64(0), limit, b.i64(1), types=types)
    assert Facts().int_range(count) == Range(0, (1 << 31) - 2)


@pytest.mark.parametrize(("count", "expected"), [(1, 2), (3, 4), (8, 9), (9, None)])
def test_the_greatest_of_several(count: int, expected: int | None) -> None:
    """The corners of the ranges double with each operand."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        small = [b.Clip(x, b.scalar(k, T.INT32), b.scalar(k + 2, T.INT32)) for k in range(count)]
        return b.Identity(b.Max(*small))

    model = model_of(build, {"x": np.zeros(3, np.int32)})
    wanted = WHOLE if expected is None else Range(count - 1, expected)
    assert Facts().int_range(model.graph.outputs[0]) == wanted

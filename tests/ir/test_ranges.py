"""Bounds of sums and places: each must hold for every input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import Range
from hlo2onnx.ir.values import Dim
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
    return b.Sign(x)


_OPS = ["CumSum", "ReduceSum", "Scatter add", "Scatter max", "Scatter none", "Sign",
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
    ("low", "high", "magnitude", "opposite"),
    [
        (-2, 5, Range(0, 5), Range(-5, 2)),
        (-7, -4, Range(4, 7), Range(4, 7)),
        (0, 1, Range(0, 1), Range(-1, 0)),
        (4, 7, Range(4, 7), Range(-7, -4)),
    ],
)
def test_signs(low: int, high: int, magnitude: Range, opposite: Range) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        x = b.Clip(x, b.scalar(low, T.INT32), b.scalar(high, T.INT32))
        return [b.Abs(x), b.Neg(x)]

    outputs = model_of(build, {"x": np.zeros(3, np.int32)}).graph.outputs
    assert [Facts().int_range(value) for value in outputs] == [magnitude, opposite]


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


FLOAT, INT64 = oir.DataType.FLOAT, oir.DataType.INT64
Build = Callable[[GraphBuilder, oir.Value], oir.Value]


def made(build: Build, dims: tuple[Dim, ...] = (4, 1)) -> oir.Value:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    builder = GraphBuilder(graph, 23)
    return build(builder, builder.value("x", oir.DataType.INT64, dims))


def jax_normalised(b: GraphBuilder, index: oir.Value) -> oir.Value:
    return b.Where(b.Less(index, b.i64(0)), b.Add(index, b.i64(9)), index)


def counted(b: GraphBuilder, count: int = 100_000) -> oir.Value:
    return b.Range(b.i64(0), b.i64(count), b.i64(1))


KNOWN: dict[str, tuple[Build, list[int]]] = {
    "normalised": (lambda b, x: jax_normalised(b, b.i64([-1, 3, -9])), [8, 3, 0]),
    "moved": (lambda b, x: b.reshape(b.expand(b.i64([[1], [2]]), [2, 2]), [4]), [1, 1, 2, 2]),
    "joined": (lambda b, x: b.concat([b.i64([4]), b.Max(b.i64([1, 5]), b.i64(2))], 0), [4, 2, 5]),
    "wrapped": (lambda b, x: b.cast(b.i64([300]), oir.DataType.UINT8), [44]),
    "turned": (
        lambda b, x: b.reshape(b.transpose(b.i64([[1, 2, 3], [4, 5, 6]]), (1, 0)), [6]),
        [1, 4, 2, 5, 3, 6],
    ),
    "least": (lambda b, x: b.Min(b.i64([1, 5, 3]), b.i64(4), b.i64([2, 2, 2])), [1, 2, 2]),
    "most": (lambda b, x: b.Max(b.i64([1, 5, 3]), b.i64(4), b.i64([2, 2, 2])), [4, 5, 4]),
    "equal": (lambda b, x: b.Equal(b.i64([1, 5]), b.i64(5)), [0, 1]),
    "greater": (lambda b, x: b.Greater(b.i64([1, 5, 6]), b.i64(5)), [0, 0, 1]),
    "of floats": (lambda b, x: b.cast(b.const(np.array([1, 2], np.float32)), INT64), [1, 2]),
    "overflowed": (lambda b, x: b.Add(b.i64([2**63 - 1]), b.i64(1)), [-(2**63)]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_elements(name: str) -> None:
    build, elements = KNOWN[name]
    found = Facts().elements(made(build))
    assert found is not None
    np.testing.assert_array_equal(found, elements)


def test_inputs_and_large_values_are_not_known() -> None:
    assert Facts().elements(made(lambda b, x: b.Add(x, b.i64(1)))) is None
    assert Facts().elements(made(lambda b, x: b.expand(b.i64(1), [100_000]))) is None
    assert Facts().elements(made(lambda b, x: x)) is None
    free = made(lambda b, x: b.Add(x, b.i64(1)), (oir.SymbolicDim("n"),))
    assert Facts().elements(free) is None
    assert Facts().elements(made(lambda b, x: b.ReduceMax(b.i64([1, 2]), keepdims=0))) is None
    assert Facts().elements(made(lambda b, x: b.cast(b.scalar(np.nan, FLOAT), INT64))) is None
    assert Facts().elements(made(lambda b, x: b.cast(b.i64(1), FLOAT))) is None


@pytest.mark.parametrize(("count", "is_known"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_how_many_elements_are_looked_into(count: int, is_known: bool) -> None:
    expanded = Facts().elements(made(lambda b, x: b.expand(b.i64(1), [count])))
    constant = Facts().elements(made(lambda b, x: b.i64(range(count))))
    assert [expanded is not None, constant is not None] == [is_known, is_known]


@pytest.mark.parametrize(("count", "is_known"), [(64, True), (65, False)])
def test_how_many_operators_are_looked_through(count: int, is_known: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        value = b.i64([1, 2])
        for _ in range(count):
            value = b.Add(value, b.i64([0, 0]))
        return value

    assert (Facts().elements(made(build)) is not None) == is_known


DISTINCT: dict[str, Build] = {
    "one_row": lambda b, x: b.reshape(x, [1, 4]),
    "no_rows": lambda b, x: b.i64(np.zeros((0, 2))),
    "constant": lambda b, x: b.i64([[3], [1], [2]]),
    "rows": lambda b, x: b.i64([[0, 1], [1, 0], [1, 1]]),
    "range": lambda b, x: b.reshape(counted(b), [100_000, 1]),
    "normalised": lambda b, x: b.reshape(jax_normalised(b, counted(b)), [100_000, 1]),
    "narrowed": lambda b, x: b.cast(
        b.reshape(counted(b, 70_000), [70_000, 1]), oir.DataType.INT32
    ),
    "one_column": lambda b, x: b.concat([x, b.i64([[0], [1], [2], [3]])], 1),
    "narrowed_rows": lambda b, x: b.cast(
        b.concat([b.reshape(counted(b, 70_000), [70_000, 1])] * 2, 1), oir.DataType.INT32
    ),
    "top_k": lambda b, x: b.reshape(
        b.outputs("TopK", b.reshape(x, [4]), b.i64([3]), n_outputs=2)[1], [3, 1]
    ),
}  # fmt: skip
NOT_PROVEN: dict[str, Build] = {
    "input": lambda b, x: x,
    "constant": lambda b, x: b.i64([[3], [1], [3]]),
    "no_columns": lambda b, x: b.i64(np.zeros((3, 0))),
    "rows": lambda b, x: b.i64([[0, 1], [1, 0], [0, 1]]),
    "repeated": lambda b, x: b.reshape(
        b.expand(b.reshape(counted(b), [100_000, 1]), [100_000, 2]), [200_000, 1]
    ),
    "narrowed": lambda b, x: b.cast(b.reshape(counted(b), [100_000, 1]), oir.DataType.INT16),
    "columns": lambda b, x: b.concat([x, x], 1),
    "narrowed_rows": lambda b, x: b.cast(
        b.concat([b.reshape(counted(b), [100_000, 1])] * 2, 1), oir.DataType.INT16
    ),
    "wide_rows": lambda b, x: b.cast(b.concat([x, x], 1), oir.DataType.INT64),
    "top_k_of_columns": lambda b, x: b.reshape(
        b.outputs("TopK", b.reshape(x, [1, 4]), b.i64([1]), axis=0, n_outputs=2)[1], [4, 1]
    ),
    "top_k_of_rows": lambda b, x: b.reshape(
        b.outputs("TopK", b.reshape(x, [2, 2]), b.i64([1]), n_outputs=2)[1], [2, 1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_rows(name: str) -> None:
    assert Facts().distinct_rows(made(DISTINCT[name]))


@pytest.mark.parametrize(("count", "is_proven"), [(60, True), (70, False)])
def test_how_long_a_proof_may_be(count: int, is_proven: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        value = counted(b, 70_000)
        for _ in range(count // 2):
            value = b.cast(b.cast(value, oir.DataType.INT32), INT64)
        return b.reshape(value, [70_000, 1])

    assert Facts().distinct_rows(made(build)) == is_proven


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_rows_that_may_be_equal(name: str) -> None:
    assert not Facts().distinct_rows(made(NOT_PROVEN[name]))


def test_a_decided_comparison_narrows_the_range() -> None:
    facts = Facts()
    known = facts.int_range(made(lambda b, x: jax_normalised(b, counted(b))))
    assert known is not None and known.within(0, 99_999)
    unknown = facts.int_range(made(jax_normalised))
    assert unknown is not None and unknown.low < 0

"""Facts are proofs: every answer must hold for all inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts, Memo
from hlo2onnx.ir.ranges import Range
from hlo2onnx.runtime.sessions import OrtProgram

T = oir.DataType
_OPS = ["Add", "Sub", "Mul", "Max", "Min", "Neg", "Abs", "Clip", "Where", "Cast", "Concat"]


def _grow(b: GraphBuilder, x: oir.Value, steps: list[tuple[str, int]]) -> oir.Value:
    """Applies a chain of operators with small constants to x (rank 1, i32)."""
    for op_type, item in steps:
        k = b.const(np.array([item], np.int32))
        if op_type in ("Neg", "Abs"):
            x = b.op(op_type, x)
        elif op_type == "Clip":
            bounds = sorted((item, 5))
            x = b.Clip(x, b.scalar(bounds[0], T.INT32), b.scalar(bounds[1], T.INT32))
        elif op_type == "Where":
            x = b.Where(b.Less(x, k), x, k)
        elif op_type == "Cast":
            x = b.Cast(b.Cast(x, to=T.INT8), to=T.INT32)
        elif op_type == "Concat":
            x = b.Concat(x, k, axis=0)
        else:
            x = b.op(op_type, x, k)
    return x


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.tuples(st.sampled_from(_OPS), st.integers(-300, 300)), max_size=6),
    values=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
)
def test_int_range_holds(steps: list[tuple[str, int]], values: list[int]) -> None:
    inputs = {"x": np.array(values, np.int32)}
    model = model_of(lambda b, x: _grow(b, b.Identity(x), steps), inputs)
    found = Facts().int_range(model.graph.outputs[0])
    assert found is not None
    content = oir.to_proto(model).SerializeToString()
    (result,) = OrtProgram(content, optimize=False)(inputs)
    assert found.low <= result.min()
    assert result.max() <= found.high


def test_int_range_is_useful() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        clipped = b.Clip(x, b.scalar(0, T.INT32), b.scalar(9, T.INT32))
        return [
            b.Expand(b.Add(clipped, b.scalar(1, T.INT32)), b.i64([2, 3])),
            b.ArgMax(b.Cast(x, to=T.FLOAT), axis=0),
            b.Cast(b.Less(x, clipped), to=T.INT64),
            b.Mul(x, x),
        ]

    outputs = model_of(build, {"x": np.zeros((3,), np.int32)}).graph.outputs
    ranges = [Facts().int_range(value) for value in outputs]
    whole = Range(-(2**31), 2**31 - 1)
    assert ranges == [Range(1, 10), Range(0, 2), Range(0, 1), whole]


@pytest.mark.parametrize(("array", "free"), [([1.0, np.inf], True), ([1.0, np.nan], False)])
def test_nan_free_constants(array: list[float], free: bool) -> None:
    def build(b: GraphBuilder) -> oir.Value:
        return b.Relu(b.Transpose(b.const(np.array([array], np.float32)), perm=(1, 0)))

    assert Facts().nan_free(model_of(build, {}).graph.outputs[0]) is free


@pytest.mark.parametrize(("to", "free"), [(T.FLOAT16, True), (T.FLOAT8E4M3FN, False)])
def test_casts_to_a_type_without_infinity_make_nan(to: oir.DataType, free: bool) -> None:
    model = model_of(lambda b: b.Cast(b.const(np.array([1e30], np.float32)), to=to), {})
    assert Facts().nan_free(model.graph.outputs[0]) is free


def test_nothing_is_known_of_inputs() -> None:
    model = model_of(lambda b, x: b.Exp(x), {"x": np.zeros(3, np.float32)})
    assert not Facts().nan_free(model.graph.outputs[0])
    assert Facts().constant(model.graph.outputs[0]) is None


def test_bounds_above_minus_infinity_hold() -> None:
    """Each operator of which the fact is claimed gives no -inf; the others are not proven."""
    x = np.array([-np.inf, np.nan, -0.0, -3e38, 3e38, np.inf], np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        zero = b.scalar(0, T.FLOAT)
        proven = [b.op(op_type, x) for op_type in ("Abs", "Exp", "Relu", "Sqrt", "Tanh", "Erf")]
        proven += [b.Max(x, zero), b.Cast(b.IsNaN(x), to=T.FLOAT)]
        proven += [b.Where(b.IsNaN(x), b.Relu(x), zero), b.Min(b.Relu(x), b.Exp(x))]
        proven.append(b.Unsqueeze(b.Concat(b.Relu(x), b.Abs(x), axis=0), b.i64([0])))
        return [*proven, b.Identity(x), b.Neg(x), b.Min(x, zero), b.Add(b.Relu(x), x)]

    model = model_of(build, {"x": x})
    facts = Facts()
    claims = [facts.float_range(value).low > -np.inf for value in model.graph.outputs]
    assert claims == [True] * 11 + [False] * 4
    content = oir.to_proto(model).SerializeToString()
    for claim, result in zip(claims, OrtProgram(content)({"x": x}), strict=True):
        assert not (claim and np.isneginf(result).any())


def test_which_operators_make_nan_of_nan_only() -> None:
    """Numbers stay numbers; infinities make NaN in sums, products and by functions of waves."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        anything = b.Where(b.IsNaN(x), b.scalar(-3.5, T.FLOAT), x)
        bounded = b.Clip(anything, b.scalar(-1, T.FLOAT), b.scalar(9, T.FLOAT))
        free = [anything, bounded, b.Sigmoid(anything), b.Max(anything, bounded)]
        free += [b.Add(bounded, bounded), b.Mul(bounded, bounded), b.Sub(bounded, bounded)]
        free += [b.ReduceMax(anything), b.Cast(b.Cast(x, to=T.INT32), to=T.FLOAT)]
        free += [
            b.Cast(anything, to=T.BFLOAT16),
            b.Cast(x, to=T.INT32),
            b.reshape(anything, [3, 1]),
        ]
        may_be = [b.Sin(anything), b.Sqrt(anything), b.Log(bounded), b.Div(bounded, bounded)]
        may_be += [b.Add(anything, bounded), b.Mul(bounded, anything), b.Max(x, bounded)]
        may_be += [b.Where(b.IsInf(x), bounded, x), b.Where(b.IsNaN(bounded), bounded, x)]
        may_be += [b.Where(b.IsNaN(x), x, bounded), b.ReduceSum(bounded), b.Relu(x)]
        may_be += [b.Cast(bounded, to=T.FLOAT8E4M3FN), b.Cast(x, to=T.DOUBLE), b.Identity(x)]
        return [*free, *may_be]

    outputs = model_of(build, {"x": np.zeros(3, np.float32)}).graph.outputs
    assert list(map(Facts().nan_free, outputs)) == [True] * 12 + [False] * 15


def test_constants_that_are_examined() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        most, more = np.ones(1 << 16, np.float32), np.ones((1 << 16) + 1, np.float32)
        infinite = np.array([1, -np.inf, np.nan], np.float32)
        return [b.const(array) for array in (most, more, infinite, -infinite)]

    values = model_of(build, {"x": np.zeros(3, np.float32)}).graph.outputs
    assert [Facts().nan_free(value) for value in values] == [True, False, False, False]
    assert [Facts().float_range(value).low for value in values] == [1, -np.inf, -np.inf, -1]
    counts = [np.ones(1 << 16, np.int32), np.ones((1 << 16) + 1, np.int32), np.ones(0, np.int32)]
    whole = Range(-(2**31), 2**31 - 1)
    values = model_of(lambda b: [b.const(array) for array in counts], {}).graph.outputs
    assert [Facts().int_range(value) for value in values] == [Range(1, 1), whole, whole]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b, x: b.Less(b.Clip(x, b.i64(0), b.i64(3)), b.i64(4)), True),
        (lambda b, x: b.Less(b.Clip(x, b.i64(0), b.i64(3)), b.i64(3)), None),
        (lambda b, x: b.Less(b.Clip(x, b.i64(3), b.i64(5)), b.i64(3)), False),
        (lambda b, x: b.Not(b.Less(b.i64([1, 2]), b.i64(3))), False),
        (lambda b, x: b.Not(b.Less(x, b.i64(3))), None),
        (lambda b, x: b.Reshape(b.const(np.array([True, True])), b.i64([2, 1])), True),
        (lambda b, x: b.const(np.array([True, False])), None),
        (lambda b, x: b.const(np.array([], bool)), None),
        (lambda b, x: b.And(b.Less(x, b.i64(3)), b.const(np.array(False))), False),
        (lambda b, x: b.And(b.Less(x, b.i64(3)), b.const(np.array(True))), None),
        (lambda b, x: b.And(b.const(np.array([True])), b.const(np.array(True))), True),
        (lambda b, x: b.Or(b.Less(x, b.i64(3)), b.const(np.array(True))), True),
        (lambda b, x: b.Or(b.Less(x, b.i64(3)), b.const(np.array(False))), None),
        (lambda b, x: b.Or(b.const(np.array([False])), b.const(np.array(False))), False),
        (lambda b, x: b.Cast(b.Clip(x, b.i64(1), b.i64(3)), to=T.BOOL), True),
        (lambda b, x: b.Cast(b.Clip(x, b.i64(-3), b.i64(-1)), to=T.BOOL), True),
        (lambda b, x: b.Cast(b.Clip(x, b.i64(0), b.i64(0)), to=T.BOOL), False),
        (lambda b, x: b.Cast(b.Clip(x, b.i64(0), b.i64(1)), to=T.BOOL), None),
        (lambda b, x: b.Cast(b.Cast(x, to=T.FLOAT), to=T.BOOL), None),
        (lambda b, x: b.Equal(b.Clip(x, b.i64(3), b.i64(3)), b.i64(3)), True),
        (lambda b, x: b.Equal(b.Clip(x, b.i64(2), b.i64(3)), b.i64([2, 3])), None),
        (lambda b, x: b.Equal(b.Clip(x, b.i64(2), b.i64(3)), b.i64([4, 5])), False),
        (lambda b, x: b.Equal(b.Clip(x, b.i64(6), b.i64(8)), b.i64([4, 5])), False),
        (lambda b, x: b.Greater(b.i64(4), b.Clip(x, b.i64(0), b.i64(3))), True),
        (lambda b, x: b.GreaterOrEqual(b.i64(3), b.Clip(x, b.i64(0), b.i64(3))), True),
        (lambda b, x: b.GreaterOrEqual(b.i64(2), b.Clip(x, b.i64(3), b.i64(4))), False),
        (lambda b, x: b.LessOrEqual(b.Clip(x, b.i64(0), b.i64(3)), b.i64(3)), True),
        (lambda b, x: b.LessOrEqual(b.Clip(x, b.i64(3), b.i64(4)), b.i64(3)), None),
        (lambda b, x: b.IsNaN(b.Cast(x, to=T.FLOAT)), None),
        (lambda b, x: b.Less(b.Cast(x, to=T.FLOAT), b.scalar(1, T.FLOAT)), None),
    ],
)
def test_truths(build: Callable[..., oir.Value], expected: bool | None) -> None:
    model = model_of(lambda b, x: build(b, b.Identity(x)), {"x": np.zeros(2, np.int64)})
    assert Facts().truth(model.graph.outputs[0]) is expected


LONG = 100
"""Questions in a row, more than may be open at a time."""


def chain(count: int) -> list[oir.Value]:
    return [oir.Value(name=f"v{index}") for index in range(count)]


class Lengths:
    """How many values lie before one in a chain, asked one by one."""

    def __init__(self, values: list[oir.Value]) -> None:
        self.memo = Memo()
        self.table: dict[oir.Value, int] = {}
        self.depths: list[int] = []
        self.calls = self._open = 0
        self._before = dict(zip(values[1:], values, strict=False))

    def ask(self, value: oir.Value) -> int:
        return self.memo.ask(self.table, value, self._compute)

    def _compute(self, value: oir.Value) -> int:
        self.calls += 1
        self._open += 1
        self.depths.append(self._open)
        try:
            before = self._before.get(value)
            return 0 if before is None else 1 + self.ask(before)
        finally:
            self._open -= 1


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 34, LONG, 5 * LONG])
def test_chains(count: int) -> None:
    values = chain(count)
    lengths = Lengths(values)
    assert lengths.ask(values[-1]) == count - 1
    assert lengths.table == {value: index for index, value in enumerate(values)}
    assert max(lengths.depths) == min(count, 32)
    assert lengths.calls <= 2 * count
    calls = lengths.calls
    assert lengths.ask(values[0]) == 0
    assert lengths.calls == calls


def test_one_chain_through_two_tables() -> None:
    """Each answer is filed where it was asked for."""
    memo, values = Memo(), chain(LONG)
    even: dict[oir.Value, str] = {}
    odd: dict[oir.Value, str] = {}
    before = dict(zip(values[1:], values, strict=False))

    def of_even(value: oir.Value) -> str:
        return "even" if value not in before else memo.ask(odd, before[value], of_odd)

    def of_odd(value: oir.Value) -> str:
        return "odd" if value not in before else memo.ask(even, before[value], of_even)

    assert memo.ask(even, values[-1], of_even) == "odd"
    assert even.keys() == set(values[1::2])
    assert odd.keys() == set(values[::2])

"""Facts are proofs: every answer must hold for all inputs."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import model_of

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.analysis.ranges import Range
from hlo2onnx.ir.builder import GraphBuilder
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


def test_above_minus_infinity_holds() -> None:
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
    claims = list(map(Facts().above_minus_infinity, model.graph.outputs))
    assert claims == [True] * 11 + [False] * 4
    content = oir.to_proto(model).SerializeToString()
    for claim, result in zip(claims, OrtProgram(content)({"x": x}), strict=True):
        assert not (claim and np.isneginf(result).any())

"""Bounds of floats, of operations on bits and of divisions: each must hold for every input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.float_ranges import ANYTHING, FloatRange, Steps, moved
from hlo2onnx.ir.ranges import Range
from hlo2onnx.runtime.sessions import OrtProgram

T = oir.DataType
_BITS = ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "RIGHT", "LEFT", "Add"]
_COMPARED = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"]
_FLOATS = [
    "Add",
    "Square",
    "ReduceSum",
    "ReduceMean",
    "ReduceSumSquare",
    "ReduceL2",
    "Max",
    "Min",
    "Mul",
    "Sub",
    "Clip",
    "Floor",
    "Ceil",
    "Round",
    "Relu",
    "Tanh",
    "Where",
    "Concat",
    "Cast",
    "Abs",
    "Exp",
    "Sqrt",
    "Neg",
    "Sign",
    *_COMPARED,
    *(f"Not{each}" for each in _COMPARED),
]


def _on_bits(b: GraphBuilder, x: oir.Value, steps: list[tuple[str, int]]) -> oir.Value:
    """Applies a chain of operators with small constants to x (rank 1, u32)."""
    for op_type, item in steps:
        k = b.const(np.array([item], np.uint32))
        if op_type in ("RIGHT", "LEFT"):
            x = b.BitShift(x, b.const(np.array([item % 32], np.uint32)), direction=op_type)
        elif op_type in ("Div", "Mod"):
            x = b.op(op_type, x, b.const(np.array([item + 1], np.uint32)))
        else:
            x = b.op(op_type, x, k)
    return x


def _on_floats(b: GraphBuilder, x: oir.Value, steps: list[tuple[str, float]]) -> oir.Value:
    """Applies a chain of operators with constants to x (rank 1, f32)."""
    for op_type, item in steps:
        k = b.const(np.array([item], np.float32))
        if op_type in ("Add", "Max", "Min", "Mul", "Sub"):
            x = b.op(op_type, x, k)
        elif op_type == "Square":
            x = b.Mul(x, x)
        elif op_type.startswith("Reduce"):
            x = b.op(op_type, x, b.i64([0]), keepdims=1)
        elif op_type == "Clip":
            x = b.Clip(x, b.scalar(min(item, 5), T.FLOAT), b.scalar(max(item, 5), T.FLOAT))
        elif op_type == "Where":
            x = b.Where(b.Less(x, k), x, k)
        elif op_type in _COMPARED:
            x = b.Where(b.op(op_type, x, k), x, b.scalar(5, T.FLOAT))
        elif op_type.startswith("Not"):
            x = b.Where(b.op(op_type[3:], k, x), b.scalar(5, T.FLOAT), x)
        elif op_type == "Concat":
            x = b.Concat(x, k, axis=0)
        elif op_type == "Cast":
            x = b.Cast(b.Cast(x, to=T.FLOAT16), to=T.FLOAT)
        else:
            x = b.op(op_type, x)
    return x


def _run(model: oir.Model, x: np.ndarray) -> np.ndarray:
    content = oir.to_proto(model).SerializeToString()
    return OrtProgram(content, optimize=False)({"x": x})[0]


@pytest.mark.wide
@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(st.tuples(st.sampled_from(_BITS), st.integers(0, 300)), max_size=6),
    values=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
)
def test_bit_ranges_hold(steps: list[tuple[str, int]], values: list[int]) -> None:
    x = np.array(values, np.uint32)
    model = model_of(lambda b, x: _on_bits(b, b.Identity(x), steps), {"x": x})
    found = Facts().int_range(model.graph.outputs[0])
    assert found is not None
    result = _run(model, x)
    assert found.low <= result.min()
    assert result.max() <= found.high


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(_FLOATS),
            st.floats(-1e5, 1e5, width=32) | st.sampled_from([0.0, 3e38, -3e38, 1e-38, math.inf]),
        ),
        max_size=6,
    ),
    values=st.lists(st.floats(width=32), min_size=1, max_size=5),
)
def test_float_ranges_hold(steps: list[tuple[str, float]], values: list[float]) -> None:
    x = np.array(values, np.float32)
    model = model_of(lambda b, x: _on_floats(b, b.Identity(x), steps), {"x": x})
    facts = Facts()
    found = facts.float_range(model.graph.outputs[0])
    result = _run(model, x)
    assert not (facts.nan_free(model.graph.outputs[0]) and np.isnan(result).any())
    result = result[~np.isnan(result)]
    assert not result.size or found.low <= result.min()
    assert not result.size or result.max() <= found.high


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("RIGHT", 9)], Range(0, (1 << 23) - 1)),
        ([("RIGHT", 9), ("BitwiseOr", 0x80)], Range(0, (1 << 23) - 1)),
        ([("BitwiseAnd", 255), ("BitwiseXor", 256)], Range(0, 511)),
        ([("Mod", 9)], Range(0, 9)),
        ([("BitwiseAnd", 100), ("Div", 9)], Range(0, 10)),
        ([("LEFT", 1)], Range(0, 2**32 - 1)),
    ],
)
def test_bit_ranges_are_useful(steps: list[tuple[str, int]], expected: Range) -> None:
    x = np.zeros(1, np.uint32)
    model = model_of(lambda b, x: _on_bits(b, b.Identity(x), steps), {"x": x})
    assert Facts().int_range(model.graph.outputs[0]) == expected


@pytest.mark.parametrize(("fmod", "expected"), [(0, Range(0, 6)), (1, None)])
def test_modulo_takes_the_sign_of_the_divisor(fmod: int, expected: Range | None) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mod(b.Identity(x), b.scalar_like(7, x), fmod=fmod or None)

    model = model_of(build, {"x": np.zeros(1, np.int32)})
    everything = Range(-(2**31), 2**31 - 1)
    assert Facts().int_range(model.graph.outputs[0]) == (expected or everything)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("Relu", 0)], FloatRange(0.0, math.inf)),
        ([("Clip", -3.5), ("Floor", 0)], FloatRange(-4.0, 5.0)),
        ([("Tanh", 0), ("Max", 0.25)], FloatRange(0.25, 1.0)),
        ([("Tanh", 0), ("Mul", -3.0), ("Add", 1.0)], FloatRange(-2.0, 4.0)),
        ([("Tanh", 0), ("Add", 2.0), ("Mul", 3e38)], FloatRange(float(np.float32(3e38)), math.inf)),
        ([("Relu", 0), ("Mul", 0.0)], ANYTHING),
        ([("Relu", 0), ("Sub", math.inf)], ANYTHING),
        ([("Min", 7.0), ("Concat", 9.0)], FloatRange(-math.inf, 9.0)),
        ([("Cast", 0)], ANYTHING),
        ([("Clip", 1e5), ("Cast", 0)], FloatRange(5.0, math.inf)),
        ([("Abs", 0), ("Add", 2.0)], FloatRange(2.0, math.inf)),
        ([("Clip", -3.0), ("Abs", 0)], FloatRange(0.0, 5.0)),
        ([("Clip", -3.0), ("Sub", 7.0), ("Abs", 0)], FloatRange(2.0, 10.0)),
        ([("Exp", 0), ("Mul", -2.0)], FloatRange(-math.inf, 0.0)),
        ([("Sqrt", 0)], FloatRange(0.0, math.inf)),
        ([("Clip", -3.0), ("Neg", 0)], FloatRange(-5.0, 3.0)),
        ([("Clip", -3.0), ("Sign", 0)], FloatRange(-1.0, 1.0)),
        ([("Square", 0)], FloatRange(0.0, math.inf)),
        ([("Clip", -3.0), ("Square", 0)], FloatRange(0.0, 25.0)),
        ([("Clip", 9.0), ("Square", 0)], FloatRange(25.0, 81.0)),
        ([("Square", 0), ("ReduceSum", 0), ("Add", 2.0)], FloatRange(2.0, math.inf)),
        ([("Abs", 0), ("Neg", 0), ("ReduceMean", 0)], FloatRange(-math.inf, 0.0)),
        ([("ReduceSum", 0)], ANYTHING),
        ([("ReduceSumSquare", 0)], FloatRange(0.0, math.inf)),
        ([("ReduceL2", 0)], FloatRange(0.0, math.inf)),
    ],
)
def test_float_ranges_are_useful(steps: list[tuple[str, float]], expected: FloatRange) -> None:
    x = np.zeros(1, np.float32)
    model = model_of(lambda b, x: _on_floats(b, b.Identity(x), steps), {"x": x})
    assert Facts().float_range(model.graph.outputs[0]) == expected


@pytest.mark.parametrize("source", [np.int8, np.uint16, bool])
def test_cast_from_integers(source: type) -> None:
    x = np.zeros(1, source)
    model = model_of(lambda b, x: b.Cast(b.Identity(x), to=T.FLOAT), {"x": x})
    low, high = (0, 1) if source is bool else (np.iinfo(source).min, np.iinfo(source).max)
    assert Facts().float_range(model.graph.outputs[0]) == FloatRange(float(low), float(high))


@pytest.mark.parametrize("bounds", [(1.0, None), (None, 1.0), (None, None)])
def test_a_clip_with_one_bound(bounds: tuple[float | None, float | None]) -> None:
    """Nothing is told of it."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        given = [None if bound is None else b.scalar(bound, T.FLOAT) for bound in bounds]
        while given and given[-1] is None:
            given.pop()
        result: oir.Value = b.Clip(b.Tanh(x), *given)
        return result

    model = model_of(build, {"x": np.zeros(1, np.float32)})
    assert Facts().float_range(model.graph.outputs[0]) == ANYTHING


@pytest.mark.parametrize(
    "op_type", ["Sin", "Cos", "Erf", "Tanh", "Sigmoid", "Softmax", "Exp", "Sqrt"]
)
def test_bounded_functions(op_type: str) -> None:
    """The bounds are those of the function, which it comes close to."""
    x = np.array([-np.inf, -90, -np.pi, -np.pi / 2, 0, np.pi / 2, np.pi, 90], np.float32)
    model = model_of(lambda b, x: b.op(op_type, x), {"x": x})
    low, high = Facts().float_range(model.graph.outputs[0])
    result = _run(model, x)
    result = result[~np.isnan(result)]
    assert low == pytest.approx(result.min() if op_type != "Softmax" else 0, abs=1e-6)
    top = {"Exp": math.inf, "Sqrt": math.inf, "Softmax": 1.0}
    assert high == pytest.approx(top.get(op_type, result.max()), abs=1e-6)


def test_constants() -> None:
    facts, builder = Facts(), GraphBuilder(oir.Graph([], [], nodes=[]), 23)
    assert facts.float_range(builder.const(np.array([1, -2.5, np.nan]))) == FloatRange(-2.5, 1.0)
    assert facts.float_range(builder.const(np.array([np.nan]))) == ANYTHING
    assert facts.float_range(builder.const(np.zeros(0))) == ANYTHING


@pytest.mark.parametrize("dtype", [T.FLOAT8E4M3FN, T.FLOAT8E5M2, T.BFLOAT16])
@pytest.mark.parametrize("first", [True, False])
def test_the_greater_of_a_number_and_anything(dtype: oir.DataType, first: bool) -> None:
    """Some types have no infinity, which is the bound of what is unknown."""
    builder = GraphBuilder(oir.Graph([], [], nodes=[]), 23)
    operands = [builder.scalar(0.5, dtype), builder.value("x", dtype, (3,))]
    found = Facts().float_range(builder.Max(*operands[:: 1 if first else -1]))
    assert found == FloatRange(0.5, math.inf)


Build = Callable[[GraphBuilder, oir.Value], oir.Value]
BYTE = Steps(0, 255, 1.0)


def steps_of(build: Build, x: type = np.uint8) -> Steps | None:
    model = model_of(lambda b, x: b.Identity(build(b, x)), {"x": np.zeros(3, x)})
    node = model.graph.outputs[0].producer()
    assert node is not None and node.inputs[0] is not None
    return Facts().steps(node.inputs[0])


def number(*items: float) -> Callable[[GraphBuilder], oir.Value]:
    return lambda b: b.const(np.array(items, np.float32))


def after(op_type: str, *items: float, first: bool = False) -> Build:
    """A byte as f32, and an operator with a constant."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = [b.cast(x, T.FLOAT), number(*items)(b)]
        return b.op(op_type, *(operands[::-1] if first else operands))  # type: ignore[no-any-return]

    return build


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b, x: b.cast(x, T.FLOAT), BYTE),
        (lambda b, x: b.cast(x, T.DOUBLE), BYTE),
        (lambda b, x: b.cast(x, T.FLOAT8E5M2), None),
        (lambda b, x: b.Neg(b.cast(x, T.FLOAT)), None),
        (lambda b, x: b.cast(b.cast(x, T.FLOAT), T.DOUBLE), None),
        (after("Add", 3.0), Steps(3, 258, 1.0)),
        (after("Add", 3.0, first=True), Steps(3, 258, 1.0)),
        (after("Sub", 3.0), Steps(-3, 252, 1.0)),
        (after("Sub", 3.0, first=True), None),
        (after("Add", 0.5), None),
        (after("Add", np.inf), None),
        (after("Add", np.nan), None),
        (after("Add", 1.0, 1.0, 1.0), None),
        (after("Mul", 0.25), Steps(0, 255, 0.25)),
        (after("Mul", 0.25, first=True), Steps(0, 255, 0.25)),
        (after("Mul", 8.0), Steps(0, 255, 8.0)),
        (after("Mul", 3.0), None),
        (after("Mul", -2.0), None),
        (after("Mul", 0.0), None),
        (after("Mul", 2.0**-126), Steps(0, 255, 2.0**-126)),
        (after("Mul", 2.0**-127), None),
        (after("Mul", 2.0**120), Steps(0, 255, 2.0**120)),
        (after("Mul", 2.0**121), None),
        (after("Add", 2.0**24 - 255), Steps(2**24 - 255, 2**24, 1.0)),
        (after("Add", 2.0**24 - 254), None),
        (after("Sub", 2.0**24), Steps(-(2**24), 255 - 2**24, 1.0)),
        (after("Div", 2.0), None),
    ],
)
def test_steps(build: Build, expected: Steps | None) -> None:
    assert steps_of(build) == expected


def test_what_is_no_integer_has_no_steps() -> None:
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), np.float64) is None
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), bool) is None
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), np.int32) is None  # of 31 digits
    assert steps_of(lambda b, x: b.cast(x, T.DOUBLE), np.int32) == Steps(-(2**31), 2**31 - 1, 1.0)
    assert steps_of(lambda b, x: x, np.float32) is None


def test_offsets() -> None:
    assert moved(Steps(-2, 3, 0.25), 0.75) == Steps(1, 6, 0.25)
    assert moved(Steps(-2, 3, 0.25), -0.75) == Steps(-5, 0, 0.25)
    assert moved(Steps(-2, 3, 0.25), 0.3) is None
    assert moved(Steps(0, 1, 2.0**-100), 3e38) == Steps(
        int(3e38 * 2.0**100), 1 + int(3e38 * 2.0**100), 2.0**-100
    )
    assert moved(Steps(0, 1, 2.0**-1000), 1e300) is None

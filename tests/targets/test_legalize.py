"""Legalization: every detour gives the bits the operator itself would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import foreign, model_of

from hlo2onnx.errors import TranslationError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize

T = oir.DataType


def run(build, inputs, half: str = "xla"):  # type: ignore[no-untyped-def]
    model = model_of(build, inputs)
    legalize(model, load_target("ort-cpu"), half, Report())
    check_model(oir.to_proto(model))
    outputs = OrtProgram(oir.to_proto(model).SerializeToString())(inputs)
    return outputs[0], Counter(node.op_type for node in model.graph)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("op_type", ["Add", "Mul", "Max", "Sub"])
def test_integers(op_type: str, dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, info.max, info.min, 100], dtype)
    y = np.array([1, info.max, info.max, info.max, 3], dtype)

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.op(op_type, x, y)

    with np.errstate(over="ignore"):
        want = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Sub": np.subtract}
        expected = want[op_type](x, y)
    np.testing.assert_array_equal(run(build, {"x": x, "y": y})[0], expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_rounds_after_every_op(dtype: type) -> None:
    x = np.linspace(-3, 3, 257).astype(dtype)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(b.Add(x, b.scalar_like(0.1, x)), x)

    got, nodes = run(build, {"x": x})
    np.testing.assert_array_equal(got, (x + dtype(0.1)) * x)
    assert nodes["Cast"] >= 3, "the inner rounding must stay"


AFTER_ROUNDING: dict[str, Callable[[GraphBuilder, oir.Value, oir.Value], oir.Value]] = {
    **{
        op_type: lambda b, x, y, op_type=op_type: b.op(op_type, x, y)  # type: ignore[misc]
        for op_type in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min")
    },
    **{
        op_type: lambda b, x, y, op_type=op_type: b.op(op_type, x)  # type: ignore[misc]
        for op_type in ("Abs", "Ceil", "Floor", "Identity", "IsInf", "IsNaN", "Neg", "Relu",
                        "Round", "Sign", "Trilu")
    },
    "ArgMax": lambda b, x, y: b.op("ArgMax", x, axis=0, keepdims=1),
    "Concat": lambda b, x, y: b.concat([x, y], 0),
    "DepthToSpace": lambda b, x, y: b.op("DepthToSpace", b.reshape(x, (1, 4, 2, 8)), blocksize=2),
    "Expand": lambda b, x, y: b.expand(x, (2, 8, 8)),
    "Gather": lambda b, x, y: b.Gather(x, b.i64([3, 1]), axis=0),
    "MaxPool": lambda b, x, y: b.MaxPool(
        b.reshape(x, (1, 1, 8, 8)), kernel_shape=[2, 2], strides=[1, 1], pads=[0] * 4,
        dilations=[1, 1],
    ),
    "Pad": lambda b, x, y: b.Pad(x, b.i64([1, 0, 0, 1])),
    "ReduceMax": lambda b, x, y: b.ReduceMax(x, b.i64([1]), keepdims=1),
    "Tile": lambda b, x, y: b.op("Tile", x, b.i64([2, 1]), types=[(T.FLOAT16, (16, 8))]),
    "TopK": lambda b, x, y: b.outputs("TopK", x, b.i64([2]), axis=1, n_outputs=2)[0],
    "Transpose": lambda b, x, y: b.transpose(x, (1, 0)),
    "Where": lambda b, x, y: b.Where(b.Greater(x, y), x, y),
}  # fmt: skip


@pytest.mark.parametrize("op_type", AFTER_ROUNDING)
def test_half_keeps_the_rounding_around(op_type: str) -> None:
    """f32 numbers between those of f16: what reads them as f16 sees them rounded."""
    wide = np.random.default_rng(0).normal(0, 3e4, (8, 8)).astype(np.float32)
    wide[:, 0] = 2049.2, 2049.4, -7e4, 65519.9, 1e-9, -0.0, 2048.9, 2049.1
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float16)
    inputs = {"x": wide, "y": narrow}
    make = AFTER_ROUNDING[op_type]

    def rounded(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.cast(make(b, b.cast(x, T.FLOAT16), y), T.FLOAT)

    def given(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.cast(make(b, y, y), T.FLOAT)

    np.testing.assert_array_equal(run(rounded, inputs)[0], run(given, inputs)[0])


def test_fast_half_keeps_the_runtimes_kernels() -> None:
    x = np.ones(4, np.float16)
    _, nodes = run(lambda b, x: b.Add(x, x), {"x": x}, half="fast")
    assert nodes == Counter(Add=1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_matmul_of_transposed_batch_axes(dtype: type) -> None:
    """ONNX Runtime 1.31 dies of Transpose, Cast, MatMul; the Cast goes first."""
    x = np.arange(6).reshape(2, 1, 3).astype(dtype)
    w = np.ones((2, 3), dtype)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.MatMul(b.Transpose(x, perm=(1, 2, 0)), b.const(w))

    got, _ = run(build, {"x": x})
    np.testing.assert_array_equal(got, np.transpose(x, (1, 2, 0)) @ w)


def test_where_on_bool() -> None:
    c = np.array([True, False, True, False])
    x = np.array([True, True, False, False])
    got, _ = run(lambda b, c, x: b.Where(c, x, b.Not(x)), {"c": c, "x": x})
    np.testing.assert_array_equal(got, np.where(c, x, ~x))


def test_floats_are_truncated_on_their_way_to_4_bits() -> None:
    x = np.array([0.5, -0.75, 1.5, 2.5, -7.9, 7.9], np.float32)
    got, nodes = run(lambda b, x: b.cast(b.cast(x, T.INT4), T.INT8), {"x": x})
    np.testing.assert_array_equal(got, np.trunc(x).astype(np.int8))
    assert nodes == Counter(Cast=3)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_minus_zero_is_false(dtype: type) -> None:
    x = np.array([0.0, -0.0, 1, -2, np.nan]).astype(dtype)
    got, _ = run(lambda b, x: b.cast(x, T.BOOL), {"x": x})
    np.testing.assert_array_equal(got, [False, False, True, True, True])


def test_what_nobody_runs_is_refused() -> None:
    x = np.ones((1, 1, 4, 4), np.float64)
    build = lambda b, x: b.LRN(x, size=3)  # noqa: E731
    with pytest.raises(TranslationError, match="LRN"):
        run(build, {"x": x})


def test_operators_of_other_domains_are_left_alone() -> None:
    model = model_of(lambda b, x: foreign(b.LRN(x, size=3)), {"x": np.ones((1, 1, 4, 4))})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert [(node.domain, node.op_type) for node in model.graph] == [("example", "LRN")]

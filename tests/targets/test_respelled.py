"""Nodes that are written in another form for a target: long sums, reciprocals, paddings."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import onnx_ir as oir
import onnxruntime as ort
import pytest
from rewriting import Build, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import known_targets, load_target
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.workarounds import WORKAROUNDS


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((100_003,), (0,)),  # a prime extent: padded with zeros
        ((4, 5000), (1,)),
        ((5000, 4), (0,)),
        ((300, 400), (0, 1)),
        ((8, 30, 30, 5), (0, 1, 2)),
        ((8, 30, 5, 30), (1, 3)),
    ],
)
@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean"])
def test_a_long_sum(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: int, op_type: str
) -> None:
    x = np.full(shape, 0.1, np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op(op_type, x, b.i64(list(axes)), keepdims=keepdims)

    model = model_of(build, {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert len([node for node in model.graph if node.op_type == "ReduceSum"]) > 1
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
    reduce = np.sum if op_type == "ReduceSum" else np.mean
    right = reduce(x.astype(np.float64), axes, keepdims=bool(keepdims))
    np.testing.assert_allclose(got, right, rtol=2e-6)


def test_a_short_sum_stays() -> None:
    x = np.ones((8, 768), np.float32)
    model = model_of(lambda b, x: b.ReduceSum(x, b.i64([1])), {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert [node.op_type for node in model.graph] == ["ReduceSum"]


def test_the_standard_says_nothing_of_sums() -> None:
    x = np.ones((100_000,), np.float32)
    model = model_of(lambda b, x: b.ReduceSum(x, b.i64([0])), {"x": x})
    legalize(model, load_target("onnx"), "fast", Report())
    assert [node.op_type for node in model.graph] == ["ReduceSum"]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("ones", [(), (1,), (1, 1)])
def test_an_integer_reciprocal(dtype: type[np.integer], ones: tuple[int, ...]) -> None:
    """1 / x * y is not y / x, which ORT would make of it."""
    x, y = np.array([1, -1, 5], np.int64).astype(dtype), np.array([7, 8, 9], dtype)

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Mul(b.Div(b.const(np.ones(ones, dtype)), x), y)

    model = model_of(build, {"x": x, "y": y})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x, "y": y})
    right = [7, 0 if dtype is np.uint32 else -8, 0]
    np.testing.assert_array_equal(got.reshape(-1), np.array(right).astype(dtype))


def test_other_quotients_stay() -> None:
    """Neither floats nor a quotient that no Mul reads are touched."""
    for x in (np.ones(3, np.float32), np.ones(3, np.int32)):

        def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
            quotient = b.Div(b.scalar_like(1, x), x)
            return b.Mul(quotient, x) if x.dtype == oir.DataType.FLOAT else b.Add(quotient, x)

        model = model_of(build, {"x": x})
        legalize(model, load_target("ort-cpu"), "xla", Report())
        assert next(iter(model.graph)).op_type == "Div"


@pytest.mark.parametrize("op_type", ["Mul", "Div"])
@pytest.mark.parametrize("place", ["before", "after", "before a transpose"])
@pytest.mark.parametrize("shape", [(5, 5), (1, 5), (1, 1)], ids=str)
def test_a_scaled_f64_product(op_type: str, shape: tuple[int, int], place: str) -> None:
    """ORT would round the scale to f32."""
    x = np.random.default_rng(0).normal(size=shape)
    factor = 0.1 if op_type == "Mul" else 10.0

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale = b.scalar_like(factor, x)
        if place == "after":
            return b.op(op_type, b.MatMul(x, b.Transpose(x, perm=(1, 0))), scale)
        scaled = b.op(op_type, x, scale)
        if place == "before a transpose":
            return b.MatMul(b.Transpose(scaled, perm=(1, 0)), x)
        return b.MatMul(scaled, b.Transpose(x, perm=(1, 0)))

    model = model_of(build, {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
    right = (x.T @ x if place == "before a transpose" else x @ x.T) * 0.1
    np.testing.assert_allclose(got, right, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("dtype", "factor"), [(np.float64, 0.5), (np.float32, 0.1)])
def test_an_exact_scale_stays(dtype: type[np.floating], factor: float) -> None:
    x = np.ones((3, 3), dtype)
    model = model_of(lambda b, x: b.MatMul(b.Mul(x, b.scalar_like(factor, x)), x), {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    constants = [v.const_value for v in model.graph.initializers.values()]
    assert [constant.size for constant in constants if constant is not None] == [1]


def pooled(b: GraphBuilder, x: oir.Value) -> oir.Value:
    pads = b.i64([0, 0, 1, 2, 0, 0, 0, 1])
    padded = b.Pad(b.Neg(b.Abs(x)), pads, b.const(np.float32(0)))
    return b.op("MaxPool", padded, kernel_shape=(3, 3), strides=(2, 2))  # type: ignore[no-any-return]


@pytest.mark.parametrize("optimize", [False, True])
def test_zeros_before_a_max_pool(optimize: bool) -> None:
    x = 1 + np.random.default_rng(0).random((1, 2, 8, 8)).astype(np.float32)
    model = model_of(pooled, {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    proto = oir.to_proto(model).SerializeToString()
    (got,) = OrtProgram(proto, optimize=optimize)({"x": x})
    padded = np.pad(-x, ((0, 0), (0, 0), (1, 0), (2, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(got, windows.max((-1, -2)))


@pytest.mark.skipif(
    tuple(map(int, ort.__version__.split(".")[:2])) > (1, 31),
    reason="ONNX Runtime 1.32 does not fuse this Pad any more; models must run in 1.31, too",
)
def test_the_runtime_takes_them_for_its_own() -> None:
    """Otherwise there is nothing to spell differently."""
    x = 1 + np.random.default_rng(0).random((1, 2, 8, 8)).astype(np.float32)
    model = model_of(pooled, {"x": x})
    legalize(model, load_target("onnx"), "fast", Report())
    (got,) = OrtProgram(oir.to_proto(model).SerializeToString())({"x": x})
    assert (got < 0).all()


def far_mean(b: GraphBuilder, x: oir.Value) -> oir.Value:
    one, zero, mean = (b.const(np.full(2, number, np.float32)) for number in (1, 0, 255))
    return b.BatchNormalization(x, one, zero, mean, one)  # type: ignore[no-any-return]


def turned_halves(b: GraphBuilder, x: oir.Value) -> oir.Value:
    wide = b.cast(b.transpose(b.cast(x, oir.DataType.FLOAT16), (1, 0)), oir.DataType.FLOAT)
    return b.MatMul(wide, wide)  # type: ignore[no-any-return]


def sum_of_halves(b: GraphBuilder, x: oir.Value) -> oir.Value:
    half = b.cast(x, oir.DataType.FLOAT16)
    return b.cast(b.Add(half, half), oir.DataType.FLOAT)


def largest(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.ReduceMax(x, b.i64([1]))  # type: ignore[no-any-return]


@pytest.mark.parametrize("build", [far_mean, turned_halves, sum_of_halves, largest])
def test_flags_switch_workarounds_on(build: Build) -> None:
    """The plain standard has none."""
    for name, stays in (("onnx", True), ("ort-cpu", False)):
        model = model_of(build, {"x": np.ones((2, 2), np.float32)})
        before = [node.op_type for node in model.graph]
        legalize(model, load_target(name), "xla", Report())
        assert ([node.op_type for node in model.graph] == before) == stays


def test_operators_of_other_domains_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        made = b.node("ReduceSum", [x], {}, [(oir.DataType.FLOAT, ())], "acme")
        return made[0]

    model = model_of(build, {"x": np.ones(100_000, np.float32)})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert [(node.domain, node.op_type) for node in model.graph] == [("acme", "ReduceSum")]


def test_faults_have_the_names_of_flags_or_fusions() -> None:
    """Each is a fault of some target."""
    targets = [load_target(name) for name in known_targets()]
    faults = {fault for fault, *_ in WORKAROUNDS}
    fusions = {name for target in targets for name in target.harmful_fusions}
    assert faults <= fusions | {field.name for field in fields(Flags)}
    assert all(any(target.has(fault) for target in targets) for fault in faults)
    assert not any(map(load_target("onnx").has, faults))

"""Nodes that are written in another form for a target."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, model_of

from hlo2onnx import translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import const_of
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
    """Neither floats, nor a quotient that no Mul reads, nor one of other numbers are touched."""
    for dtype, one, read in ((np.float32, 1, "Mul"), (np.int32, 1, "Add"), (np.int32, 2, "Mul")):
        x = np.ones(3, dtype)

        def build(b: GraphBuilder, x: oir.Value, one: int = one, read: str = read) -> oir.Value:
            return b.op(read, b.Div(b.scalar_like(one, x), x), x)

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


def test_faults_have_the_names_of_flags_or_fusions() -> None:
    """Each is a fault of some target."""
    targets = [load_target(name) for name in known_targets()]
    faults = {fault for fault, *_ in WORKAROUNDS}
    fusions = {name for target in targets for name in target.harmful_fusions}
    assert faults <= fusions | {field.name for field in fields(Flags)}
    assert all(any(target.has(fault) for target in targets) for fault in faults)
    assert not any(map(load_target("onnx").has, faults))


# -- products of transposed f64 matrices -----------------------------------------------------------

PRODUCT = """
module { func.func public @main(%x: tensor<3x4xTYPE>, %y: tensor<3x5xTYPE>) -> tensor<4x5xTYPE> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
    : (tensor<3x4xTYPE>, tensor<3x5xTYPE>) -> tensor<4x5xTYPE>
  return %0 : tensor<4x5xTYPE>
} }
"""


@pytest.mark.parametrize("target", ["ort-cpu@1.20", "ort-cpu@1.23"])
def test_a_transpose_becomes_part_of_the_product(target: str) -> None:
    program = translate(PRODUCT.replace("TYPE", "f64"), target=target)
    assert program.report.nodes == {"Gemm": 1}
    assert program.verify().ok


def test_what_has_a_kernel_stays() -> None:
    for target, kind in (("ort-cpu", "f64"), ("ort-cpu@1.20", "f32")):
        program = translate(PRODUCT.replace("TYPE", kind), target=target)
        assert program.report.nodes == {"Transpose": 1, "MatMul": 1}


# -- empty constants -------------------------------------------------------------------------------

EMPTY = np.ones((3, 0), np.float32)


def function(x: jax.Array) -> tuple[jax.Array, ...]:
    half = jnp.zeros((2, 0), jnp.bfloat16)
    return half, x @ jnp.zeros((0, 3)), jnp.reshape(jnp.sum(x), ())


def empty_constants(target: str) -> list[tuple[oir.DataType, int]]:
    program = translate(function, EMPTY, target=target)
    assert program.verify(EMPTY, runtime="ort-cpu").ok
    values = [x for node in all_nodes(program.model.graph) for x in node.inputs if x is not None]
    arrays = [(x.dtype, const_of(x)) for x in values]
    return [(dtype, x.ndim) for dtype, x in arrays if dtype and x is not None and not x.size]


def test_they_are_expanded(tmp_path: Path) -> None:
    table = tmp_path / "flat.json"
    table.write_text(json.dumps({"extends": "ort-cpu", "flattens_empty_constants": True}))
    shapes = {(oir.DataType.INT64, 1)}
    assert set(empty_constants(str(table))) <= shapes
    assert set(empty_constants("ort-cpu")) - shapes


def test_operators_of_other_domains_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        made = b.node("ReduceSum", [x], {}, [(oir.DataType.FLOAT, ())], "acme")
        return made[0]

    model = model_of(build, {"x": np.ones(100_000, np.float32)})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    assert [(node.domain, node.op_type) for node in model.graph] == [("acme", "ReduceSum")]

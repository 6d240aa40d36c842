"""Opset 17: operators that it lacks, and the form of those that opset 18 changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import Shape
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize

Build = Callable[..., oir.Value]
OPSET = 17
RNG = np.random.default_rng(0)
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def legalized(
    build: Build,
    target: str,
    *arrays: np.ndarray,
    dims: Mapping[str, Shape] | None = None,
) -> oir.Model:
    model = model_of(build, dict(zip("xyz", arrays, strict=False)), OPSET, dims)
    model.ir_version = 8
    legalize(model, load_target(target), "xla", Report())
    check_model(oir.to_proto(model))
    return model


def run(build: Build, *arrays: np.ndarray, **options: Any) -> tuple[np.ndarray, Counter[str]]:
    """What the legalized graph gives, optimised and not, and its operators. For the plain standard
    it is valid."""
    inputs = dict(zip("xyz", arrays, strict=False))
    legalized(build, "onnx", *arrays, **options)
    model = legalized(build, "ort-cpu", *arrays, **options)
    content = oir.to_proto(model).SerializeToString()
    plain, optimized = (OrtProgram(content, optimize=flag)(inputs)[0] for flag in (False, True))
    np.testing.assert_array_equal(plain, optimized)
    return plain, Counter(node.op_type for node in model.graph.all_nodes())


def bits(dtype: Any, *shape: int) -> np.ndarray:
    """Any bits, and the ends of the type."""
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    x.reshape(-1)[: min(x.size, 2)] = [info.min, info.max][: x.size]
    return x


# -- bitwise -----------------------------------------------------------------------------------

FUNCTIONS = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_two_operands(op_type: str, dtype: Any) -> None:
    for left, right in (((5, 1, 7), (3, 7)), ((), (1,)), ((0, 3), ())):
        x, y = bits(dtype, *left), bits(dtype, *right)
        got, nodes = run(lambda b, x, y: b.op(op_type, x, y), x, y)
        np.testing.assert_array_equal(got, FUNCTIONS[op_type](x, y))
        assert nodes["Gather"] == 1
        assert not nodes[op_type]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_not(dtype: Any) -> None:
    x = bits(dtype, 9)
    got, nodes = run(lambda b, x: b.BitwiseNot(x), x)
    np.testing.assert_array_equal(got, ~x)
    assert nodes["Sub"] == 1


# -- scatter -----------------------------------------------------------------------------------


def scattered(axis: int, reduction: str, index: np.ndarray) -> Build:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.ScatterElements(x, b.const(index), y, axis=axis, reduction=reduction)

    return build


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float32, np.float64, np.float16])
@pytest.mark.parametrize(("reduction", "axis"), [("max", 0), ("max", -1), ("min", 1)])
def test_extremes_of_elements(reduction: str, axis: int, dtype: Any) -> None:
    x, updates = (RNG.integers(0, 9, shape).astype(dtype) for shape in ((3, 4), (3, 4)))
    index = RNG.integers(-3, 3, (3, 4))
    want, function = x.copy(), {"max": max, "min": min}[reduction]
    for i, j in np.ndindex(3, 4):
        place = (index[i, j], j) if axis == 0 else (i, index[i, j])
        want[place] = function(want[place], updates[i, j])
    got, nodes = run(scattered(axis, reduction, index), x, updates)
    np.testing.assert_array_equal(got, want)
    assert nodes["Loop"] == 1


def test_extremes_keep_nan() -> None:
    x, index = np.array([1, np.nan, 3, 4], np.float32), np.array([0, 1, 2, 2])
    updates = np.array([np.nan, 5, 9, -np.inf], np.float32)
    got, _ = run(scattered(0, "max", index), x, updates)
    np.testing.assert_array_equal(got, np.array([np.nan, np.nan, 9, 4], np.float32))


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("index_shape", "row"), [((5, 1), (4,)), ((2, 3, 1), (4,)), ((2, 3, 2), ()), ((0, 1), (4,))]
)
def test_extremes_of_rows(index_shape: tuple[int, ...], row: tuple[int, ...], free: bool) -> None:
    x = RNG.integers(0, 99, (3, 4))
    index = RNG.integers(0, 3, index_shape)
    updates = RNG.integers(0, 99, (*index_shape[:-1], *row))
    want = x.copy()
    for place in np.ndindex(*index_shape[:-1]):
        target = tuple(index[place])
        want[target] = np.maximum(want[target], updates[place])

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, z: oir.Value) -> oir.Value:
        types = [(oir.DataType.INT64, (3, 4))]
        return b.op("ScatterND", x, y, z, reduction="max", types=types)

    symbols = tuple(oir.SymbolicDim(f"n{axis}") for axis in index_shape[:-1])
    dims: dict[str, Shape] = {"y": (*symbols, index_shape[-1]), "z": (*symbols, *row)}
    got, _ = run(build, x, index, updates, dims=dims if free else None)
    np.testing.assert_array_equal(got, want)


# -- forms -------------------------------------------------------------------------------------

REDUCTIONS = {
    "ReduceL1": lambda x, axis: np.abs(x).sum(axis),
    "ReduceL2": lambda x, axis: np.sqrt((x * x).sum(axis)),
    "ReduceLogSum": lambda x, axis: np.log(x.sum(axis)),
    "ReduceLogSumExp": lambda x, axis: np.log(np.exp(x).sum(axis)),
    "ReduceMax": lambda x, axis: x.max(axis),
    "ReduceMean": lambda x, axis: x.mean(axis),
    "ReduceMin": lambda x, axis: x.min(axis),
    "ReduceProd": lambda x, axis: x.prod(axis),
    "ReduceSum": lambda x, axis: x.sum(axis),
    "ReduceSumSquare": lambda x, axis: (x * x).sum(axis),
}


@pytest.mark.parametrize("axes", [[1], [0, -1], [], None])
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_axes_of_reductions(op_type: str, axes: list[int] | None) -> None:
    x = RNG.uniform(1, 2, (2, 3, 4)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op(op_type, x, *([] if axes is None else [b.i64(axes)]), keepdims=0)

    got, nodes = run(build, x)
    want = REDUCTIONS[op_type](x, tuple(axes) if axes else None)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert not nodes["Identity"]


def test_zeros_before_a_pool_stay_zeros() -> None:
    """Pad_Fusion would make them -inf."""
    x = -RNG.uniform(1, 2, (1, 2, 4, 4)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        edges = b.i64([0, 0, 1, 0, 0, 0, 1, 0])
        y = b.op("Pad", x, edges, types=[(oir.DataType.FLOAT, (1, 2, 6, 4))])
        window = {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
        return b.MaxPool(y, **window)

    content = oir.to_proto(legalized(build, "ort-cpu", x)).SerializeToString()
    plain, optimized = (OrtProgram(content, optimize=flag)({"x": x})[0] for flag in (False, True))
    np.testing.assert_array_equal(plain, optimized)
    assert (plain[:, :, 0] == 0).any()


def axes_of_an_input(op_type: str) -> Build:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        given = [b.i64([1, 1]), None, y] if op_type == "Pad" else [y]
        return b.op(op_type, x, *given, types=[(oir.DataType.FLOAT, (2, 3))])

    return build


def parts_of_unknown_size(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    types = [(oir.DataType.FLOAT, (oir.SymbolicDim("n"), 3))] * 2
    return b.outputs("Split", x, axis=0, num_outputs=2, n_outputs=2, types=types)[0]


REFUSED = [
    (axes_of_an_input("ReduceMax"), "has no ReduceMax with axes that are computed"),
    (axes_of_an_input("Pad"), "has no Pad with 4 inputs"),
    (parts_of_unknown_size, "has no Split with the attribute num_outputs"),
    (lambda b, x, y: b.op("Mish", x), "has no Mish"),
    (
        lambda b, x, y: b.op(
            "Resize", x, None, None, y, axes=[0], types=[(oir.DataType.FLOAT, (4, 3))]
        ),
        "has no Resize with the attribute axes",
    ),
]


@pytest.mark.parametrize(("build", "why"), REFUSED)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_what_the_opset_cannot_say(build: Build, why: str, target: str) -> None:
    x, y = np.ones((2, 3), np.float32), np.array([1])
    with pytest.raises(TranslationError) as caught:
        legalized(build, target, x, y)
    (refusal,) = caught.value.refusals
    assert refusal.why == f"opset {OPSET} {why}"
    assert refusal.next == "use opset 18 or newer"


# -- programs ----------------------------------------------------------------------------------


def test_the_ir_version() -> None:
    program = hlo2onnx.translate(lambda x: x.max(1), np.ones((2, 3), np.float32), opset=OPSET)
    assert program.model_proto.ir_version == 8
    (node,) = [n for n in program.model.graph if n.op_type == "ReduceMax"]
    assert [len(node.inputs), node.attributes["axes"].value] == [1, (1,)]
    assert program.verify().ok


def test_composites_have_the_form_of_opset_18() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.lax.composite(lambda x: -jnp.sort(-x)[:1].sum() + 0 * x, "onnx.Mish")(x)

    with pytest.raises(TranslationError, match="opset 17 has no Mish\n") as caught:
        hlo2onnx.translate(function, np.ones(3, np.float32), opset=OPSET)
    assert "tests/targets/test_older_opsets.py" in caught.value.refusals[0].where


def draws(key: jax.Array) -> jax.Array:
    return jax.random.normal(jax.random.wrap_key_data(key), (3, 5))


PROGRAMS = {
    "random": (draws, ["uint32[2]"]),
    "segment max": (
        lambda x, i: jax.ops.segment_max(x, i, 3),
        ["int32[b, 2]", "int32[b]"],
    ),
    "cumulative sum": (lambda x: jnp.cumsum(x, 1), ["float32[2, b]"]),
    "window": (
        lambda x: jax.lax.reduce_window(x, 0, jax.lax.max, (3, 1), (2, 1), "SAME"),
        ["int32[b, 3]"],
    ),
    "bits": (lambda x: (x ^ (x >> 3)) & (x | 12), ["int16[b]"]),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu"])
def test_programs(name: str, target: str) -> None:
    function, inputs = PROGRAMS[name]
    program = hlo2onnx.translate(function, *inputs, opset=OPSET, target=target)
    check_model(program.model_proto)
    assert program.verify().ok

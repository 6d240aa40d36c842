"""Integer operators without a right kernel: detours that wrap and compare as they should, and none
where the kernel is right for what it meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as oir
import pytest
from edge_values import near_powers
from rewriting import model_of

from hlo2onnx.errors import TranslationError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize

Build = Callable[..., oir.Value]
Found = tuple[list[np.ndarray], Counter[str]]

numbers = partial(near_powers, [0, 7, 8, 15, 16, 31, 32, 53, 62, 63])
WIDE = [np.int64, np.uint64, np.uint32, np.int32]
EVERY = [*WIDE, np.int8, np.int16, np.uint8, np.uint16]


def run(build: Build, *arrays: np.ndarray) -> Found:
    """What the legalized graph gives, optimised and not, and the operators it is made of."""
    inputs = dict(zip("xyz", arrays, strict=False))
    model = model_of(build, inputs)
    legalize(model, load_target("ort-cpu"), "xla", Report())
    proto = oir.to_proto(model)
    check_model(proto)
    content = proto.SerializeToString()
    plain, optimized = (OrtProgram(content, optimize=flag)(inputs) for flag in (False, True))
    for one, other in zip(plain, optimized, strict=True):
        np.testing.assert_array_equal(one, other)
    return plain, Counter(node.op_type for node in model.graph.all_nodes())


def equal(found: Found, *wanted: np.ndarray) -> Counter[str]:
    for got, want in zip(found[0], wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)
    return found[1]


@pytest.mark.parametrize("dtype", EVERY)
@pytest.mark.parametrize("op_type, function", [("Max", np.maximum), ("Min", np.minimum)])
def test_extremes(op_type: str, function: Callable[..., np.ndarray], dtype: type) -> None:
    x, y, z = numbers(dtype, 5, 67), numbers(dtype, 67, seed=1), numbers(dtype, 5, 1, seed=2)
    found = run(lambda b, x, y, z: b.op(op_type, x, y, z), x, y, z)
    equal(found, function(function(x, y), z))
    equal(run(lambda b, x: b.op(op_type, x), x), x)


@pytest.mark.parametrize("dtype", EVERY)
def test_clip(dtype: type) -> None:
    x, (low, high) = numbers(dtype, 67), np.sort(numbers(dtype, 2, seed=1))
    least, most = np.maximum(x, low), np.minimum(x, high)
    scalars = (np.asarray(low), np.asarray(high))
    equal(run(lambda b, x, y, z: b.Clip(x, y, z), x, *scalars), np.clip(x, low, high))
    equal(run(lambda b, x, y: b.Clip(x, y), x, scalars[0]), least)
    equal(run(lambda b, x, y: b.Clip(x, None, y), x, scalars[1]), most)
    equal(run(lambda b, x: b.Clip(x), x), x)


@pytest.mark.parametrize("dtype", EVERY)
def test_sign_and_relu(dtype: type) -> None:
    x = numbers(dtype, 67)
    if np.issubdtype(dtype, np.signedinteger):
        equal(run(lambda b, x: b.Relu(x), x), np.maximum(x, 0))
    equal(run(lambda b, x: b.Sign(x), x), np.sign(x))


REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "ReduceMax": lambda x, axes, keep: x.max(axes, keepdims=keep),
    "ReduceMin": lambda x, axes, keep: x.min(axes, keepdims=keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axes, x.dtype, keepdims=keep),
    "ReduceSum": lambda x, axes, keep: x.sum(axes, x.dtype, keepdims=keep),
    "ReduceSumSquare": lambda x, axes, keep: (x * x).sum(axes, x.dtype, keepdims=keep),
}
LAYOUTS = [
    ((67,), (0,)),
    ((5, 67), (1,)),
    ((67, 5), (0,)),
    ((3, 4, 5), (1,)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5), (-1, -2)),
    ((3, 4, 5), None),
    ((), None),
    ((0, 5), (1,)),
    ((5, 0), (1,)),
    ((5, 1), (1,)),
]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reductions(op_type: str, dtype: type, keep: bool) -> None:
    for shape, axes in LAYOUTS:
        x = numbers(dtype, *shape)
        if op_type == "ReduceProd":
            x = x | np.ones((), dtype)  # a product of even numbers soon is 0

        def build(b: GraphBuilder, x: oir.Value, axes: tuple[int, ...] | None = axes) -> oir.Value:
            given = [] if axes is None else [b.i64(axes)]
            return b.op(op_type, x, *given, keepdims=int(keep))

        if 0 not in [x.shape[axis] for axis in axes or ()]:
            equal(run(build, x), np.asarray(REDUCTIONS[op_type](x, axes, keep)))
        else:
            info = np.iinfo(dtype)
            empty = {"ReduceMax": info.min, "ReduceMin": info.max, "ReduceProd": 1}.get(op_type, 0)
            shape = (5, 1) if keep else (5,)
            equal(run(build, x), np.full(shape, empty, dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16])
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_narrow_reductions(op_type: str, dtype: type) -> None:
    x = numbers(dtype, 9, 67) | np.ones((), dtype)
    found = run(lambda b, x: b.op(op_type, x, b.i64([1]), keepdims=0), x)
    equal(found, REDUCTIONS[op_type](x, 1, False))


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceProd", "ReduceSum"])
def test_no_axes(op_type: str) -> None:
    x = numbers(np.int64, 3, 4)
    found = run(lambda b, x: b.op(op_type, x, b.i64([]), noop_with_empty_axes=1), x)
    assert equal(found, x) == Counter(Identity=1)


def test_sum_over_a_dynamic_axis() -> None:
    x = numbers(np.int64, 6, 5, 7)
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    value = b.value("x", oir.DataType.INT64, [oir.SymbolicDim("n"), 5, oir.SymbolicDim("m")])
    graph.inputs.append(value)
    graph.outputs.append(b.ReduceSum(value, b.i64([0, 2]), keepdims=0))
    model = oir.Model(graph, ir_version=10)
    legalize(model, load_target("ort-cpu"), "xla", Report())
    proto = oir.to_proto(model)
    check_model(proto)
    got = OrtProgram(proto.SerializeToString())({"x": x})
    np.testing.assert_array_equal(got[0], x.sum((0, 2)))


@pytest.mark.parametrize("dtype", EVERY)
def test_ranks(dtype: type) -> None:
    x = numbers(dtype, 5, 67)
    signed = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    for op_type, find in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        found = run(lambda b, x, op_type=op_type: b.op(op_type, x, axis=1, keepdims=0), x)
        equal(found, find(x, 1))
    order = np.argsort(-signed, 1, kind="stable")[:, :9]
    found = run(lambda b, x: b.outputs("TopK", x, b.i64([9]), axis=1, n_outputs=2), x)
    equal(found, np.take_along_axis(x, order, 1), order)


# -- kernels that are right for what they meet ----------------------------------------------------


def small(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """The INT32 elements of x as INT64."""
    return b.cast(x, oir.DataType.INT64)


def test_order_within_32_bits_keeps_the_kernel() -> None:
    x = numbers(np.int32, 3, 67)
    nodes = equal(run(lambda b, x: b.Max(small(b, x), b.i64(5)), x), np.maximum(x, 5, dtype="i8"))
    assert nodes == Counter(Cast=1, Max=1)
    clipped = run(lambda b, x: b.Clip(small(b, x), b.i64(-9), b.i64(2**31 - 1)), x)
    assert equal(clipped, np.clip(x, -9, None).astype(np.int64)) == Counter(Cast=1, Clip=1)
    least = run(lambda b, x: b.ReduceMin(small(b, x), b.i64([0]), keepdims=0), x)
    assert equal(least, x.min(0).astype(np.int64)) == Counter(Cast=1, ReduceMin=1)
    signs = run(lambda b, x: b.Sign(small(b, x)), x)
    assert equal(signs, np.sign(x).astype(np.int64)) == Counter(Cast=1, Sign=1)


def test_order_beyond_32_bits_does_not() -> None:
    x = numbers(np.int32, 3, 67)
    found = run(lambda b, x: b.Max(small(b, x), b.i64(2**31)), x)
    assert equal(found, np.full(x.shape, 2**31)) == Counter(Cast=1, Less=1, Where=1)


@pytest.mark.parametrize(
    "source, sum_of, carrier, count, kept",
    [
        (np.uint8, "ReduceSum", np.int32, 1 << 16, True),
        (np.uint16, "ReduceSum", np.int32, 1 << 14, True),
        (np.uint16, "ReduceSum", np.int32, 1 << 16, False),
        (np.uint16, "ReduceSumSquare", np.int64, 1 << 16, True),
        (np.uint32, "ReduceSum", np.int64, 1 << 16, True),
        (np.uint32, "ReduceSumSquare", np.int64, 1 << 4, False),
        (np.int32, "ReduceL1", np.int64, 1 << 16, True),
    ],
)
def test_exact_sums_keep_the_kernel(
    source: type, sum_of: str, carrier: type, count: int, kept: bool
) -> None:
    info = np.iinfo(source)
    x = np.full(count, info.min or info.max, source)
    wide = x.astype(carrier)
    terms = {"ReduceL1": np.abs(wide), "ReduceSumSquare": wide * wide}.get(sum_of, wide)
    dtype = oir.DataType.from_numpy(np.dtype(carrier))
    found = run(lambda b, x: b.op(sum_of, b.cast(x, dtype), keepdims=0), x)
    nodes = equal(found, np.asarray(terms.sum(dtype=carrier)))
    assert (sum_of in nodes) is kept
    assert ("MatMul" in nodes) is not kept


# -- types of further operands ---------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [np.int8, np.uint16, np.uint32, np.int64])
def test_exponents_meet_the_base(exponent: type) -> None:
    x, y = np.array([1.5, -2, 3], np.float32), np.array([2, 3, 4], exponent)
    nodes = equal(run(lambda b, x, y: b.Pow(x, y), x, y), np.array([2.25, -8, 81], np.float32))
    assert nodes["Cast"] == (exponent is not np.int64)


def test_integer_powers_are_refused() -> None:
    x = np.array([3], np.int32)
    with pytest.raises(TranslationError, match="Pow"):
        run(lambda b, x: b.Pow(x, x), x)


@pytest.mark.parametrize("reduction, combine", [("max", np.maximum), ("min", np.minimum)])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint64])
def test_scatters_that_compare(
    dtype: type, reduction: str, combine: Callable[..., np.ndarray]
) -> None:
    x = np.array([0, 1, 1, 0, 200 % 256, 7]).astype(np.uint8).astype(dtype)
    updates = np.array([1, 0, 1, 0, 100, 130]).astype(np.uint8).astype(dtype)
    found = run(
        lambda b, x, y: b.ScatterElements(x, b.i64(range(6)), y, reduction=reduction), x, updates
    )
    equal(found, combine(x, updates))

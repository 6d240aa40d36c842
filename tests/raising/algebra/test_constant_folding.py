"""Constant folding: what it evaluates, and what it must leave to the runtime."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import static_shape
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants, FoldTopK
from hlo2onnx.targets import load_target

X = np.ones((4, 4), np.float32)


def folds(build: Callable[[GraphBuilder], oir.Value]) -> bool:
    """Whether a node that something reads is folded; the model's output would stay as it is."""
    model = model_of(lambda b: b.Identity(build(b)), {})
    return bool(apply_rules(model, [FoldConstants()], load_target("ort-cpu")))


def test_a_weight_is_transposed_once() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 2048)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.MatMul(b.Transpose(b.const(weight), perm=(1, 0)), x)

    rewrite = Rewrite(build, {"x": X}, FoldConstants())
    rewrite.gives("MatMul")
    assert len(rewrite.model.graph.initializers) == 1


def test_a_shared_weight_is_not_stored_twice() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 2048)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        w = b.const(weight)
        return [b.MatMul(b.Transpose(w, perm=(1, 0)), x), b.MatMul(x, w)]

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


def test_parameters_that_others_read_are_computed() -> None:
    scale = np.random.default_rng(0).standard_normal((1, 20000)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        y = b.expand(b.reshape(x, (16, 1)), (16, 20000))
        s, t = b.const(scale), b.const(scale + 1)
        return [b.Add(y, b.Mul(s, t)), b.Add(y, s), b.Add(y, t)]

    Rewrite(build, {"x": X}, FoldConstants()).gives("Reshape", "Expand", *3 * ["Add"])


def test_a_constant_does_not_grow_without_bound() -> None:
    column, row = (np.random.default_rng(0).normal(size=n).astype(np.float32) for n in (200, 100))

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        grown = b.Add(b.const(column.reshape(200, 1)), b.const(row))
        return b.MatMul(b.reshape(x, (1, 16)), b.slice(grown, [0], [16], axes=[0]))

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


def test_an_expanded_constant_stays_small() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.concat([b.reshape(x, (16,)), b.expand(b.const(np.float32(1)), (4096,))], 0)

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


def test_a_small_repeated_constant_that_nothing_broadcasts() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.MatMul(x, b.expand(b.const(np.full((1, 1), 2, np.float32)), (4, 4)))

    Rewrite(build, {"x": X}, FoldConstants()).gives("MatMul")


def test_scalar_arithmetic() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(x, b.Add(b.scalar_like(0.1, x), b.Neg(b.scalar_like(0.3, x))))

    Rewrite(build, {"x": X}, FoldConstants()).gives("Mul")


def test_float_to_integer_casts_are_left_to_the_runtime() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        big = b.Cast(b.const(np.array([3e9], np.float32)), to=oir.DataType.INT32)
        return b.Mul(b.Cast(big, to=oir.DataType.FLOAT), x)

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


def test_one_element_is_left_to_broadcasting() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(x, b.expand(b.const(np.float32(2)), (4, 4)))

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


INTEGERS = np.array([[7, -7, 0], [-(2**31), 2**31 - 1, 1]], np.int32)
FLOATS = np.array([[1.5, -0.0, 0.0], [np.nan, np.inf, -np.inf]], np.float32)
BOOLEANS = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("Abs", (INTEGERS,)),
        ("Clip", (INTEGERS, np.int32(-7), np.int32(1))),
        ("IsNaN", (FLOATS,)),
        ("And", (BOOLEANS, ~BOOLEANS)),
        ("BitwiseAnd", (INTEGERS, np.int32(-8))),
        ("BitwiseNot", (INTEGERS,)),
        ("BitwiseOr", (INTEGERS, np.int32(8))),
        ("BitwiseXor", (INTEGERS, INTEGERS[:, ::-1].copy())),
        ("Ceil", (FLOATS,)),
        ("Div", (INTEGERS, np.int32(-2))),
        ("Div", (FLOATS, FLOATS[:, ::-1].copy())),
        ("Equal", (FLOATS, FLOATS)),
        ("Equal", (BOOLEANS, np.array(True))),
        ("Greater", (INTEGERS, INTEGERS[:, ::-1].copy())),
        ("GreaterOrEqual", (FLOATS, np.float32(0))),
        ("Less", (FLOATS, np.float32(0))),
        ("LessOrEqual", (INTEGERS, np.int32(0))),
        ("Max", (INTEGERS, np.int32(1), np.int32(3))),
        ("Min", (INTEGERS, np.int32(1))),
        ("Not", (BOOLEANS,)),
        ("Or", (BOOLEANS, np.array(False))),
        ("Relu", (FLOATS,)),
        ("Round", (np.float32([[0.5, 1.5, -0.5], [2.5, -2.5, np.nan]]),)),
        ("Sign", (INTEGERS,)),
        ("Where", (BOOLEANS, FLOATS, np.float32(3))),
        ("Xor", (BOOLEANS, np.array(True))),
    ],
)
def test_elementwise(op_type: str, operands: tuple[np.ndarray, ...]) -> None:
    """Rewrite runs the operator and compares."""

    def build(b: GraphBuilder) -> oir.Value:
        return b.reshape(b.op(op_type, *map(b.const, operands)), (6,))

    def whole(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        return [b.Neg(x), b.Concat(build(b), build(b), axis=0)]

    rewrite = Rewrite(whole, {"x": X}, FoldConstants())
    assert op_type not in rewrite.nodes


BITS = np.array([[7, 2**31, 0], [2**32 - 1, 1, 2**16]], np.uint32)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("BitCast", (FLOATS,), {"to": oir.DataType.INT32}),
        ("BitShift", (BITS, np.uint32(31)), {"direction": "LEFT"}),
        ("BitShift", (BITS, np.uint32(3)), {"direction": "RIGHT"}),
        ("Gather", (FLOATS, np.array([2, -3])), {"axis": 1}),
        ("Mod", (INTEGERS, np.int32(3)), {}),
        ("Mod", (INTEGERS, np.int32(-3)), {"fmod": 1}),
        ("Mod", (FLOATS[0], np.float32(-2)), {"fmod": 1}),
    ],
)
def test_operators_of_an_attribute(
    op_type: str, operands: tuple[np.ndarray, ...], attributes: dict[str, Any]
) -> None:
    """Rewrite runs the operator and compares."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        result = b.op(op_type, *map(b.const, operands), **attributes)
        size = math.prod(static_shape(result) or ())
        return [b.Neg(x), b.Concat(*[b.reshape(result, (size,))] * 2, axis=0)]

    rewrite = Rewrite(build, {"x": X}, FoldConstants(), opset=26)
    assert op_type not in rewrite.nodes


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("BitShift", (BITS, np.uint32(32)), {"direction": "LEFT"}),
        ("BitShift", (INTEGERS, np.int32(1)), {"direction": "RIGHT"}),
        ("Gather", (FLOATS, np.array(2)), {"axis": 0}),
        ("Mod", (INTEGERS, np.int32(0)), {}),
        ("Mod", (INTEGERS, np.int32(-1)), {}),
        ("Mod", (FLOATS, np.float32(2)), {}),
    ],
)
def test_what_is_not_defined_is_not_folded(
    op_type: str, operands: tuple[np.ndarray, ...], attributes: dict[str, Any]
) -> None:
    assert not folds(lambda b: b.op(op_type, *map(b.const, operands), **attributes))


@pytest.mark.parametrize("divisor", [0, -1])
def test_divisions_that_trap_are_not_folded(divisor: int) -> None:
    assert not folds(lambda b: b.Div(b.const(INTEGERS), b.const(np.int32(divisor))))


def test_what_rounds_in_its_own_way_is_not_folded() -> None:
    halves = FLOATS.astype(np.float16)
    assert not folds(lambda b: b.Add(b.const(halves), b.const(halves)))
    assert not folds(lambda b: b.Exp(b.const(FLOATS.astype(np.float64))))


@pytest.mark.parametrize(("op_type", "zero"), [("Max", 0.0), ("Min", -0.0)])
def test_extremes_of_zeros_and_nan(op_type: str, zero: float) -> None:
    """As XLA has it: NaN stays, +0 is larger than -0."""
    zeros = np.array([0.0, -0.0, np.nan], np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Concat(x, b.op(op_type, b.const(zeros), b.const(zeros[[1, 0, 0]])), axis=0)

    model = model_of(build, {"x": np.ones(1, np.float32)})
    assert apply_rules(model, [FoldConstants()], load_target("ort-cpu"))["fold-constants"] == 1
    (concat,) = model.graph
    folded = concat.inputs[1]
    assert folded is not None
    assert folded.const_value is not None
    got = folded.const_value.numpy()
    np.testing.assert_array_equal(got, [zero, zero, np.nan])
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(np.float32([zero, zero])))


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [-1]])
def test_sums_are_rounded_once(op_type: str, keepdims: int, axes: list[int]) -> None:
    terms = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(
            b.reshape(x, (16, 1, 1)), b.op(op_type, b.const(terms), b.i64(axes), keepdims=keepdims)
        )

    rewrite = Rewrite(build, {"x": X}, FoldConstants(), tolerance=2e-6)
    assert op_type not in rewrite.nodes
    wide = terms.astype(np.float64)
    reduce = np.sum if op_type == "ReduceSum" else np.mean
    want = reduce(wide, axis=tuple(axes), keepdims=bool(keepdims)).astype(np.float32)  # type: ignore[operator]
    (folded,) = (
        tensor.const_value.numpy()
        for tensor in rewrite.model.graph.initializers.values()
        if tensor.dtype == oir.DataType.FLOAT and tensor.const_value is not None
    )
    np.testing.assert_array_equal(folded, want)


@pytest.mark.parametrize(
    "terms",
    [np.full((2, 2), -0.0, np.float32), np.zeros((0, 2), np.float32), np.ones((2, 2), np.float64)],
)
def test_sums_that_runtimes_may_see_otherwise_are_not_folded(terms: np.ndarray) -> None:
    assert not folds(lambda b: b.ReduceSum(b.const(terms), b.i64([0]), keepdims=0))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_sums_of_integers_wrap(dtype: type[np.integer]) -> None:
    """Not run: ORT's own integer sums saturate, which legalize sees to."""
    limits = np.iinfo(dtype)
    terms = np.array([[limits.max, 1], [3, limits.min]], dtype)
    model = model_of(
        lambda b, x: b.Add(x, b.ReduceSum(b.const(terms), b.i64([1]), keepdims=0)),
        {"x": np.zeros(2, dtype)},
    )
    assert apply_rules(model, [FoldConstants()], load_target("ort-cpu"))["fold-constants"] == 1
    (add,) = model.graph
    folded = add.inputs[1]
    assert folded is not None
    assert folded.const_value is not None
    wrapped = limits.min, limits.min + 3
    assert tuple(folded.const_value.numpy().tolist()) == wrapped


def test_means_of_integers_are_not_folded() -> None:
    assert not folds(lambda b: b.ReduceMean(b.const(INTEGERS), b.i64([0]), keepdims=0))


def test_an_expanded_kernel_is_a_weight() -> None:
    """The Reshape between Expand and Conv does not broadcast."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        image = b.reshape(x, (1, 4, 2, 2))
        kernel = np.arange(4, dtype=np.float32).reshape(1, 4)
        weight = b.reshape(b.expand(b.const(kernel), (4, 4)), (4, 1, 2, 2))
        return b.Conv(image, weight, group=4, kernel_shape=[2, 2])

    rewrite = Rewrite(build, {"x": X}, FoldConstants())
    assert "Expand" not in rewrite.nodes


def test_floats_in_range_become_integers() -> None:
    floats = np.array([2.75, -2.75, -0.0, 2147483520, -2147483648], np.float32)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        whole = b.Cast(b.const(floats), to=oir.DataType.INT32)
        return b.concat([b.Cast(x, to=oir.DataType.INT32), b.expand(whole, (1, 5))], 1)

    rewrite = Rewrite(build, {"x": np.ones((1, 4), np.float32)}, FoldConstants())
    assert rewrite.nodes["Cast"] == 1


@pytest.mark.parametrize("item", [np.nan, np.inf, 2147483648.0, -2147483904.0])
def test_floats_out_of_range_are_left_to_the_runtime(item: float) -> None:
    floats = np.array([item], np.float32)
    assert not folds(lambda b: b.Cast(b.const(floats), to=oir.DataType.INT32))


def top_k(
    x: np.ndarray, k: int, axis: int = -1, largest: int = 1, in_order: int = 1, **options: Any
) -> Rewrite:
    """TopK of a constant, and of the input's sum with it."""

    def build(b: GraphBuilder, x_in: oir.Value) -> list[oir.Value]:
        attributes = {"axis": axis, "largest": largest, "sorted": in_order}
        values, places = b.outputs("TopK", b.const(x), b.i64([k]), n_outputs=2, **attributes)
        return [b.Identity(values), b.Identity(places), b.Neg(x_in)]

    return Rewrite(build, {"x_in": X}, FoldTopK(), **options)


RANKED = np.array([[3, 1, 3, -7, 1], [0, 0, 5, 5, 5], [2, -(2**31), 2**31 - 1, 2, 2]])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("axis", "k"), [(-1, 5), (1, 2), (0, 3), (0, 1), (1, 0)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_the_largest_of_constants(dtype: Any, axis: int, k: int, largest: int) -> None:
    """Of equal elements the first one comes first, as in ONNX Runtime."""
    top_k(RANKED.astype(dtype), k, axis, largest).gives("Identity", "Identity", "Neg")


def test_zeros_are_equal() -> None:
    x = np.array([0.0, -0.0, 1, -0.0, 0.0, np.inf, -np.inf], np.float32)
    for largest in (0, 1):
        top_k(x, 7, largest=largest).gives("Identity", "Identity", "Neg")


@pytest.mark.parametrize(
    ("x", "in_order"),
    [
        (np.array([1, np.nan, 2], np.float32), 1),
        (np.array([3, 1, 2], np.int32), 0),
        (np.arange(5000, dtype=np.int32), 1),
    ],
)
def test_what_is_not_sorted_now(x: np.ndarray, in_order: int) -> None:
    top_k(x, 3, in_order=in_order).nothing()

"""Which expressions of constants have a value, and which constants are folded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, foreign, model_of
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.evaluator import MAX_ELEMENTS, MAX_STEPS, known_array
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.algebra.constant_folding import (
    COMPUTED_ELEMENTS,
    MOST_ELEMENTS,
    MOVED_ELEMENTS,
    FoldConstants,
)
from hlo2onnx.targets import load_target

X = np.ones((4, 4), np.float32)
T = oir.DataType


def value_of(build: Callable[[GraphBuilder, oir.Value], oir.Value]) -> np.ndarray | None:
    found: list[np.ndarray | None] = []

    def whole(b: GraphBuilder, x: oir.Value) -> oir.Value:
        made = build(b, x)
        found.append(known_array(made))
        return b.Identity(made)

    model_of(whole, {"x": X})
    return found[0]


def ramp(b: GraphBuilder, count: int) -> oir.Value:
    return b.const(np.arange(count, dtype=np.float32))


def negated(b: GraphBuilder, times: int) -> oir.Value:
    x = ramp(b, 3)
    for _ in range(times):
        x = b.Neg(x)
    return x


def diamond(b: GraphBuilder, x: oir.Value) -> oir.Value:
    y = b.Neg(ramp(b, 3))
    return b.Add(b.Mul(y, y), y)


def test_expressions_of_constants() -> None:
    np.testing.assert_array_equal(value_of(lambda b, x: ramp(b, 3)), [0, 1, 2])
    np.testing.assert_array_equal(value_of(diamond), [0, 0, 2])
    clipped = value_of(lambda b, x: b.Clip(ramp(b, 3), None, b.scalar(1, T.FLOAT)))
    assert clipped is None or clipped.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "build",
    [
        lambda b, x: x,
        lambda b, x: b.Neg(x),
        lambda b, x: b.Add(b.const(X), x),
        lambda b, x: b.MatMul(b.const(X), b.const(X)),
        lambda b, x: foreign(b.Neg(b.const(X))),
        lambda b, x: b.Neg(free(b, b.const(X), "n", 4)),
        lambda b, x: b.op("Neg", b.const(X), types=[(T.FLOAT, (oir.SymbolicDim("n"), 4))]),
        lambda b, x: b.Neg(b.Div(b.i64([1]), b.i64([0]))),
    ],
    ids=[
        "an input",
        "of it",
        "and it",
        "a product",
        "domain",
        "a free one",
        "free",
        "divided by 0",
    ],
)
def test_what_has_no_value(build: Callable[[GraphBuilder, oir.Value], oir.Value]) -> None:
    assert value_of(build) is None


def scattered(b: GraphBuilder, place: int, reduction: str | None = None) -> oir.Value:
    updates = b.const(np.array([9], np.float32))
    return b.ScatterND(ramp(b, 3), b.i64([[place]]), updates, reduction=reduction)


MOVED: dict[str, tuple[Callable[[GraphBuilder], oir.Value], list[float] | None]] = {
    "reflected": (lambda b: b.Pad(ramp(b, 3), b.i64([2, 1]), mode="reflect"), [2, 1, 0, 1, 2, 1]),
    "a number beside": (lambda b: b.Pad(ramp(b, 3), b.i64([1, 0])), None),
    "cut": (lambda b: b.Pad(ramp(b, 3), b.i64([-1, 0]), mode="edge"), None),
    "written": (lambda b: scattered(b, 1), [0, 9, 2]),
    "written from the end": (lambda b: scattered(b, -1), [0, 1, 9]),
    "written outside": (lambda b: scattered(b, 3), None),
    "added": (lambda b: scattered(b, 1, "add"), None),
    "every second": (
        lambda b: b.op(
            "Slice", ramp(b, 3), b.i64([0]), b.i64([3]), b.i64([0]), b.i64([2]),
            types=[(T.FLOAT, (2,))],
        ), [0, 2],
    ),
    "axes left out": (
        lambda b: b.op(
            "Slice", ramp(b, 3), b.i64([0]), b.i64([3]), None, b.i64([2]), types=[(T.FLOAT, (2,))]
        ), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_moved_constants(name: str) -> None:
    build, wanted = MOVED[name]
    found = value_of(lambda b, x: build(b))
    assert (None if found is None else found.tolist()) == wanted


def test_limits_of_expressions() -> None:
    assert value_of(lambda b, x: negated(b, MAX_STEPS)) is not None
    assert value_of(lambda b, x: negated(b, MAX_STEPS + 1)) is None
    one = lambda b, count: b.expand(b.const(np.ones(1, np.int8)), (count,))  # noqa: E731
    assert value_of(lambda b, x: one(b, MAX_ELEMENTS)) is not None
    assert value_of(lambda b, x: one(b, MAX_ELEMENTS + 1)) is None


# -- what is folded ------------------------------------------------------------


def folds(build: Build) -> bool:
    model = model_of(build, {"x": X})
    return bool(apply_rules(model, [FoldConstants()], load_target("ort-cpu")))


@pytest.mark.parametrize("extra", [0, 1])
def test_how_many_elements_are_moved(extra: int) -> None:
    count = MOVED_ELEMENTS + extra

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        table = ramp(b, 2 * count)
        part = b.slice(table, [count], [2 * count], axes=[0])
        return shared(b, x, part, table)

    assert folds(build) != bool(extra)


def shared(b: GraphBuilder, x: oir.Value, *operands: oir.Value) -> list[oir.Value]:
    """What others read, too."""
    number = b.ReduceMax(x, keepdims=1)
    return [b.Mul(operand, number) for operand in operands]


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("most", [COMPUTED_ELEMENTS, MOST_ELEMENTS])
def test_how_many_elements_are_computed(most: int, extra: int) -> None:
    """Up to the first limit always, up to the second where an operand has as many."""

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        if most == MOST_ELEMENTS:
            s, t = ramp(b, most + extra), b.const(np.ones(most + extra, np.float32))
        else:
            s, t = b.const(np.ones((2, 1), np.float32)), ramp(b, (most + 2 * extra) // 2)
        return shared(b, x, b.Add(s, t), s, t)

    assert folds(build) != bool(extra)


def test_a_constant_that_only_this_node_reads() -> None:
    """However large; a result of more elements is not folded."""

    def same(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        return shared(b, x, b.Add(ramp(b, MOST_ELEMENTS + 1), b.scalar(1, T.FLOAT)))

    def larger(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        column = b.const(np.ones((2, 1), np.float32))
        return shared(b, x, b.Add(ramp(b, COMPUTED_ELEMENTS), column))

    def indices(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        index = b.const(np.zeros(COMPUTED_ELEMENTS + 1, np.int64))
        return shared(b, x, b.Gather(ramp(b, 7), index, axis=0))

    assert folds(same)
    assert not folds(larger)
    assert not folds(indices)


def expanded(b: GraphBuilder, items: np.ndarray) -> oir.Value:
    return b.Expand(b.const(items), b.i64([4, 4]))


EXPANDED: dict[str, tuple[Build, bool]] = {
    "a product": (lambda b, x: b.MatMul(x, expanded(b, X[:1])), True),
    "elementwise": (lambda b, x: b.Add(x, expanded(b, X[:1])), False),
    "a choice": (lambda b, x: b.Where(b.IsNaN(x), x, expanded(b, X[:1])), False),
    "both": (lambda b, x: (lambda y: [b.MatMul(x, y), b.Add(x, y)])(expanded(b, X[:1])), False),
    "a view of it": (lambda b, x: b.Mul(x, b.Transpose(expanded(b, X[:1]), perm=(1, 0))), False),
    "a product of a view": (
        lambda b, x: b.MatMul(x, b.Transpose(expanded(b, X[:1]), perm=(1, 0))), True,
    ),
    "views": (
        lambda b, x: b.Abs(b.reshape(b.Transpose(expanded(b, X[:1]), perm=(1, 0)), (16,))), False,
    ),
    "a view that is a result": (
        lambda b, x: b.Transpose(expanded(b, X[:1]), perm=(1, 0)), False,
    ),
    "indices": (lambda b, x: b.Add(b.cast(x, T.INT32), expanded(b, np.ones(4, np.int32))), True),
    "an index": (lambda b, x: b.Add(b.cast(x, T.INT32), expanded(b, np.ones(1, np.int32))), False),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPANDED)
def test_expanded_constants(name: str) -> None:
    build, fires = EXPANDED[name]
    model = model_of(build, {"x": X})
    apply_rules(model, [FoldConstants()], load_target("ort-cpu"))
    assert all(node.op_type != "Expand" for node in model.graph) == fires


def test_an_expanded_constant_that_is_a_result_and_read() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        y = expanded(b, X[:1])
        return [y, b.MatMul(x, y)]

    assert not folds(build)


def test_free_shapes_and_computed_operands_are_not_folded() -> None:
    types = [(T.FLOAT, (oir.SymbolicDim("n"), 4))]
    assert not folds(lambda b, x: b.Abs(b.op("Neg", b.const(X), types=types)))
    assert not folds(lambda b, x: b.Add(x, b.const(X)))


def test_a_folded_constant_keeps_the_name_of_a_weight() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        weight = b.const(np.arange(16, dtype=np.float32).reshape(4, 4))
        weight.name = "kernel"
        return b.MatMul(x, b.Transpose(weight, perm=(1, 0)))

    model = model_of(build, {"x": X})
    assert apply_rules(model, [FoldConstants()], load_target("ort-cpu"))
    (product,) = model.graph
    constant = product.inputs[1]
    assert constant is not None and constant.name is not None


@pytest.mark.parametrize(
    ("source", "target", "fires"),
    [(T.INT32, T.BOOL, True), (T.BOOL, T.INT8, True), (T.INT32, T.DOUBLE, True),
     (T.INT32, T.UINT8, True), (T.INT32, T.FLOAT16, False), (T.INT64, T.BFLOAT16, False),
     (T.FLOAT, T.BFLOAT16, True), (T.DOUBLE, T.BFLOAT16, False), (T.FLOAT, T.BOOL, False)],
)  # fmt: skip
def test_which_casts_are_folded(source: T, target: T, fires: bool) -> None:
    """Those that numpy makes as every runtime does."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        constant = b.const(np.array([0, 1, 3]).astype(source.numpy()))
        return b.Identity(b.Cast(constant, to=target))

    assert folds(build) == fires


@pytest.mark.parametrize("source", ["INT2", "INT4", "UINT2", "UINT4"])
@pytest.mark.parametrize("target", ["INT4", "UINT4"])
def test_integers_of_fewer_than_8_bits_are_cast(source: str, target: str) -> None:
    """ml_dtypes has no casts between its own integers."""
    numbers = np.array([0, 1, 1]).astype(T[source].numpy())

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        cast = b.Cast(b.const(numbers), to=T[target])
        return b.Identity(b.Cast(cast, to=T.INT32))

    assert folds(build)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize(
    ("terms", "fires"),
    [([1, -1], True), ([0, 0], True), ([0, -1, 1], True), ([-0.0, 1], True), ([-1, -2], True),
     ([-0.0, -0.0], False), ([-0.0, 0], False), ([-0.0, 1, -1], False)],
)  # fmt: skip
def test_which_sums_are_folded(op_type: str, terms: list[float], fires: bool) -> None:
    """Of -0 among terms whose sum is 0 the sign is the runtime's."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Identity(b.op(op_type, b.const(np.array(terms, np.float32)), keepdims=0))

    assert folds(build) == fires

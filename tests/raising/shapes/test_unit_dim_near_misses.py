"""Near misses of the rules for axes of extent 1."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.shapes.reshape import SinkReshape
from hlo2onnx.raising.rules.shapes.unit_dims import (
    MAX_BETWEEN,
    ReduceDropUnitDims,
    ReduceKeepdims,
    ReduceMeanOperator,
    SqueezeBeforeTranspose,
    TransposeDropUnitDims,
)
from hlo2onnx.targets import load_target

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
T = oir.DataType


def six(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.reshape(x, (6, 4))


LATE: dict[str, tuple[Build, list[str] | None]] = {
    "a result": (lambda b, x: (lambda y: [y, b.Abs(y)])(six(b, x)), None),
    "read by two, joined": (lambda b, x: (lambda y: [b.Abs(y), b.Neg(y)])(six(b, x)), None),
    "read by two, units": (
        lambda b, x: (lambda y: [b.Abs(y), b.Neg(y)])(b.unsqueeze(x, [1])),
        ["Abs", "Neg", "Reshape", "Reshape"],
    ),
    "read by another": (
        lambda b, x: (lambda y: [b.Abs(y), b.MatMul(y, b.Transpose(y, perm=(0, 1, 3, 2)))])(
            b.unsqueeze(x, [1])
        ),
        None,
    ),
    "integers read by two": (
        lambda b, x: (lambda y: [b.Abs(y), b.Neg(y)])(b.unsqueeze(b.Cast(x, to=T.INT32), [1])),
        None,
    ),
    "read twice by one": (lambda b, x: (lambda y: b.Mul(y, y))(six(b, x)), ["Mul", "Reshape"]),
    "beside a number": (
        lambda b, x: b.Clip(six(b, x), b.scalar(0, T.FLOAT), b.scalar(5, T.FLOAT)),
        ["Clip", "Reshape"],
    ),
    "beside no lower bound": (
        lambda b, x: b.Clip(six(b, x), None, b.scalar(5, T.FLOAT)),
        ["Clip", "Reshape"],
    ),
    "beside a computed number": (
        lambda b, x: b.Mul(six(b, x), b.ReduceMax(x, keepdims=0)),
        ["Mul", "ReduceMax", "Reshape"],
    ),
    "beside a number with more axes": (
        lambda b, x: b.Mul(six(b, x), b.ReduceMax(x, keepdims=1)),
        None,
    ),
    "beside a number of a rank between": (
        lambda b, x: b.Mul(b.reshape(x, (2, 3, 2, 2)), b.reshape(b.ReduceMax(x), (1, 1, 1, 1))),
        None,
    ),
    "beside another view": (
        lambda b, x: b.Mul(six(b, x), b.reshape(b.reshape(x, (2, 12)), (6, 4))),
        None,
    ),
    "beside a larger view": (
        lambda b, x: b.Mul(b.reshape(x, (24,)), b.reshape(b.Abs(x), (24, 1))),
        None,
    ),
    "beside one with more axes": (
        lambda b, x: b.Add(
            b.unsqueeze(b.slice(x, [0], [1], axes=[0]), [0]), b.Expand(x, b.i64([5, 2, 3, 4]))
        ),
        None,
    ),
    "beside a constant with more axes": (
        lambda b, x: b.Add(six(b, x), b.const(np.ones((1, 6, 4), np.float32))),
        None,
    ),
    "beside columns": (
        lambda b, x: b.Add(b.reshape(x, (2, 12)), b.const(np.ones((2, 1), np.float32))),
        ["Add", "Reshape", "Reshape"],
    ),
    "beside rows": (
        lambda b, x: b.Add(b.reshape(x, (2, 12)), b.const(np.arange(12, dtype=np.float32))),
        ["Add", "Reshape", "Reshape"],
    ),
    "beside a vector that is split": (
        lambda b, x: b.Add(b.reshape(x, (2, 3, 2, 2)), b.const(np.arange(2, dtype=np.float32))),
        None,
    ),
    "beside a vector at the end": (
        lambda b, x: b.Add(six(b, x), b.const(np.arange(4, dtype=np.float32))),
        ["Add", "Reshape", "Reshape"],
    ),
    "beside rows that are joined": (
        lambda b, x: b.Add(six(b, x), b.const(np.arange(6, dtype=np.float32).reshape(6, 1))),
        ["Add", "Reshape", "Reshape"],
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_late_reshape(name: str) -> None:
    build, left = LATE[name]
    rewrite = Rewrite(build, {"x": CUBE}, SinkReshape())
    rewrite.nothing() if left is None else rewrite.gives(*left)


def test_late_reshape_beside_fewer_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.unsqueeze(y, [0]), x)

    inputs = {"x": CUBE, "y": CUBE[0]}
    Rewrite(build, inputs, SinkReshape()).nothing()
    Rewrite(build, {**inputs, "x": CUBE[0, 0]}, SinkReshape()).gives("Add", "Reshape")


@pytest.mark.parametrize("dims", [(1,), (1, 1), (1, 1, 1), (1, 1, 1, 1)])
def test_late_reshape_of_a_scalar(dims: tuple[int, ...]) -> None:
    """It broadcasts to any shape as a scalar, too."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.reshape(y, dims), x)

    inputs = {"x": CUBE[0, 0], "y": np.float32(7)}
    left = ["Add", "Reshape"] if len(dims) > 1 else ["Add"]
    Rewrite(build, inputs, SinkReshape()).gives(*left)
    for x in (CUBE, CUBE[0]):
        rewrite = Rewrite(build, {"x": x, "y": np.float32(7)}, SinkReshape())
        rewrite.gives(*(["Add", "Reshape"] if len(dims) > x.ndim else ["Add"]))


def summed(b: GraphBuilder, x: oir.Value, axes: list[int] | None = None) -> oir.Value:
    return b.ReduceSum(x, b.i64([1] if axes is None else axes), keepdims=0)


KEPT: dict[str, tuple[Build, list[str] | None]] = {
    "kept already": (
        lambda b, x: b.Neg(b.unsqueeze(b.ReduceSum(x, b.i64([1]), keepdims=1), [0])),
        None,
    ),
    "given": (lambda b, x: b.Neg(b.unsqueeze(x, [1])), None),
    "something else": (
        lambda b, x: b.Neg(b.unsqueeze(b.CumSum(x, b.scalar(1, T.INT64)), [1])),
        None,
    ),
    "of a Clip": (
        lambda b, x: b.Neg(b.unsqueeze(b.Clip(summed(b, x), b.scalar(0, T.FLOAT)), [1])),
        None,
    ),
    "beside another": (
        lambda b, x: b.Neg(
            b.unsqueeze(b.Add(summed(b, x), b.slice(b.reshape(x, (6, 4)), [0], [2], axes=[0])), [1])
        ),
        None,
    ),
    "beside a smaller one": (
        lambda b, x: b.Neg(
            b.unsqueeze(
                b.Add(summed(b, x), b.ReduceSum(b.reshape(x, (6, 4)), b.i64([0]), keepdims=0)), [1]
            )
        ),
        None,
    ),
    "beside a number": (
        lambda b, x: b.Neg(b.unsqueeze(b.Add(summed(b, x), b.ReduceMax(x, keepdims=0)), [1])),
        ["ReduceSum", "ReduceMax", "Add", "Neg"],
    ),
    "an axis from the end": (
        lambda b, x: b.Neg(b.unsqueeze(summed(b, x, [-2]), [1])),
        ["ReduceSum", "Neg"],
    ),
    "two axes, not in order": (
        lambda b, x: b.Neg(b.unsqueeze(summed(b, x, [2, 0]), [0, 2])),
        ["ReduceSum", "Neg"],
    ),
    "a scalar": (lambda b, x: b.Neg(b.reshape(summed(b, x, [0, 1, 2]), (1, 1, 1))), None),
    "computed axes": (
        lambda b, x: b.Neg(
            b.unsqueeze(
                b.op("ReduceSum", x, b.Abs(b.i64([1])), keepdims=0, types=[(x.dtype, (2, 4))]), [1]
            )
        ),
        None,
    ),
    "twice the same": (
        lambda b, x: (lambda y: b.Neg(b.unsqueeze(b.Mul(y, b.Abs(y)), [1])))(summed(b, x)),
        ["ReduceSum", "Abs", "Mul", "Neg"],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_keep_reduced_axes(name: str) -> None:
    build, left = KEPT[name]
    rewrite = Rewrite(build, {"x": CUBE}, ReduceKeepdims())
    if left is None:
        rewrite.nothing()
    else:
        assert rewrite.fired
        found = [op for op in rewrite.nodes.elements() if op != "Identity"]
        assert sorted(found) == sorted(left)


@pytest.mark.parametrize("beyond", [0, 1])
def test_how_much_lies_between(beyond: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = summed(b, x)
        for _ in range(MAX_BETWEEN + beyond):
            y = b.Neg(y)
        return b.Abs(b.unsqueeze(y, [1]))

    assert bool(Rewrite(build, {"x": CUBE}, ReduceKeepdims()).fired) != bool(beyond)


MOVES: dict[str, tuple[Build, list[str] | None]] = {
    "split": (lambda b, x: b.Transpose(b.reshape(x, (2, 3, 1, 2, 2)), perm=(1, 0, 3, 2, 4)), None),
    "more at the end": (
        lambda b, x: b.Transpose(b.reshape(x, (2, 3, 4, 1)), perm=(1, 3, 0, 2)),
        ["Transpose", "Reshape"],
    ),
    "more in front": (
        lambda b, x: b.Transpose(b.reshape(x, (1, 1, 2, 3, 4)), perm=(3, 0, 2, 1, 4)),
        ["Transpose", "Reshape"],
    ),
    "cut short": (lambda b, x: b.Transpose(b.reshape(x, (2, 1, 12)), perm=(2, 0, 1)), None),
    "of as many": (lambda b, x: b.Transpose(b.reshape(x, (4, 3, 2)), perm=(2, 0, 1)), None),
    "of more": (lambda b, x: b.Transpose(b.reshape(x, (3, 2, 1, 4)), perm=(2, 0, 1, 3)), None),
    "split at the end": (
        lambda b, x: b.Transpose(b.reshape(x, (2, 3, 2, 2)), perm=(2, 0, 1, 3)),
        None,
    ),
    "given": (lambda b, x: b.Transpose(x, perm=(2, 0, 1)), None),
}


@pytest.mark.parametrize("name", MOVES)
def test_transpose_without_units(name: str) -> None:
    build, left = MOVES[name]
    rewrite = Rewrite(build, {"x": CUBE}, TransposeDropUnitDims())
    rewrite.nothing() if left is None else rewrite.gives(*left)


@pytest.mark.parametrize(
    ("perm", "dims"), [((0, 3, 1, 2), (6, 4)), ((3, 1, 2, 0), (4, 6)), ((1, 2, 0, 3), (6, 1, 4))]
)
def test_squeeze_before_transpose(perm: tuple[int, ...], dims: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.Transpose(b.Abs(x), perm=perm), dims)

    rewrite = Rewrite(build, {"x": CUBE.reshape(1, 6, 1, 4)}, SqueezeBeforeTranspose())
    moves = ["Transpose"] * (dims == (4, 6))
    rewrite.gives("Abs", "Reshape", *moves) if rewrite.fired else rewrite.nothing()
    assert rewrite.fired or dims == (6, 4)


REDUCED: dict[str, tuple[Build, list[str] | None]] = {
    "given": (lambda b, x: b.ReduceSum(x, b.i64([1]), keepdims=0), None),
    "dropped": (
        lambda b, x: b.Neg(
            b.ReduceMax(b.squeeze(b.unsqueeze(x, [0]), [0]), b.i64([1]), keepdims=0)
        ),
        ["ReduceMax", "Neg", "Reshape", "Reshape"],
    ),
    "in another order": (
        lambda b, x: b.Neg(b.ReduceSum(b.reshape(x, (3, 1, 2, 4)), b.i64([0]), keepdims=0)),
        None,
    ),
    "two axes": (
        lambda b, x: b.Neg(b.ReduceSum(b.reshape(x, (2, 1, 3, 4)), b.i64([0, 2]), keepdims=0)),
        ["ReduceSum", "Reshape", "Neg"],
    ),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reduce_without_units(name: str) -> None:
    build, left = REDUCED[name]
    rewrite = Rewrite(build, {"x": CUBE}, ReduceDropUnitDims())
    rewrite.nothing() if left is None else rewrite.gives(*left)


MEANS: dict[str, tuple[Build, bool]] = {
    "kept": (
        lambda b, x: b.Div(b.ReduceSum(x, b.i64([0, 2]), keepdims=1), b.scalar_like(8, x)),
        True,
    ),
    "all": (lambda b, x: b.Div(b.ReduceSum(x, keepdims=0), b.scalar_like(24, x)), True),
    "no axis": (
        lambda b, x: b.Div(
            b.op("ReduceSum", x, noop_with_empty_axes=1, types=[(x.dtype, x.shape)]),
            b.scalar_like(24, x),
        ),
        False,
    ),
    "a number with axes": (
        lambda b, x: b.Div(summed(b, x), b.const(np.full((1, 1), 3, np.float32))),
        True,
    ),
    "several numbers": (
        lambda b, x: b.Div(summed(b, x), b.const(np.full((4,), 3, np.float32))),
        False,
    ),
    "a maximum": (
        lambda b, x: b.Div(b.ReduceMax(x, b.i64([1]), keepdims=0), b.scalar_like(3, x)),
        False,
    ),
    "given": (lambda b, x: b.Div(x, b.scalar_like(3, x)), False),
    "of no terms": (
        lambda b, x: b.Div(summed(b, b.slice(x, [0], [0], axes=[1])), b.scalar_like(0, x)),
        False,
    ),
    "a computed number": (
        lambda b, x: b.Div(summed(b, x), b.Abs(b.scalar_like(3, x))),
        False,
    ),
}


@pytest.mark.parametrize("name", MEANS)
def test_means(name: str) -> None:
    build, fires = MEANS[name]
    model = model_of(lambda b, x: b.Neg(build(b, x)), {"x": CUBE})  # type: ignore[arg-type]
    assert bool(apply_rules(model, [ReduceMeanOperator()], load_target("ort-cpu"))) == fires
    found = sum(node.op_type == "ReduceMean" for node in model.graph)
    assert found == fires


@pytest.mark.parametrize(("axis", "fires"), [(0, True), (1, False)])
def test_means_over_a_free_axis(axis: int, fires: bool) -> None:
    """The number is that of its rows, and there may be none."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        count = b.cast(b.extents.scalar(x.shape[axis]), T.FLOAT)  # type: ignore[index]
        return b.Neg(b.Div(b.ReduceSum(x, b.i64([0]), keepdims=0), count))

    dims = {"x": (symbol("n", positive=True), symbol("m", positive=True), 4)}
    model = model_of(build, {"x": CUBE}, dims=dims)
    assert bool(apply_rules(model, [ReduceMeanOperator()], load_target("ort-cpu"))) == fires

"""Reshapes move towards their readers, and reductions keep their axes, where that is legal."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes, EliminateNop, SinkReshape
from hlo2onnx.raising.rules.shapes.unit_dims import (
    ReduceDropUnitDims,
    ReduceKeepdims,
    ReduceMeanOperator,
    TransposeDropUnitDims,
)

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
CLEAN = (ComposeReshapes(), EliminateNop(), FoldConstants())


@pytest.mark.parametrize("op_type", ["Neg", "Cast"])
def test_late_reshape_meets_another(op_type: str) -> None:
    to = {"to": oir.DataType.DOUBLE} if op_type == "Cast" else {}

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Transpose(
            b.reshape(b.op(op_type, b.reshape(x, (6, 4)), **to), (4, 6)), perm=(1, 0)
        )

    Rewrite(build, {"x": CUBE}, SinkReshape(), *CLEAN).gives(op_type, "Reshape", "Transpose")


def test_late_reshape_meets_its_inverse() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Abs(b.squeeze(b.Neg(b.unsqueeze(x, [0])), [0]))

    Rewrite(build, {"x": CUBE}, SinkReshape(), *CLEAN).gives("Abs", "Neg")


def test_late_reshape_of_two_alike() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.reshape(b.Add(b.reshape(x, (24,)), b.reshape(y, (24,))), (2, 3, 4))

    Rewrite(build, {"x": CUBE, "y": CUBE * 2}, SinkReshape(), *CLEAN).gives("Add")


@pytest.mark.parametrize("size", [5, 5000])
def test_late_reshape_leaves_constants_alone(size: int) -> None:
    """Two constants do not take each other's shape in turns, folded or too large for that."""
    mask = (np.arange(size) % 3 == 0).reshape(size, 1, 1)
    numbers = np.arange(size, dtype=np.float32).reshape(size, 1)

    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        one, other = b.const(mask), b.const(numbers)
        same = b.op("Reshape", one, b.i64([size, 1]))
        # Large constants that others read, too, stay as they are.
        return [b.reshape(b.Where(same, other, x), (size, 1, 1)), b.Not(one), b.Abs(other)]

    run = Rewrite(build, {"x": np.array(3, np.float32)}, SinkReshape(), *CLEAN)
    assert run.fired["sink-reshape"] == 0


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (1, 1), (2, 1, 1), (4,)])
def test_late_reshape_beside_a_constant(shape: tuple[int, ...]) -> None:
    constant = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.reshape(b.Mul(b.reshape(x, (2, 3, 4)), b.const(constant)), (2, 12))

    rewrite = Rewrite(build, {"x": CUBE.reshape(2, 12)}, SinkReshape(), *CLEAN)
    if shape == (4,):
        rewrite.nothing()
    else:
        rewrite.gives("Mul")


def test_late_reshape_of_leading_axes_beside_anything() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.squeeze(b.Sub(b.unsqueeze(x, [0, 1]), y), [0, 1])

    Rewrite(build, {"x": ROWS, "y": ROWS[:, :1]}, SinkReshape(), *CLEAN).gives("Sub")


def test_late_reshape_needs_an_operand_of_the_shape_before() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.reshape(b.Add(b.reshape(x, (6, 4)), y), (24,))

    Rewrite(build, {"x": CUBE, "y": CUBE[0, 0]}, SinkReshape(), *CLEAN).nothing()


def test_keep_reduced_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        total = b.ReduceSum(x, b.i64([1]), keepdims=0)
        lowest = b.ReduceMin(x, b.i64([1]), keepdims=0)
        return b.Sub(x, b.unsqueeze(b.Mul(b.Div(total, b.scalar_like(3, x)), lowest), [1]))

    nodes = "ReduceSum", "ReduceMin", "Div", "Mul", "Sub"
    Rewrite(build, {"x": CUBE}, ReduceKeepdims(), *CLEAN).gives(*nodes)


def test_keep_reduced_axes_leaves_further_leading_axes_to_a_reshape() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.unsqueeze(b.ReduceMax(x, b.i64([2]), keepdims=0), [0, 3]))

    Rewrite(build, {"x": CUBE}, ReduceKeepdims()).gives("ReduceMax", "Reshape", "Neg")


@pytest.mark.parametrize("axis", [0, 2])
def test_keep_reduced_axes_needs_the_axes_reduced(axis: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.unsqueeze(b.ReduceSum(x, b.i64([1]), keepdims=0), [axis]))

    Rewrite(build, {"x": CUBE}, ReduceKeepdims()).nothing()


def test_keep_reduced_axes_of_different_reductions() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        rows = b.ReduceSum(x, b.i64([0]), keepdims=0)
        columns = b.ReduceSum(x, b.i64([1]), keepdims=0)
        return b.Neg(b.unsqueeze(b.Add(rows, columns), [0]))

    Rewrite(build, {"x": CUBE[:, :2, :2]}, ReduceKeepdims()).nothing()


def test_transpose_without_units() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.squeeze(b.Transpose(b.unsqueeze(x, [1]), perm=(2, 0, 3, 1)), [3])

    Rewrite(build, {"x": CUBE}, TransposeDropUnitDims(), *CLEAN).gives("Transpose")


@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduce_without_units(keepdims: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.unsqueeze(x, [1])
        return b.Neg(b.ReduceSum(y, b.i64([1, 3]), keepdims=keepdims))

    expected = ["ReduceSum", "Neg"] + ["Reshape"] * keepdims
    Rewrite(build, {"x": CUBE}, ReduceDropUnitDims()).gives(*expected)


def test_reduce_over_units_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Neg(b.ReduceMax(b.unsqueeze(x, [1]), b.i64([1]), keepdims=0))

    Rewrite(build, {"x": CUBE}, ReduceDropUnitDims()).gives("Neg")


@pytest.mark.parametrize(
    ("divisor", "dtype", "fires"), [(8, "f4", True), (4, "f4", False), (8, "i4", False)]
)
def test_mean(divisor: float, dtype: str, fires: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        total = b.ReduceSum(x, b.i64([0, 2]), keepdims=0)
        return b.Neg(b.Div(total, b.scalar_like(divisor, x)))

    rewrite = Rewrite(build, {"x": CUBE.astype(dtype)}, ReduceMeanOperator())
    if fires:
        rewrite.gives("ReduceMean", "Neg")
    else:
        rewrite.nothing()


def test_longer_axes_in_front_of_an_empty_tensor() -> None:
    """Only axes of extent 1 may stay away from a sum with a row."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Neg(b.Add(b.reshape(x, (5, 0, 3)), b.Abs(y)))

    inputs = {"x": np.zeros((0, 3), np.float32), "y": np.ones((1, 3), np.float32)}
    Rewrite(build, inputs, SinkReshape()).nothing()

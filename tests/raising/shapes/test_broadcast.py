"""Each broadcast rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.broadcast import (
    ImplicitBroadcast,
    SinkBroadcast,
    SinkSqueeze,
)
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes, EliminateNop

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.array([[1, 2, 3]], np.float32)
VECTOR = np.array([1, 2, 3], np.float32)


def test_implicit_broadcast() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.expand(y, (2, 3)), x)

    Rewrite(build, {"x": MATRIX, "y": ROW}, ImplicitBroadcast()).gives("Add")


def test_implicit_broadcast_in_where() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Where(b.Less(x, b.expand(y, (2, 3))), x, b.expand(y, (2, 3)))

    Rewrite(build, {"x": MATRIX, "y": ROW}, ImplicitBroadcast()).gives("Less", "Where")


def test_implicit_broadcast_must_keep_the_shape() -> None:
    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        return b.Mul(b.expand(y, (2, 3)), y)

    Rewrite(build, {"y": ROW}, ImplicitBroadcast()).nothing()


def test_late_broadcast() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Mul(b.Exp(b.expand(y, (2, 3))), x)

    inputs = {"x": MATRIX, "y": ROW}
    Rewrite(build, inputs, SinkBroadcast(), ImplicitBroadcast()).gives("Exp", "Mul")


def test_late_broadcast_of_two_operands() -> None:
    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        return b.Add(b.expand(y, (2, 3)), b.expand(y, (2, 3)))

    Rewrite(build, {"y": ROW}, SinkBroadcast()).gives("Add", "Expand")


def test_late_broadcast_leaves_full_operands_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Exp(x)

    Rewrite(build, {"x": MATRIX}, SinkBroadcast()).nothing()


def test_implicit_leading_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        return b.Add(x, b.reshape(v, (1, 3)))

    Rewrite(build, {"x": MATRIX, "v": VECTOR}, ImplicitBroadcast()).gives("Add")


def test_implicit_leading_axes_must_not_drop_inner_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        return b.Add(x, b.reshape(v, (3, 1)))

    square = np.ones((3, 3), np.float32)
    Rewrite(build, {"x": square, "v": VECTOR}, ImplicitBroadcast()).nothing()


def test_implicit_leading_axes_must_keep_the_rank() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.Add(b.reshape(v, (1, 3)), b.scalar_like(1, v))

    Rewrite(build, {"v": VECTOR}, ImplicitBroadcast()).nothing()


def squeezed(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.reshape(x, (3,))


def test_late_squeeze_meets_its_inverse() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        one, other = squeezed(b, x), squeezed(b, y)
        product = b.Mul(b.scalar_like(2, x), b.Add(b.Sin(one), b.Mul(one, other)))
        return b.reshape(product, (1, 3))

    rules = SinkSqueeze(), ComposeReshapes(), EliminateNop()
    Rewrite(build, {"x": ROW, "y": ROW}, *rules).gives("Sin", "Mul", "Add", "Mul")


def test_late_squeeze_vanishes_beside_an_operand_with_the_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(x, squeezed(b, y))

    Rewrite(build, {"x": MATRIX, "y": ROW}, SinkSqueeze()).gives("Add")


def test_late_squeeze_beside_a_vector() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Less(x, squeezed(b, y))

    Rewrite(build, {"x": VECTOR, "y": ROW}, SinkSqueeze()).gives("Less", "Reshape")


def test_late_squeeze_leaves_what_others_read() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        vector = squeezed(b, x)
        return [b.Sin(vector), b.ReduceMax(vector, b.i64([0]), keepdims=0)]

    Rewrite(build, {"x": ROW}, SinkSqueeze()).nothing()


@pytest.mark.parametrize("dims", [(3, 1), (1, 3, 1)])
def test_late_squeeze_leaves_other_axes(dims: tuple[int, ...]) -> None:
    """A scalar beside a last axis of 1 would be broadcast element by element."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sin(squeezed(b, x))

    Rewrite(build, {"x": VECTOR.reshape(dims)}, SinkSqueeze()).nothing()


def test_late_squeeze_leaves_scalars() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sin(b.reshape(x, ()))

    Rewrite(build, {"x": VECTOR[:1]}, SinkSqueeze()).nothing()


def test_scalar_constant() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Where(b.Less(x, b.const(np.float32([[2]]))), b.const(np.float32([0])), x)

    rewrite = Rewrite(build, {"x": MATRIX}, ImplicitBroadcast())
    rewrite.gives("Less", "Where")
    used = {x for node in rewrite.model.graph for x in node.inputs if x is not None}
    assert {len(x.shape) for x in used if x.const_value is not None and x.shape is not None} == {0}


@pytest.mark.parametrize(
    ("x", "constant"),
    [
        pytest.param(VECTOR, np.float32([[2]]), id="decides the rank"),
        pytest.param(MATRIX, np.float32([[1, 2, 3]]), id="several numbers"),
        pytest.param(MATRIX, np.float32(2), id="a scalar"),
    ],
)
def test_other_constants_stay(x: np.ndarray, constant: np.ndarray) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Mul(x, b.const(constant))

    Rewrite(build, {"x": x}, ImplicitBroadcast()).nothing()


# -- near misses ------------------------------------------------------------


def test_an_expand_beside_a_full_operand_does_not_move_on() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.expand(y, (2, 3)), x)

    Rewrite(build, {"x": MATRIX, "y": ROW}, SinkBroadcast()).nothing()


def test_a_new_axis_moves_on() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.Abs(b.Sin(b.expand(v, (2, 3))))

    Rewrite(build, {"v": VECTOR}, SinkBroadcast()).gives("Sin", "Abs", "Expand")


@pytest.mark.parametrize(("dims", "fires"), [(("n", 1), True), ((3,), False), (("m", 3), False)])
def test_how_often_is_free(dims: tuple[int | str, ...], fires: bool) -> None:
    """An Expand that needs to know it stays where it is."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        part = b.slice(x, [0], [1], axes=[1]) if dims == ("n", 1) else x
        part = b.reshape(b.slice(x, [0], [1], axes=[0]), (3,)) if dims == (3,) else part
        types = [(x.dtype, (oir.SymbolicDim("n"), 3))]
        wide = b.op("Expand", free(b, part, *dims), b.i64([2, 3]), types=types)
        return b.Abs(b.Sin(wide))

    rewrite = Rewrite(build, {"x": MATRIX}, SinkBroadcast())
    assert bool(rewrite.fired) == fires


def test_only_what_is_not_needed_goes() -> None:
    """One of two that are expanded has to stay."""

    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        return b.Add(b.expand(y, (2, 3)), b.expand(b.Neg(y), (2, 3)))

    Rewrite(build, {"y": ROW}, ImplicitBroadcast()).gives("Add", "Expand", "Neg")


@pytest.mark.parametrize("op_type", ["Unsqueeze", "Reshape"])
def test_leading_axes_of_several_operands(op_type: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        axes = b.i64([0]) if op_type == "Unsqueeze" else b.i64([1, 3])
        row = b.op(op_type, v, axes)
        return b.Where(b.Less(row, x), x, row)

    Rewrite(build, {"x": MATRIX, "v": VECTOR}, ImplicitBroadcast()).gives("Less", "Where")


def test_what_does_not_add_leading_axes_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> list[oir.Value]:
        return [
            b.Mul(x, b.Abs(v)),
            b.Sub(x, b.reshape(x, (1, 2, 3))),
        ]

    Rewrite(build, {"x": MATRIX, "v": VECTOR}, ImplicitBroadcast()).nothing()


def test_late_squeeze_leaves_results() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        vector = squeezed(b, x)
        return [vector, b.Sin(vector)]

    Rewrite(build, {"x": ROW}, SinkSqueeze()).nothing()


@pytest.mark.parametrize("op_type", ["Reshape", "Squeeze"])
def test_late_squeeze_passes_with_reshapes_and_elementwise_operators(op_type: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        vector = b.op(op_type, x, b.i64([3] if op_type == "Reshape" else [0]))
        return [
            b.Abs(b.Sin(vector)),
            b.Abs(b.reshape(vector, (3, 1))),
            b.Abs(b.Mul(vector, vector)),
        ]

    Rewrite(build, {"x": ROW}, SinkSqueeze()).gives(
        "Sin", *["Abs"] * 3, "Mul", op_type, "Reshape", "Reshape", "Reshape"
    )


def test_late_squeeze_leaves_what_is_reshaped_otherwise() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        return [b.Sin(b.reshape(x, (3, 2))), b.Sin(b.reshape(x, (1, 2, 3))), b.Sin(b.Abs(x))]

    Rewrite(build, {"x": MATRIX}, SinkSqueeze()).nothing()


def test_late_squeeze_beside_more_axes_stays() -> None:
    """The axis that the Reshape drops is that of another operand's rows."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Abs(b.Add(b.reshape(x, (1, 3)), y))

    Rewrite(build, {"x": ROW[None], "y": MATRIX}, SinkSqueeze()).gives("Add", "Abs", "Reshape")


def test_late_squeeze_of_free_shapes_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        row = free(b, x, 1, "n")
        return b.Sin(b.op("Reshape", row, b.i64([-1]), types=[(x.dtype, (row.shape[1],))]))

    Rewrite(build, {"x": ROW}, SinkSqueeze()).nothing()


def test_one_expanded_operand_moves_on() -> None:
    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        return b.Mul(b.expand(y, (2, 3)), y)

    Rewrite(build, {"y": ROW}, SinkBroadcast()).gives("Mul", "Expand")


def test_late_squeeze_of_columns_beside_a_matrix_stays() -> None:
    """(3, 1) broadcasts along the other axis than (3,)."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        same = b.Reshape(y, b.i64([3, 3]))
        return [b.Abs(b.Add(squeezed(b, x), y)), b.Abs(b.Sin(same))]

    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    Rewrite(build, {"x": VECTOR.reshape(3, 1), "y": square}, SinkSqueeze()).nothing()


def test_extents_that_may_not_fit_stay() -> None:
    """Without the Expand, nobody knows whether n and k broadcast, or to what."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        k = (oir.SymbolicDim("k"),)
        expanded = b.op("Expand", free(b, x, "n"), b.Shape(y), types=[(x.dtype, k)])
        return b.Neg(b.Add(expanded, free(b, y, "k")))

    inputs = {"x": np.ones(1, np.float32), "y": np.ones(3, np.float32)}
    Rewrite(build, inputs, SinkBroadcast(), ImplicitBroadcast()).nothing()

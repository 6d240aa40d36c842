"""Each broadcast rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.broadcast import (
    ImplicitBroadcast,
    ImplicitLeadingAxes,
    LateBroadcast,
    LateSqueeze,
    ScalarConstant,
)
from hlo2onnx.raising.rules.shape import ComposeReshapes, DropIdentity

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
    Rewrite(build, inputs, LateBroadcast(), ImplicitBroadcast()).gives("Exp", "Mul")


def test_late_broadcast_of_two_operands() -> None:
    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        return b.Add(b.expand(y, (2, 3)), b.expand(y, (2, 3)))

    Rewrite(build, {"y": ROW}, LateBroadcast()).gives("Add", "Expand")


def test_late_broadcast_leaves_full_operands_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Exp(x)

    Rewrite(build, {"x": MATRIX}, LateBroadcast()).nothing()


def test_implicit_leading_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        return b.Add(x, b.reshape(v, (1, 3)))

    Rewrite(build, {"x": MATRIX, "v": VECTOR}, ImplicitLeadingAxes()).gives("Add")


def test_implicit_leading_axes_must_not_drop_inner_axes() -> None:
    def build(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        return b.Add(x, b.reshape(v, (3, 1)))

    square = np.ones((3, 3), np.float32)
    Rewrite(build, {"x": square, "v": VECTOR}, ImplicitLeadingAxes()).nothing()


def test_implicit_leading_axes_must_keep_the_rank() -> None:
    def build(b: GraphBuilder, v: oir.Value) -> oir.Value:
        return b.Add(b.reshape(v, (1, 3)), b.scalar_like(1, v))

    Rewrite(build, {"v": VECTOR}, ImplicitLeadingAxes()).nothing()


def squeezed(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.reshape(x, (3,))


def test_late_squeeze_meets_its_inverse() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        one, other = squeezed(b, x), squeezed(b, y)
        product = b.Mul(b.scalar_like(2, x), b.Add(b.Sin(one), b.Mul(one, other)))
        return b.reshape(product, (1, 3))

    rules = LateSqueeze(), ComposeReshapes(), DropIdentity()
    Rewrite(build, {"x": ROW, "y": ROW}, *rules).gives("Sin", "Mul", "Add", "Mul")


def test_late_squeeze_vanishes_beside_an_operand_with_the_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(x, squeezed(b, y))

    Rewrite(build, {"x": MATRIX, "y": ROW}, LateSqueeze()).gives("Add")


def test_late_squeeze_beside_a_vector() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Less(x, squeezed(b, y))

    Rewrite(build, {"x": VECTOR, "y": ROW}, LateSqueeze()).gives("Less", "Reshape")


def test_late_squeeze_leaves_what_others_read() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        vector = squeezed(b, x)
        return [b.Sin(vector), b.ReduceMax(vector, b.i64([0]), keepdims=0)]

    Rewrite(build, {"x": ROW}, LateSqueeze()).nothing()


@pytest.mark.parametrize("dims", [(3, 1), (1, 3, 1)])
def test_late_squeeze_leaves_other_axes(dims: tuple[int, ...]) -> None:
    """A scalar beside a last axis of 1 would be broadcast element by element."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sin(squeezed(b, x))

    Rewrite(build, {"x": VECTOR.reshape(dims)}, LateSqueeze()).nothing()


def test_late_squeeze_leaves_scalars() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Sin(b.reshape(x, ()))

    Rewrite(build, {"x": VECTOR[:1]}, LateSqueeze()).nothing()


def test_scalar_constant() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Where(b.Less(x, b.const(np.float32([[2]]))), b.const(np.float32([0])), x)

    rewrite = Rewrite(build, {"x": MATRIX}, ScalarConstant())
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

    Rewrite(build, {"x": x}, ScalarConstant()).nothing()

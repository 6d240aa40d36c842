"""Each broadcast rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.broadcast import ImplicitBroadcast, ImplicitLeadingAxes, LateBroadcast

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

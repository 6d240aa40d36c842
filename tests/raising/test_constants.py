"""Constant folding: what it evaluates, and what it must leave to the runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.constants import FoldConstants

X = np.ones((4, 4), np.float32)


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


def test_an_expanded_constant_stays_small() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.concat([b.reshape(x, (16,)), b.expand(b.const(np.float32(1)), (4096,))], 0)

    Rewrite(build, {"x": X}, FoldConstants()).nothing()


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

"""The rules on neural networks where an extent is not known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.ir.values import Dim, Shape
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.raising.rules.nn.channel_normalization import GroupNormalization
from hlo2onnx.raising.rules.nn.matmul import Gemm
from hlo2onnx.raising.rules.nn.resize import NearestResize
from hlo2onnx.targets import load_target

K = symbol("k", positive=True)


def fires(build: Build, rule: Rule, dims: Mapping[str, Shape]) -> bool:
    """Whether a rule fires on a graph over inputs of these shapes: indices `i`, others of f32."""
    inputs = {
        name: np.zeros([1] * len(shape), np.int64 if name == "i" else np.float32)
        for name, shape in dims.items()
    }
    return bool(apply_rules(model_of(build, inputs, dims=dims), [rule], load_target("ort-cpu")))


@pytest.mark.parametrize(
    ("x", "w", "expected"),
    [((5, 4), (4, 3), True), ((K, 4), (4, 3), True), ((5, K), (K, 3), False)],
)
def test_a_gemm_has_something_to_add_up(x: Shape, w: Shape, expected: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, w: oir.Value, c: oir.Value) -> oir.Value:
        return b.Neg(b.Add(b.MatMul(x, w), c))

    assert fires(build, Gemm(), {"x": x, "w": w, "c": (3,)}) == expected


def test_groups_whose_number_is_not_known() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        beside = b.reshape(b.expand(y, (2, K, 3)), (2, 6, 1, 1))
        return b.Mul(b.Sub(x, beside), b.Exp(x))

    assert not fires(build, GroupNormalization(), {"x": (2, 6, 4, 5), "y": (2, K, 1)})


@pytest.mark.parametrize(("rows", "count"), [(4, K), (K, 8)])
def test_rows_whose_number_is_not_known(rows: Dim, count: Dim) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(b.Gather(x, i, axis=2), b.i64([0, 0, 1, 1, 2, 2]), axis=3)

    assert not fires(build, NearestResize(), {"x": (1, 3, rows, 3), "i": (count,)})

"""Negatives in products, and absolute values of what has no sign."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.signs import has_no_sign

T = oir.DataType
Value = oir.Value
ROWS = np.array(
    [[0.5, -3, 0.25], [1, 0, 0], [np.nan, 0, 0], [2, np.nan, 0], [np.inf, 1, 1], [0.25, 0, -0.0]],
    np.float32,
)
EDGES = np.array(
    [0.0, -0.0, 1e-45, -1e-45, 1e-38, 1.1, -1.7e38, 1.7e38, 3.4e38, np.inf, -np.inf, np.nan],
    np.float32,
)


def test_an_extreme_of_none_has_a_sign() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return b.Identity(b.ReduceMax(b.Abs(x), b.i64([0]), keepdims=0))

    rewrite = Rewrite(build, {"x": EDGES})
    (reduction,) = (n for n in rewrite.model.graph if n.op_type == "ReduceMax")
    assert not has_no_sign(reduction.outputs[0])


def test_many_shared_operands_have_no_sign() -> None:
    """Each sum adds the one before to itself: there are more paths than a translation follows."""

    def build(b: GraphBuilder, x: Value) -> Value:
        total = b.Abs(x)
        for _ in range(40):
            total = b.Add(total, total)
        return b.Identity(total)

    rewrite = Rewrite(build, {"x": EDGES})
    *_, last = (node for node in rewrite.model.graph if node.op_type == "Add")
    assert has_no_sign(last.outputs[0])

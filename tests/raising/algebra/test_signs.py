"""Negatives in products, and absolute values of what has no sign."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from rule_names import rule

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


@pytest.mark.parametrize("op_type", ["Add", "Sub"])
@pytest.mark.parametrize("first", [False, True])
def test_a_negative_in_a_product(op_type: str, first: bool) -> None:
    def build(b: GraphBuilder, x: Value, y: Value) -> list[Value]:
        factors = (b.Neg(x), y)
        made = b.op(op_type, y, b.Mul(*(factors if first else factors[::-1])))
        return [made, b.Reciprocal(made)]

    x, y = (side.reshape(-1) for side in np.meshgrid(EDGES, EDGES))
    rewrite = Rewrite(build, {"x": x, "y": y}, rule("add-neg-to-sub"))
    rewrite.gives("Mul", "Sub" if op_type == "Add" else "Add", "Reciprocal")


def test_a_negative_in_a_product_that_others_read() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        product = b.Mul(b.Neg(x), x)
        return [b.Add(x, product), b.Exp(product)]

    Rewrite(build, {"x": EDGES}, rule("add-neg-to-sub")).nothing()


def test_absolute_values_without_effect() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        absolute = b.Abs(x)
        scale = b.Add(b.scalar(1e-4, T.FLOAT), b.Mul(b.scalar(1e-4, T.FLOAT), absolute))
        quotient = b.Abs(b.Div(absolute, scale))
        return [quotient, b.Abs(b.Mul(x, x)), b.Abs(b.Sqrt(b.Exp(x)))]

    rewrite = Rewrite(build, {"x": EDGES}, rule("redundant-abs"))
    assert rewrite.nodes["Abs"] == 1


def test_absolute_values_that_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        absolute = b.Abs(x)
        return [
            b.Abs(b.Sub(absolute, b.scalar(1, T.FLOAT))),
            b.Abs(b.Mul(absolute, x)),
            b.Abs(b.Mul(absolute, b.scalar(-0.0, T.FLOAT))),
            b.Abs(b.Sqrt(x)),
            b.Abs(b.Max(absolute, x)),
        ]

    Rewrite(build, {"x": EDGES}, rule("redundant-abs")).nothing()


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

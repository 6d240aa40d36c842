"""Products of 8-bit integers that are accumulated in i32."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.quantized.quantize_dequantize import MatMulIntegerOperator
from hlo2onnx.targets.target import Target

T = oir.DataType
SHIFTED = ["Cast", "BitwiseXor", "MatMulInteger"]


def wide(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.cast(x, T.INT32)


PRODUCTS: dict[str, Build] = {
    "64 bits": lambda b, x, y: b.MatMul(b.cast(x, T.INT64), b.cast(y, T.INT64)),
    "floats": lambda b, x, y: b.MatMul(b.cast(x, T.FLOAT), b.cast(y, T.FLOAT)),
    "one computed": lambda b, x, y: b.MatMul(wide(b, x), b.Neg(wide(b, y))),
    "one of others": lambda b, x, y: b.MatMul(wide(b, x), foreign(wide(b, y))),
    "truth": lambda b, x, y: b.MatMul(wide(b, x), wide(b, b.cast(y, T.BOOL))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products(name: str) -> None:
    inputs = {"x": np.ones((3, 4), np.int8), "y": np.ones((4, 3), np.int8)}
    assert not fires(PRODUCTS[name], inputs, MatMulIntegerOperator())


def test_products_of_operands() -> None:
    inputs = {"x": np.ones((3, 4), np.int32), "y": np.ones((4, 3), np.int8)}
    assert not fires(lambda b, x, y: b.MatMul(x, wide(b, y)), inputs, MatMulIntegerOperator())


def test_products_of_several_matrices() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(b.reshape(wide(b, x), (2, 3, 4)), wide(b, y))

    inputs = {"x": np.arange(24).astype(np.uint8), "y": np.arange(8).astype(np.int8).reshape(4, 2)}
    Rewrite(build, inputs, MatMulIntegerOperator()).gives("Reshape", *SHIFTED)


@pytest.mark.parametrize(
    ("types", "nodes"),
    [
        ((np.int8, np.int8), ["MatMulInteger"]),
        ((np.uint8, np.int8), SHIFTED),
        ((np.uint8, np.uint8), ["MatMulInteger"]),
    ],
)
def test_integer_matmul(types: tuple[type, type], nodes: list[str]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        moved = b.transpose(b.cast(y, T.INT32), [1, 0])
        return b.MatMul(b.cast(x, T.INT32), moved)

    first, second = (np.arange(-8, 4).astype(dtype) for dtype in types)
    inputs = {"x": first.reshape(3, 4), "y": second.reshape(3, 4)}
    Rewrite(build, inputs, MatMulIntegerOperator()).gives("Transpose", *nodes)


def test_wider_integers_are_left_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(b.cast(x, T.INT32), b.cast(y, T.INT32))

    inputs = {"x": np.ones((2, 3), np.int16), "y": np.ones((3, 2), np.int8)}
    Rewrite(build, inputs, MatMulIntegerOperator()).nothing()


def test_what_the_target_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Target, "supports_pair", lambda _, *key: asked.append(key))

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(wide(b, x), wide(b, y))

    inputs = {"x": np.ones((3, 4), np.uint8), "y": np.ones((4, 3), np.int8)}
    assert not fires(build, inputs, MatMulIntegerOperator(), opset=21)
    assert asked == [("MatMulInteger.B", T.UINT8, T.UINT8, 21)]


def test_mixed_products_without_bitwise_xor() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(wide(b, x), wide(b, y))

    inputs = {"x": np.ones((3, 4), np.uint8), "y": np.ones((4, 3), np.int8)}
    assert not fires(build, inputs, MatMulIntegerOperator(), opset=17)
    assert fires(build, inputs, MatMulIntegerOperator(), opset=18)

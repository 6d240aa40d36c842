"""Shapes that values share."""

from __future__ import annotations

import onnx_ir as oir
import pytest

import hlo2onnx
from hlo2onnx.ir.dims import Shapes, symbol

PROGRAM = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  %1 = stablehlo.cosine %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


def test_equal_static_shapes_are_one_that_nothing_changes() -> None:
    shapes = Shapes()
    first, second = shapes.shape([2, 3]), shapes.shape((2, 3))
    assert first is second
    assert first.dims == (2, 3)
    with pytest.raises(TypeError):
        first[0] = 4


def test_other_shapes_are_not_shared() -> None:
    shapes = Shapes()
    assert shapes.shape([2, 3]) != shapes.shape([3, 2])
    assert Shapes().shape([2]) is not shapes.shape([2])


def test_symbolic_shapes_can_be_changed() -> None:
    shapes = Shapes()
    first, second = (shapes.shape([symbol("b", positive=True), 3]) for _ in range(2))
    first[0] = 4
    assert str(second) == "[b,3]"


def test_users_can_change_the_shapes_of_outputs() -> None:
    graph = hlo2onnx.translate(PROGRAM).model.graph
    (inner, output) = (node.outputs[0] for node in graph)
    assert isinstance(output.shape, oir.Shape)
    output.shape[0] = "b"
    assert inner.shape == [2]

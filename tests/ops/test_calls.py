"""Calls and composites are translated in place."""

from __future__ import annotations

import pytest
from against_xla import against_xla

import hlo2onnx

CALLS = """
module {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @f(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @f(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = call @g(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @g(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""

COMPOSITE = """
module {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.composite "my.op" %arg0 {
      composite_attributes = {k = 1 : i32}, decomposition = @impl, version = 1 : i32
    } : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @impl(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
"""


def test_nested_calls_are_inlined() -> None:
    against_xla(CALLS).close().graph_is("Add", "Add")


def test_composite_is_inlined() -> None:
    against_xla(COMPOSITE).close().graph_is("Mul")


def test_no_results() -> None:
    with pytest.raises(hlo2onnx.LoadError, match="returns nothing"):
        hlo2onnx.translate("module { func.func public @main(%arg0: tensor<2xf32>) { return } }")


def test_recursion_is_refused() -> None:
    text = CALLS.replace("call @g(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>)",
                         "call @f(%arg0) : (tensor<2xf32>)")  # fmt: skip
    with pytest.raises(hlo2onnx.TranslationError, match="calls itself"):
        hlo2onnx.translate(text)

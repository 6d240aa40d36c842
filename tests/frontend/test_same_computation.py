"""Whether two operations compute the same."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir

from hlo2onnx.frontend.files import from_string
from hlo2onnx.frontend.mlir.block_functions import same_regions
from hlo2onnx.frontend.mlir.functions import functions_of

_PROGRAM = """
func.func public @main(%x: tensor<f32>) -> tensor<f32> {{
  %0 = call @{name}(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}}
func.func private @{name}(%x: tensor<f32>) -> tensor<f32> {{
  %0 = stablehlo.{operation} %x, %x : tensor<f32>
  return %0 : tensor<f32>
}}
"""


def _main(name: str, operation: str) -> tuple[ir.Module, ir.Operation]:
    module = from_string(_PROGRAM.format(name=name, operation=operation), None).module
    return module, functions_of(module.operation)["main"]


@pytest.mark.parametrize(
    ("name", "operation", "same"),
    [("f", "add", True), ("g", "add", True), ("f", "multiply", False)],
)
def test_calls_are_compared_by_their_functions(name: str, operation: str, same: bool) -> None:
    """Not by the name of the function: each module has its own."""
    (_one, left), (_other, right) = _main("f", "add"), _main(name, operation)
    assert same_regions(left, right) is same

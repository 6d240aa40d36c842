"""The comparisons of the index of a case, which depend on its known range."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from rule_names import RULE_NAMES

from hlo2onnx.frontend.mlir.types import numpy_type


def text(branches: int, element: str) -> str:
    """case over regions with one operator each; the index is converted from another type."""
    names = ["add", "multiply", "maximum"][:branches]
    regions = ", ".join(
        f"""{{
      %1 = stablehlo.{name} %arg1, %arg1 : tensor<2xi32>
      stablehlo.return %1 : tensor<2xi32>
    }}"""
        for name in names
    )
    index = f"tensor<{element}>"
    return f"""func.func public @main(%arg0: {index}, %arg1: tensor<2xi32>) -> tensor<2xi32> {{
      %k = stablehlo.convert %arg0 : ({index}) -> tensor<i32>
      %0 = "stablehlo.case"(%k) ({regions}) : (tensor<i32>) -> tensor<2xi32>
      return %0 : tensor<2xi32>
    }}"""


@pytest.mark.costly
@pytest.mark.parametrize(
    ("branches", "element", "nodes"),
    [
        (2, "i1", "If"),
        (2, "ui8", "Cast Equal If"),
        (2, "i8", "Cast Equal If"),
        (3, "ui8", "Cast Less If"),
        (3, "i8", "Cast Less Where Less If"),
        (3, "i1", "Cast Less If"),
    ],
)
def test_comparisons_of_an_index(branches: int, element: str, nodes: str) -> None:
    """A boolean needs no comparison; only a negative index is replaced by that of the last."""
    module, x = text(branches, element), np.array([5, 7], np.int32)
    for index in (0, 1, 2):
        number = np.array(index).astype(numpy_type(element))
        run = against_xla(module, number, x, without=RULE_NAMES).bit_exact()
    assert " ".join(node.op_type for node in run.program.model.graph) == nodes

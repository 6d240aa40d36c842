"""complex, real, imag."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values, pairs
from elementwise_text import elementwise


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_complex(element: str) -> None:
    x, y = pairs(element)
    text = elementwise("complex", [element] * 2, f"complex<{element}>", f"{len(x)}")
    against_xla(text, x, y).bit_exact()


@pytest.mark.parametrize("op", ["real", "imag"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_parts(op: str, element: str) -> None:
    x = edge_values(f"complex<{element}>")
    text = elementwise(op, [f"complex<{element}>"], element, f"{len(x)}")
    against_xla(text, x).bit_exact()


@pytest.mark.parametrize("op", ["real", "imag"])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
def test_parts_of_a_real_number(op: str, element: str) -> None:
    x = edge_values(element)
    against_xla(elementwise(op, [element], element, f"{len(x)}"), x).bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("shape", ["", "0", "2x0x3", "2x3"])
def test_shapes(shape: str) -> None:
    x = np.full([int(dim) for dim in shape.split("x") if dim], 1.5, np.float32)
    against_xla(elementwise("complex", ["f32"] * 2, "complex<f32>", shape), x, -x).bit_exact()
    for op in ("real", "imag"):
        against_xla(elementwise(op, ["complex<f32>"], "f32", shape), x + 2j * x).bit_exact()
        against_xla(elementwise(op, ["f32"], "f32", shape), x).bit_exact()


TAKEN_APART = """
module { func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.complex %arg0, %arg1 : tensor<3xcomplex<f32>>
  %1 = stablehlo.imag %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %2 = stablehlo.real %0 : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %3 = stablehlo.subtract %1, %2 : tensor<3xf32>
  return %3 : tensor<3xf32>
} }
"""


def test_complex_numbers_inside_cost_nothing() -> None:
    x = np.array([1, 2, 3], np.float32)
    against_xla(TAKEN_APART, x, 2 * x).bit_exact().graph_is("Sub")

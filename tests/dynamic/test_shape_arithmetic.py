"""Arithmetic of programs on numbers that may be extents."""

from __future__ import annotations

import numpy as np
import pytest

import hlo2onnx

SCALARS = {
    "and of integers": ("%0 = stablehlo.and %a, %b : tensor<i32>", "i32", 12 & 10),
    "or of integers": ("%0 = stablehlo.or %a, %b : tensor<i32>", "i32", 12 | 10),
    "sum of booleans": ("%0 = stablehlo.add %t, %t : tensor<i1>", "i1", True),
    "product of booleans": ("%0 = stablehlo.multiply %t, %f : tensor<i1>", "i1", False),
    "integer as boolean": (
        "%0 = stablehlo.convert %a : (tensor<i32>) -> tensor<i1>",
        "i1",
        True,
    ),
    "boolean as integer": (
        "%1 = stablehlo.convert %t : (tensor<i1>) -> tensor<i32>\n"
        "%0 = stablehlo.add %1, %n : tensor<i32>",
        "i32",
        4,
    ),
}


@pytest.mark.parametrize("name", SCALARS)
def test_constants_are_what_they_are(name: str) -> None:
    body, element, expected = SCALARS[name]
    program = hlo2onnx.translate(
        f"""
        func.func public @main(%x: tensor<?xf32>) -> tensor<{element}> {{
          %a = stablehlo.constant dense<12> : tensor<i32>
          %b = stablehlo.constant dense<10> : tensor<i32>
          %t = stablehlo.constant dense<true> : tensor<i1>
          %f = stablehlo.constant dense<false> : tensor<i1>
          %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
          {body}
          return %0 : tensor<{element}>
        }}"""
    )
    assert program(np.zeros(3, np.float32)) == expected

"""constant in every form the dialect prints."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

DENSE = """
module {{ func.func public @main(%arg0: tensor<{shape}{type}>)
    -> (tensor<{shape}{type}>, tensor<{shape}{type}>) {{
  %0 = stablehlo.constant dense<{value}> : tensor<{shape}{type}>
  return %0, %arg0 : tensor<{shape}{type}>, tensor<{shape}{type}>
}} }}
"""


@pytest.mark.parametrize(
    ("shape", "type", "value"),
    [
        ("2x3x", "f32", "[[1.0, 2.0, -0.0], [0x7F800000, 0xFF800000, 0x7FC00000]]"),
        ("2x3x", "f32", "1.5"),
        ("", "f64", "0.1"),
        ("0x3x", "f32", "1.0"),
        ("2x", "i1", "[true, false]"),
        ("4x", "i1", "true"),
        ("2x", "ui8", "[1, 255]"),
        ("2x", "i64", "[-9223372036854775808, 9223372036854775807]"),
        ("3x", "bf16", "[1.0, -2.5, 0x7F80]"),
        ("300x", "bf16", "1.5"),
        ("2x", "complex<f32>", "[(1.0, 2.0), (-0.0, 3.0)]"),
        ("2x", "complex<f64>", "(1.0, 2.0)"),
    ],
)
def test_constant(shape: str, type: str, value: str) -> None:
    against_xla(DENSE.format(shape=shape, type=type, value=value)).bit_exact()


def test_dense_resource() -> None:
    run = against_xla("""
module { func.func public @main() -> tensor<4xf32> {
  %0 = stablehlo.constant dense_resource<w> : tensor<4xf32>
  return %0 : tensor<4xf32>
} }
{-# dialect_resources: { builtin: { w: "0x040000000000803f000000400000404000008040" } } #-}
""")
    np.testing.assert_array_equal(run.expected[0], [1, 2, 3, 4])
    run.bit_exact()


def test_equal_constants_are_stored_once() -> None:
    run = against_xla("""
module { func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %2 = stablehlo.add %arg0, %0 : tensor<2xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<2xf32>
  return %3 : tensor<2xf32>
} }
""").close()
    assert len(run.program.model.graph.initializers) == 1

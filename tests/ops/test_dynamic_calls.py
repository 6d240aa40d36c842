"""Custom calls that are dynamic forms of ops, where their operands are constant."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

from hlo2onnx import translate

WINDOW = """
module {{
  func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<f32>{more}) -> tensor<2x3xf32> {{
    %d = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
    %s = stablehlo.constant dense<1> : tensor<2xi64>
    {padding}
    %0 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%arg0, %arg1, %d, %s, %s, %s, %p)
      {{called_computations = [@{body}]}} : (tensor<3x4xf32>, tensor<f32>, tensor<2xi64>,
        tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }}
  func.func private @{body}(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
    %0 = stablehlo.{body} %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }}
}}
"""
PADDING = "%p = stablehlo.constant dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>"


@pytest.mark.parametrize("body", ["add", "maximum"])
def test_dynamic_reduce_window(body: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = WINDOW.format(body=body, padding=PADDING, more="")
    against_xla(text, x, np.float32(2)).bit_exact()


def test_padding_from_data() -> None:
    """XLA does not take it; a Loop and Pad of what the operand holds do."""
    text = WINDOW.format(body="add", padding="", more=", %p: tensor<2x2xi64>")
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    constant = against_xla(WINDOW.format(body="add", padding=PADDING, more=""), x, np.float32(2))
    found = translate(text)(x, np.float32(2), np.array([[0, 0], [1, 0]]))
    np.testing.assert_array_equal(found, constant.expected[0])


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "DEFAULT"])
def test_dynamic_rng_bit_generator(algorithm: str) -> None:
    against_xla(
        f"""
        module {{ func.func public @main(%arg0: tensor<2xui64>)
            -> (tensor<2xui64>, tensor<3xui32>) {{
          %s = stablehlo.constant dense<[3]> : tensor<1xi64>
          %0, %1 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%arg0, %s)
            {{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}}
            : (tensor<2xui64>, tensor<1xi64>) -> (tensor<2xui64>, tensor<3xui32>)
          return %0, %1 : tensor<2xui64>, tensor<3xui32>
        }} }}
        """,
        np.array([1, 2], np.uint64),
    ).bit_exact()

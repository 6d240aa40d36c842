"""Custom calls that are dynamic forms of ops, well formed and malformed."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

from hlo2onnx import translate
from hlo2onnx.errors import TranslationError

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


def test_strides_from_data() -> None:
    text = WINDOW.format(body="add", padding=PADDING, more=", %q: tensor<2xi64>")
    for column in ("%q, %s, %s", "%s, %q, %s", "%s, %s, %q"):
        with pytest.raises(TranslationError, match="dilations of windows are not constant"):
            translate(text.replace("%s, %s, %s", column))


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


# -- malformed ----------------------------------------------------------------------------------

TYPES = {
    "%x": "tensor<3x4xf32>", "%i": "tensor<f32>", "%k": "tensor<i32>", "%kk": "tensor<2xi32>",
    "%p": "tensor<2x2xi64>", "%d": "tensor<2xi64>", "%t": "tensor<3xi64>", "%z": "tensor<2xi64>",
    "%e": "tensor<2x2xi64>",
}  # fmt: skip
FLOATS, PAIR = "tensor<2x3xf32>", "tensor<3x2xf32>, tensor<3x2xi32>"
ADD = "called_computations = [@add]"


def call(target: str, operands: str, attributes: str, results: str) -> str:
    """A program of one call of `@stablehlo.dynamic_<target>`; %e is computed, what is not an
    argument is constant."""
    types = ", ".join(TYPES[name] for name in operands.split(", "))
    count = results.count("tensor")
    names = ", ".join(f"%0#{place}" for place in range(count))
    return f"""
module {{
  func.func public @main(%x: tensor<3x4xf32>, %i: tensor<f32>, %k: tensor<i32>,
      %kk: tensor<2xi32>, %e: tensor<2x2xi64>) -> ({results}) {{
    %d = stablehlo.constant dense<1> : tensor<2xi64>
    %z = stablehlo.constant dense<0> : tensor<2xi64>
    %t = stablehlo.constant dense<1> : tensor<3xi64>
    %p = stablehlo.constant dense<0> : tensor<2x2xi64>
    %0:{count} = stablehlo.custom_call @stablehlo.dynamic_{target}({operands}) {{{attributes}}}
      : ({types}) -> ({results})
    return {names} : {results}
  }}
  func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }}
}}
"""


def of_shapes(*places: int) -> str:
    numbers = ", ".join(map(str, places))
    return f"indices_of_shape_operands = dense<[{numbers}]> : tensor<{len(places)}xi64>"


MALFORMED = {
    "k holds a shape": ("top_k", "%x, %k", of_shapes(1), PAIR),
    "no k": ("top_k", "%x", "", PAIR),
    "too much": ("top_k", "%x, %k, %k", "", PAIR),
    "two k": ("top_k", "%x, %kk", "", PAIR),
    "k of floats": ("top_k", "%x, %i", "", PAIR),
    "a scalar's largest": ("top_k", "%k, %k", "", PAIR),
    "one result": ("top_k", "%x, %k", "", "tensor<3x2xf32>"),
    "too few operands": ("reduce_window", "%x, %i, %d, %p", ADD, FLOATS),
    "no initial value": ("reduce_window", "%x, %d, %d, %d, %d, %p", ADD, FLOATS),
    "no computation": ("reduce_window", "%x, %i, %d, %d, %d, %d, %p", "", FLOATS),
    "three strides": ("reduce_window", "%x, %i, %d, %t, %d, %d, %p", ADD, FLOATS),
    "three strides, dynamic": ("reduce_window", "%x, %i, %d, %t, %d, %d, %e", ADD, FLOATS),
    "strides of 0": ("reduce_window", "%x, %i, %d, %z, %d, %d, %p", ADD, FLOATS),
    "padding of one side": ("reduce_window", "%x, %i, %d, %d, %d, %d, %d", ADD, FLOATS),
    "no shape of bits": (
        "rng_bit_generator",
        "%kk",
        "rng_algorithm = #stablehlo<rng_algorithm DEFAULT>",
        "tensor<2xi32>, tensor<3xui32>",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_calls_are_refused(name: str) -> None:
    with pytest.raises(TranslationError, match="malformed"):
        translate(call(*MALFORMED[name]))


def test_operands_that_hold_shapes_are_left_out() -> None:
    x, shapes = np.arange(12, dtype=np.float32).reshape(3, 4), f"{ADD}, {of_shapes(7)}"
    for padding in ("%p", "%e"):
        operands = f"%x, %i, %d, %d, %d, %d, {padding}, %d"
        program = translate(call("reduce_window", operands, shapes, "tensor<3x4xf32>"))
        arguments = np.float32(1), np.int32(0), np.zeros(2, np.int32), np.zeros((2, 2), np.int64)
        np.testing.assert_array_equal(program(x, *arguments), x + 1)

"""Regions are recognised by what they compute, not by how they are spelled."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import Run, against_xla


def reduced(body: str, result: str, element: str = "f32", functions: str = "") -> Run:
    """A reduction with a body over %a and %b, against XLA."""
    text = f"""
module {{
  func.func public @main(%arg0: tensor<4x{element}>, %arg1: tensor<{element}>)
      -> tensor<{element}> {{
    %r = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0]
        : (tensor<4x{element}>, tensor<{element}>) -> tensor<{element}>
     reducer(%a: tensor<{element}>, %b: tensor<{element}>) {{
      {body}
      stablehlo.return {result} : tensor<{element}>
    }}
    return %r : tensor<{element}>
  }}
  {functions}
}}"""
    return against_xla(text)


REDUCERS = {"add": "ReduceSum", "multiply": "ReduceProd", "minimum": "ReduceMin",
            "maximum": "ReduceMax"}  # fmt: skip


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("operands", ["%a, %b", "%b, %a"])
def test_one_op_in_either_order(name: str, operands: str) -> None:
    run = reduced(f"%0 = stablehlo.{name} {operands} : tensor<f32>", "%0")
    assert run.close().nodes[REDUCERS[name]]


@pytest.mark.parametrize(
    ("name", "node"),
    [("add", "ReduceMax"), ("maximum", "ReduceMax"), ("or", "ReduceMax"), ("multiply", "ReduceMin"),
     ("minimum", "ReduceMin"), ("and", "ReduceMin"), ("xor", "ReduceSum")],
)  # fmt: skip
def test_on_booleans_arithmetic_is_logic(name: str, node: str) -> None:
    run = reduced(f"%0 = stablehlo.{name} %a, %b : tensor<i1>", "%0", "i1").bit_exact()
    assert run.nodes[node] == 1


CALLEE = """
  func.func private @f(%p: tensor<f32>, %q: tensor<f32>) -> tensor<f32> {
    %0 = func.call @g(%q, %p) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
  func.func private @g(%p: tensor<f32>, %q: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.maximum %p, %q : tensor<f32>
    return %0 : tensor<f32>
  }"""


def test_calls_and_conversions_that_do_nothing_are_looked_through() -> None:
    call = "%0 = func.call @f(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>"
    assert reduced(call, "%0", functions=CALLEE).close().nodes["ReduceMax"] == 1
    convert = """%0 = stablehlo.convert %a : tensor<f32>
      %1 = stablehlo.multiply %b, %0 : tensor<f32>"""
    assert reduced(convert, "%1").close().nodes["ReduceProd"] == 1


NEAR_MISSES = {
    "twice": ("%0 = stablehlo.add %a, %a : tensor<f32>", "%0"),
    "constant": (
        "%c = stablehlo.constant dense<2.0> : tensor<f32>\n%0 = stablehlo.add %a, %c : tensor<f32>",
        "%0",
    ),
    "left": ("", "%a"),
    "right": ("", "%b"),
    "rounded": (
        "%0 = stablehlo.convert %a : (tensor<f32>) -> tensor<bf16>\n"
        "%1 = stablehlo.convert %0 : (tensor<bf16>) -> tensor<f32>\n"
        "%2 = stablehlo.add %1, %b : tensor<f32>",
        "%2",
    ),
    "and more": (
        "%0 = stablehlo.add %a, %b : tensor<f32>\n%1 = stablehlo.tanh %0 : tensor<f32>",
        "%1",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_have_no_name(name: str) -> None:
    reduced(*NEAR_MISSES[name]).has_no(*REDUCERS.values())


ARG_BODY = """
module {{ func.func public @main(%x: tensor<4xf32>) -> (tensor<f32>, tensor<i32>) {{
  %y = stablehlo.iota dim = 0 : tensor<4xi32>
  %p = stablehlo.constant dense<{start}> : tensor<f32>
  %q = stablehlo.constant dense<0> : tensor<i32>
  %o:2 = stablehlo.reduce(%x init: %p), (%y init: %q) across dimensions = [0]
    : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {{
    %c = stablehlo.compare {at_least}, %a, %b{kind} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
    %k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>
    %e = stablehlo.compare {equal}, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %m = stablehlo.{tie} %j, %i : tensor<i32>
    %w = stablehlo.select %e, %m, %k : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }}
  return %o#0, %o#1 : tensor<f32>, tensor<i32>
}} }}"""


@pytest.mark.parametrize(
    ("at_least", "equal", "tie", "node"),
    [
        ("GE", "EQ", "minimum", "ArgMax"),
        ("LE", "EQ", "minimum", "ArgMin"),
        ("GE", "EQ", "maximum", None),
        ("GE", "NE", "minimum", None),
        ("EQ", "EQ", "minimum", None),
    ],
)
def test_arg_extremes_as_xla_builds_them(
    at_least: str, equal: str, tie: str, node: str | None
) -> None:
    start = "0x7F800000" if at_least == "LE" else "0xFF800000"
    text = ARG_BODY.format(at_least=at_least, equal=equal, tie=tie, start=start, kind="")
    run = against_xla(text, np.array([1, 3, -2, 3], np.float32))
    if node is None:
        run.has_no("ArgMax", "ArgMin")
    else:
        assert run.bit_exact().nodes[node] == 1


def test_the_total_order_is_another_comparison() -> None:
    given = {"at_least": "GE", "equal": "EQ", "tie": "minimum", "start": "0xFF800000"}
    text = ARG_BODY.format(**given, kind=", TOTALORDER")
    against_xla(text, np.array([1, 3, -2, 3], np.float32)).has_no("ArgMax")

"""Plain elementwise integer functions are run on vectors; others are not."""

from __future__ import annotations

import numpy as np
import pytest

from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.lowering.block_evaluator import evaluate

MODULE = """
func.func public @main(%x: tensor<4x3xui32>, %k: tensor<ui32>) -> tensor<{result}> {{
  {body}
  return %r : tensor<{result}>
}}
func.func private @double(%x: tensor<4x3xui32>) -> tensor<4x3xui32> {{
  %0 = stablehlo.add %x, %x : tensor<4x3xui32>
  return %0 : tensor<4x3xui32>
}}
"""
BROADCAST = "%b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ui32>) -> tensor<4x3xui32>\n  "
X = np.array([0, 1, 5, 0xFFFFFFFF, 0x80000000], np.uint32)
K = np.array([3, 33, 0, 1, 31], np.uint32)


def run(body: str, result: str = "4x3xui32") -> np.ndarray | None:
    source = load(MODULE.format(body=body, result=result), (), {}, None)
    functions = functions_of(source.module.operation)
    results = evaluate(functions["main"], functions, [X, K])
    return None if results is None else results[0]


LOOP = """
    %z = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<{trips}> : tensor<i32>
    %o = stablehlo.constant dense<1> : tensor<i32>
    %l:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<4x3xui32>
      cond {{
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %j = stablehlo.add %i, %o : tensor<i32>
        %d = stablehlo.add %a, %a : tensor<4x3xui32>
        stablehlo.return %j, %d : tensor<i32>, tensor<4x3xui32>
      }}
    %r = stablehlo.add %l#1, %x : tensor<4x3xui32>"""


def test_loops() -> None:
    np.testing.assert_array_equal(run(LOOP.format(trips=3)), 9 * X)
    assert run(LOOP.format(trips=10_000)) is None


@pytest.mark.parametrize(
    "body",
    [
        "%r = stablehlo.reverse %x, dims = [0] : tensor<4x3xui32>",
        f"{BROADCAST}%c = stablehlo.compare LT, %x, %b : (tensor<4x3xui32>, tensor<4x3xui32>)"
        " -> tensor<4x3xi1>\n %r = stablehlo.select %c, %x, %b : tensor<4x3xi1>, tensor<4x3xui32>",
        "%t = stablehlo.constant dense<[[1, 2, 3]]> : tensor<1x3xui32>\n"
        "%r = stablehlo.broadcast_in_dim %t, dims = [0, 1] : (tensor<1x3xui32>)"
        " -> tensor<4x3xui32>",
        "%t = stablehlo.constant dense<[1, 2, 3]> : tensor<3xui32>\n"
        "%r = stablehlo.broadcast_in_dim %t, dims = [1] : (tensor<3xui32>) -> tensor<4x3xui32>",
        "%y = stablehlo.reshape %x : (tensor<4x3xui32>) -> tensor<3x4xui32>\n"
        "%r = stablehlo.transpose %y, dims = [1, 0] : (tensor<3x4xui32>) -> tensor<4x3xui32>",
    ],
)
def test_where_elements_differ_or_move_nothing_is_known(body: str) -> None:
    assert run(body) is None


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("%r = stablehlo.constant dense<7.0> : tensor<4x3xf32>", "4x3xf32"),
        ("%r = stablehlo.constant dense<> : tensor<0xui32>", "0xui32"),
    ],
)
def test_constants_that_are_no_integers(body: str, result: str) -> None:
    assert run(body, result) is None


@pytest.mark.parametrize(("bound", "known"), [("%n", True), ("%e", False)])
def test_a_loop_up_to_an_extent(bound: str, known: bool) -> None:
    text = f"""
    func.func public @main(%e: tensor<i32>, %x: tensor<4xui32>) -> tensor<4xui32> {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<2> : tensor<i32>
      %o = stablehlo.constant dense<1> : tensor<i32>
      %l:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<4xui32>
        cond {{
          %p = stablehlo.compare LT, %i, {bound} : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %o : tensor<i32>
          %d = stablehlo.add %a, %a : tensor<4xui32>
          stablehlo.return %j, %d : tensor<i32>, tensor<4xui32>
        }}
      return %l#1 : tensor<4xui32>
    }}"""
    source = load(text, (), {}, None)
    functions = functions_of(source.module.operation)
    results = evaluate(functions["main"], functions, [None, X])
    assert (results is not None) == known


@pytest.mark.parametrize(("factor", "known"), [("%b", True), ("%c", False)])
def test_extents_come_from_what_is_not_known(factor: str, known: bool) -> None:
    text = f"""
    func.func public @main(%n: tensor<1xi32>, %x: tensor<?xui32>, %k: tensor<ui32>)
        -> tensor<?xui32> {{
      %m = stablehlo.multiply %n, %n : tensor<1xi32>
      %b = stablehlo.dynamic_broadcast_in_dim %k, %m, dims = []
        : (tensor<ui32>, tensor<1xi32>) -> tensor<?xui32>
      %s = stablehlo.reshape %n : (tensor<1xi32>) -> tensor<i32>
      %u = stablehlo.convert %s : (tensor<i32>) -> tensor<ui32>
      %c = stablehlo.dynamic_broadcast_in_dim %u, %m, dims = []
        : (tensor<ui32>, tensor<1xi32>) -> tensor<?xui32>
      %r = stablehlo.xor %x, {factor} : tensor<?xui32>
      return %r : tensor<?xui32>
    }}"""
    source = load(text, (), {}, None)
    functions = functions_of(source.module.operation)
    results = evaluate(functions["main"], functions, [None, X, K])
    assert (results is not None) == known
    if results is not None:
        np.testing.assert_array_equal(results[0], X ^ K)


def test_a_function_that_calls_itself_is_unknown() -> None:
    text = """
    func.func public @main(%x: tensor<4xui32>) -> tensor<4xui32> {
      %0 = func.call @again(%x) : (tensor<4xui32>) -> tensor<4xui32>
      return %0 : tensor<4xui32>
    }
    func.func private @again(%x: tensor<4xui32>) -> tensor<4xui32> {
      %0 = func.call @again(%x) : (tensor<4xui32>) -> tensor<4xui32>
      return %0 : tensor<4xui32>
    }"""
    source = load(text, (), {}, None)
    functions = functions_of(source.module.operation)
    assert evaluate(functions["main"], functions, [X]) is None

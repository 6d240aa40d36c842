"""Tuples, optimization barriers and tokens: values that are handed on."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

from hlo2onnx import translate

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Z = (X[0] + 1j * X[1]).astype(np.complex64)
I = np.arange(3, dtype=np.int32)  # noqa: E741


def test_tuples_nest_and_come_apart() -> None:
    against_xla("""
    module { func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xcomplex<f32>>,
        %arg2: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xcomplex<f32>>, tensor<2x3xf32>) {
      %0 = stablehlo.tuple %arg1, %arg2 : tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>
      %1 = stablehlo.tuple %arg0, %0, %arg1 : tuple<tensor<2x3xf32>,
        tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>, tensor<3xcomplex<f32>>>
      %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2x3xf32>,
        tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>, tensor<3xcomplex<f32>>>)
        -> tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>
      %3 = stablehlo.get_tuple_element %2[1] :
        (tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>) -> tensor<3xi32>
      %4 = stablehlo.get_tuple_element %1[2] : (tuple<tensor<2x3xf32>,
        tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>, tensor<3xcomplex<f32>>>)
        -> tensor<3xcomplex<f32>>
      %5 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<2x3xf32>,
        tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>, tensor<3xcomplex<f32>>>) -> tensor<2x3xf32>
      return %3, %4, %5 : tensor<3xi32>, tensor<3xcomplex<f32>>, tensor<2x3xf32>
    } }
    """).bit_exact()


BOUNDARY = """
module {{ func.func public @main(%arg0: {given}, %arg1: tensor<i32>) -> {taken} {{
  %0 = stablehlo.get_tuple_element %arg0[0] : ({given}) -> tensor<2x3xf32>
  %1 = stablehlo.get_tuple_element %arg0[1] : ({given}) -> {inner}
  %2 = stablehlo.get_tuple_element %1[0] : ({inner}) -> tensor<3xcomplex<f32>>
  %3 = stablehlo.get_tuple_element %1[1] : ({inner}) -> tensor<3xi32>
  %4 = stablehlo.tuple %3, %2 : {pair}
  %5 = stablehlo.tuple %4, %0, %arg1 : {taken}
  return %5 : {taken}
}} }}
"""


def test_tuples_at_the_boundary_are_flat() -> None:
    """XLA's own runtime takes no nested tuples, so the expected values are written down."""
    inner = "tuple<tensor<3xcomplex<f32>>, tensor<3xi32>>"
    pair = "tuple<tensor<3xi32>, tensor<3xcomplex<f32>>>"
    text = BOUNDARY.format(
        inner=inner,
        pair=pair,
        given=f"tuple<tensor<2x3xf32>, {inner}>",
        taken=f"tuple<{pair}, tensor<2x3xf32>, tensor<i32>>",
    )
    program = translate(text)
    assert program.input_names == ["arg0/0", "arg0/1/0", "arg0/1/1", "arg1"]
    assert program.output_names == ["result/0/0", "result/0/1", "result/1", "result/2"]
    results = program(X, Z, I, np.int32(7))
    for got, want in zip(results, [I, Z, X, np.int32(7)], strict=True):
        np.testing.assert_array_equal(got, want)


def test_empty_tuple() -> None:
    against_xla("""
    module { func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = "stablehlo.tuple"() : () -> tuple<>
      %1 = stablehlo.tuple %0, %arg0 : tuple<tuple<>, tensor<2x3xf32>>
      %2 = stablehlo.get_tuple_element %1[1] : (tuple<tuple<>, tensor<2x3xf32>>) -> tensor<2x3xf32>
      return %2 : tensor<2x3xf32>
    } }
    """).bit_exact().graph_is("Identity")


@pytest.mark.parametrize("element", ["f32", "bf16", "i1", "complex<f64>"])
def test_optimization_barrier(element: str) -> None:
    run = against_xla(f"""
    module {{ func.func public @main(%arg0: tensor<2x3x{element}>, %arg1: tensor<i32>)
        -> (tensor<2x3x{element}>, tensor<i32>) {{
      %0:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<2x3x{element}>, tensor<i32>
      return %0#0, %0#1 : tensor<2x3x{element}>, tensor<i32>
    }} }}
    """).bit_exact()
    if not element.startswith("complex"):
        run.graph_is("Identity", "Identity")


def test_an_empty_barrier() -> None:
    against_xla("""
    module { func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
      "stablehlo.optimization_barrier"() : () -> ()
      return %arg0 : tensor<2xf32>
    } }
    """).bit_exact()


def test_tokens_leave_no_trace() -> None:
    against_xla("""
    module { func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.create_token : !stablehlo.token
      %1 = stablehlo.after_all : !stablehlo.token
      %2 = stablehlo.after_all %0, %1 : !stablehlo.token
      %3 = stablehlo.tuple %2, %arg0 : tuple<!stablehlo.token, tensor<2x3xf32>>
      %4 = stablehlo.get_tuple_element %3[0] :
        (tuple<!stablehlo.token, tensor<2x3xf32>>) -> !stablehlo.token
      %5:2 = stablehlo.optimization_barrier %4, %arg0 : !stablehlo.token, tensor<2x3xf32>
      %6 = func.call @pass(%5#0, %5#1) : (!stablehlo.token, tensor<2x3xf32>) -> tensor<2x3xf32>
      return %6 : tensor<2x3xf32>
    }
    func.func private @pass(%arg0: !stablehlo.token, %arg1: tensor<2x3xf32>) -> tensor<2x3xf32> {
      return %arg1 : tensor<2x3xf32>
    } }
    """).bit_exact().graph_is("Identity")


def test_tokens_at_the_boundary_are_left_out() -> None:
    """JAX passes them with ordered effects; numpy has no arrays of them to run XLA with."""
    program = translate("""
    module { func.func public @main(%arg0: !stablehlo.token, %arg1: tensor<2x3xf32>)
        -> (!stablehlo.token, tensor<2x3xf32>) {
      %0 = stablehlo.after_all %arg0 : !stablehlo.token
      %1 = stablehlo.reverse %arg1, dims = [0] : tensor<2x3xf32>
      return %0, %1 : !stablehlo.token, tensor<2x3xf32>
    } }
    """)
    assert program.input_names == ["arg1"]
    np.testing.assert_array_equal(program(X), X[::-1])

"""if and case, from MLIR text and as JAX spells them."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from jax import lax
from lowered_loops import X, against_jax

IF = """
func.func public @main(%arg0: tensor<i1>, %arg1: tensor<{type}>) -> (tensor<{type}>, tensor<{type}>) {{
  %0:2 = "stablehlo.if"(%arg0) ({{
    %1 = stablehlo.add %arg1, %arg1 : tensor<{type}>
    stablehlo.return %1, %arg1 : tensor<{type}>, tensor<{type}>
  }}, {{
    stablehlo.return %arg1, %arg1 : tensor<{type}>, tensor<{type}>
  }}) : (tensor<i1>) -> (tensor<{type}>, tensor<{type}>)
  return %0#0, %0#1 : tensor<{type}>, tensor<{type}>
}}
"""  # noqa: E501


@pytest.mark.parametrize("predicate", [True, False])
@pytest.mark.parametrize(
    "type_", ["3xf32", "i8", "2xi1", "2xui64", "0x2xf32", "3xbf16", "f64", "2xcomplex<f32>"]
)
def test_if(type_: str, predicate: bool) -> None:
    values = np.array([1, 0, 3])[: 1 if "x" not in type_ else int(type_[0])]
    dtypes = {"f32": "f4", "i8": "i1", "i1": "?", "ui64": "u8", "f64": "f8", "complex<f32>": "c8"}
    element = type_.rsplit("x", 1)[-1] if "complex" not in type_ else "complex<f32>"
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.dtype(dtypes[element])
    x = values.astype(dtype)
    x = np.zeros((0, 2), dtype) if type_.startswith("0") else x
    x = x.reshape(()) if "x" not in type_ else x
    against_xla(IF.format(type=type_), np.array(predicate), x).bit_exact()


def test_if_of_a_constant_is_its_branch() -> None:
    text = """func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.constant dense<false> : tensor<i1>
      %1 = "stablehlo.if"(%0) ({
        %2 = stablehlo.exponential %arg0 : tensor<3xf32>
        stablehlo.return %2 : tensor<3xf32>
      }, {
        %2 = stablehlo.tanh %arg0 : tensor<3xf32>
        stablehlo.return %2 : tensor<3xf32>
      }) : (tensor<i1>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    against_xla(text).close().graph_is("Tanh")


def case_text(branches: int) -> str:
    """case over `branches` regions; branch k multiplies by k + 2."""
    regions = ", ".join(
        f"""{{
      %c = stablehlo.constant dense<{k + 2}> : tensor<2xi32>
      %1 = stablehlo.multiply %arg1, %c : tensor<2xi32>
      stablehlo.return %1 : tensor<2xi32>
    }}"""
        for k in range(branches)
    )
    return f"""func.func public @main(%arg0: tensor<i32>, %arg1: tensor<2xi32>) -> tensor<2xi32> {{
      %0 = "stablehlo.case"(%arg0) ({regions}) : (tensor<i32>) -> tensor<2xi32>
      return %0 : tensor<2xi32>
    }}"""


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 4, 5, 6, 7, 2**31 - 1])
@pytest.mark.parametrize("branches", [1, 2, 3, 7])
def test_case_out_of_range_takes_the_last_branch(branches: int, index: int) -> None:
    x = np.array([5, 7], np.int32)
    run = against_xla(case_text(branches), np.array(index, np.int32), x).bit_exact()
    assert run.nodes["If"] == branches - 1


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3])
@pytest.mark.parametrize("branches", [1, 3])
def test_case_of_a_constant_is_its_branch(branches: int, index: int) -> None:
    text = case_text(branches).replace('"stablehlo.case"(%arg0)', '"stablehlo.case"(%k)', 1)
    text = text.replace("%0 =", f"%k = stablehlo.constant dense<{index}> : tensor<i32>\n%0 =", 1)
    x = np.array([5, 7], np.int32)
    against_xla(text, np.array(0, np.int32), x).bit_exact().has_no("If")


def test_lax_cond_keeps_its_predicate() -> None:
    run = against_jax(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), np.array(True), X)
    run.close().graph_is("If", "Sin", "Cos")


def test_branch_in_a_scalar_region_becomes_where() -> None:
    text = """func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%arg0, %arg1) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %2 = "stablehlo.if"(%1) ({
          stablehlo.return %a : tensor<f32>
        }, {
          %3 = stablehlo.negate %b : tensor<f32>
          stablehlo.return %3 : tensor<f32>
        }) : (tensor<i1>) -> tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    against_xla(text).close().graph_is("Less", "Neg", "Where")

"""top_k, exact and approximate, against XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax
from edge_values import edge_values
from jax import lax

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]
INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]


def values(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Few different values, so that many are equal: edge values, floats with NaN of both signs."""
    edges = edge_values(element)
    if numpy_type(element).kind not in "biu":
        edges = np.concatenate([edges, -edges[-1:]])
    return edges[np.random.default_rng(seed).integers(0, edges.size, shape)].reshape(shape)


def positive_nan(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x.astype(np.float64)), np.abs(x), x)


@pytest.mark.costly
@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1"])
@pytest.mark.parametrize("shape, k", [((60,), 7), ((3, 60), 60), ((2, 3, 9), 1), ((4, 5), 0)])
def test_top_k(element: str, shape: Sequence[int], k: int) -> None:
    against_jax(lambda x: lax.top_k(x, k), values(element, shape)).bit_exact()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing(shape: Sequence[int]) -> None:
    against_jax(lambda x: lax.top_k(x, shape[-1]), values("f32", shape)).bit_exact()


@pytest.mark.parametrize("element", FLOATS)
def test_without_bit_cast(element: str) -> None:
    """An explicit opset has -0 below +0 and NaN on top; the sign of NaN is not seen."""
    x = positive_nan(values(element, (3, 60)))
    run = against_jax(lambda x: lax.top_k(x, 50), x, opset=23)
    run.bit_exact().has_no("BitCast")
    assert run.program.report.notes


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_numbers_that_are_not_nan(element: str) -> None:
    """-0 is the negative of a converted 0; no NaN, so no bits are needed."""
    dtype = numpy_type(element)

    def function(x: jax.Array) -> Any:
        y = x.astype(dtype)
        return lax.top_k(jnp.concatenate([-y, y], axis=1), 60)

    x = np.random.default_rng(0).integers(-3, 4, (3, 40), np.int32)
    run = against_jax(function, x).bit_exact().has_no("BitCast", "IsNaN")
    assert run.nodes["TopK"] == 1


def test_graphs() -> None:
    whole = against_jax(lambda x: lax.top_k(x, 3), values("i32", (4, 9)))
    whole.graph_is("TopK", "Cast")
    real = against_jax(lambda x: lax.top_k(x, 3), values("f32", (4, 9)))
    real.graph_is("BitCast", "BitwiseXor", "Less", "Where", "TopK", "GatherElements", "Cast")


# -- custom calls ------------------------------------------------------------------------------


def mhlo_top_k(k: int, largest: bool, element: str = "f32") -> str:
    return f"""
module {{ func.func public @main(%arg0: tensor<3x9x{element}>)
    -> (tensor<3x{k}x{element}>, tensor<3x{k}xi32>) {{
  %0:2 = stablehlo.custom_call @mhlo.topk(%arg0) {{
    mhlo.attributes = {{k = {k} : i64, largest = {str(largest).lower()}}}, mhlo.version = 1 : i64}}
    : (tensor<3x9x{element}>) -> (tensor<3x{k}x{element}>, tensor<3x{k}xi32>)
  return %0#0, %0#1 : tensor<3x{k}x{element}>, tensor<3x{k}xi32>
}} }}"""


@pytest.mark.parametrize("element", ["f32", "f64", "i32"])
@pytest.mark.parametrize("largest", [True, False])
def test_mhlo_top_k(largest: bool, element: str) -> None:
    """XLA on the CPU does not take the call: numpy says what is right."""
    x = positive_nan(values(element, (3, 9)))
    program = hlo2onnx.translate(mhlo_top_k(4, largest, element))
    found, indices = program(x)
    key = np.nan_to_num(x.astype(np.float64), nan=np.inf) * (-1 if largest else 1)
    nan, zero_sign = np.isnan(x.astype(np.float64)), np.signbit(x.astype(np.float64)) & (x == 0)
    last = [nan, key, ~zero_sign] if not largest else [~nan, key, zero_sign]
    expected = np.lexsort([last[2], last[1], last[0]], axis=-1)[:, :4]
    assert (indices == expected).all()
    np.testing.assert_array_equal(found, np.take_along_axis(x, expected, -1))


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("aggregate", [True, False])
def test_approximate(element: str, aggregate: bool) -> None:
    """The exact result is a legal approximation, and what XLA gives on the CPU."""
    x = np.random.default_rng(0).permutation(120).reshape(10, 12).astype(numpy_type(element))

    def function(x: jax.Array) -> Any:
        largest = lax.approx_max_k(x, 5, aggregate_to_topk=aggregate)
        return largest, lax.approx_min_k(x, 5, reduction_dimension=0)

    run = against_jax(lambda x: lax.approx_min_k(x, 5, reduction_dimension=0), x)
    run.bit_exact().has_no("BitCast")
    if aggregate:
        against_jax(function, x).bit_exact()
    else:
        _, indices = hlo2onnx.translate(
            jax.jit(lambda x: lax.approx_max_k(x, 5, aggregate_to_topk=False)).lower(x)
        )(x)
        assert (indices[:, :5] == np.argsort(-x.astype(np.float64), axis=1)[:, :5]).all()


@pytest.mark.parametrize("extent", ["2", "?"])
def test_k_of_the_run(extent: str) -> None:
    """XLA refines such a program before it runs it: numpy says what is right."""
    text = f"""
module {{ func.func public @main(%arg0: tensor<3x9xi32>, %arg1: tensor<i32>)
    -> (tensor<3x{extent}xi32>, tensor<3x{extent}xi32>) {{
  %0:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%arg0, %arg1)
    : (tensor<3x9xi32>, tensor<i32>) -> (tensor<3x{extent}xi32>, tensor<3x{extent}xi32>)
  return %0#0, %0#1 : tensor<3x{extent}xi32>, tensor<3x{extent}xi32>
}} }}"""
    x = np.random.default_rng(0).integers(0, 4, (3, 9), np.int32)
    found, indices = hlo2onnx.translate(text)(x, np.int32(2))
    expected = np.argsort(-x, axis=1, kind="stable")[:, :2]
    assert (indices == expected).all()
    assert (found == np.take_along_axis(x, expected, 1)).all()


UNNAMED = """
    %d = stablehlo.subtract %arg1, %arg0 : tensor<f32>
    %e = stablehlo.sine %d : tensor<f32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.compare LT, %e, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>"""


def test_the_first_of_a_comparator_without_a_name() -> None:
    """Of numbers less than pi apart the sine of the difference has its sign."""
    x = np.random.default_rng(0).permuted(np.linspace(0, 3, 18, dtype=np.float32)).reshape(2, 9)
    text = jax.jit(lambda x: lax.approx_max_k(x, 3)).lower(x).as_text()
    plain = "    %0 = stablehlo.compare GT, %arg0, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<i1>"
    assert plain in text
    found = hlo2onnx.translate(text.replace(plain, UNNAMED))(x)
    order = np.argsort(-x, 1)[:, :3]
    np.testing.assert_array_equal(found[1], order)
    np.testing.assert_array_equal(found[0], np.take_along_axis(x, order, 1))

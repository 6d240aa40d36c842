"""map: a scalar computation over whole tensors, against XLA."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import pairs
from mlir_text import tensor

import hlo2onnx


def map_of(shape: Sequence[int], element: str, body: str, result: str, functions: str = "") -> str:
    """A module that maps a body over %x and %y; `result` is the type the body returns as %r."""
    whole, mapped = tensor(shape, element), tensor(shape, result)
    return f"""
module {{
  func.func public @main(%arg0: {whole}, %arg1: {whole}) -> {mapped} {{
    %0 = "stablehlo.map"(%arg0, %arg1) <{{dimensions = array<i64{dimensions(len(shape))}>}}> ({{
    ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
      {body}
      stablehlo.return %r : tensor<{result}>
    }}) : ({whole}, {whole}) -> {mapped}
    return %0 : {mapped}
  }}
  {functions}
}}"""


def dimensions(rank: int) -> str:
    return f": {', '.join(map(str, range(rank)))}" if rank else ""


SHAPES = [(), (4,), (2, 3), (0, 3), (1, 2, 1, 3)]


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "i8", "i32", "ui8", "ui32"])
def test_edge_values(element: str) -> None:
    x, y = pairs(element)
    larger = """%p = stablehlo.compare LT, %x, %y : (tensor<T>, tensor<T>) -> tensor<i1>
      %c = stablehlo.constant dense<1> : tensor<T>
      %s = stablehlo.subtract %y, %c : tensor<T>
      %r = stablehlo.select %p, %s, %x : tensor<i1>, tensor<T>"""
    if "i" not in element:
        larger = larger.replace("dense<1>", "dense<1.0>")
    text = map_of(x.shape, element, larger.replace("<T>", f"<{element}>"), element)
    run = against_xla(text, x, y)
    run.bit_exact() if "i" in element else run.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_rank(shape: Sequence[int]) -> None:
    body = "%r = stablehlo.compare GE, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>"
    x, y = np.random.default_rng(0).integers(-3, 4, (2, *shape)).astype(np.int32)
    against_xla(map_of(shape, "i32", body, "i1"), x, y).bit_exact()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_that_reads_no_argument(shape: Sequence[int]) -> None:
    body = "%r = stablehlo.constant dense<7> : tensor<ui16>"
    x = np.zeros(shape, np.float32)
    against_xla(map_of(shape, "f32", body, "ui16"), x, x).bit_exact()


def test_a_computation_that_returns_an_argument() -> None:
    text = map_of((2, 3), "f32", "", "f32").replace("return %r", "return %y")
    x, y = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    against_xla(text, x, y).bit_exact().graph_is("Identity")


def test_a_computation_that_calls_functions() -> None:
    """XLA does not compile a call within a map, so numpy stands in for it."""
    functions = """
  func.func private @f(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
    %0 = func.call @g(%y) : (tensor<f32>) -> tensor<f32>
    %1 = stablehlo.subtract %x, %0 : tensor<f32>
    return %1 : tensor<f32>
  }
  func.func private @g(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.constant dense<2.5> : tensor<f32>
    %1 = stablehlo.multiply %x, %0 : tensor<f32>
    return %1 : tensor<f32>
  }"""
    body = "%r = func.call @f(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>"
    x, y = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    program = hlo2onnx.translate(map_of((4, 3), "f32", body, "f32", functions))
    np.testing.assert_array_equal(program(x, y), x - 2.5 * y)
    assert program.report.nodes == {"Mul": 1, "Sub": 1}


def test_complex_numbers_in_and_out() -> None:
    to_complex = "%r = stablehlo.complex %x, %y : tensor<complex<f32>>"
    x, y = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    against_xla(map_of((4, 3), "f32", to_complex, "complex<f32>"), x, y).bit_exact()
    to_real = """%a = stablehlo.real %x : (tensor<complex<f32>>) -> tensor<f32>
      %b = stablehlo.imag %y : (tensor<complex<f32>>) -> tensor<f32>
      %r = stablehlo.add %a, %b : tensor<f32>"""
    z = (x + 1j * y).astype(np.complex64)
    against_xla(map_of((4, 3), "complex<f32>", to_real, "f32"), z, z.conj()).close()

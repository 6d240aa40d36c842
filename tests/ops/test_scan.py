"""chlo.scan: inputs by slices, and outputs and carries."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from mlir_text import tensor

from hlo2onnx import translate
from hlo2onnx.frontend.mlir.types import numpy_type


def scan(
    dims: tuple[int, ...] = (2, 3),
    dimension: int = 1,
    reverse: bool = False,
    element: str = "f32",
    associative: str = "",
) -> str:
    """Running sums, and running products of the slices with what the sum was."""
    part = tensor(tuple(dim for axis, dim in enumerate(dims) if axis != dimension), element)
    whole = tensor(dims, element)
    return f"""
    module {{ func.func public @main(%arg0: {whole}, %arg1: {part}) -> ({whole}, {whole}, {part}) {{
      %0:3 = "chlo.scan"(%arg0, %arg1) ({{ ^bb0(%a: {part}, %c: {part}):
        %s = stablehlo.add %c, %a : {part}
        %p = stablehlo.multiply %c, %a : {part}
        stablehlo.return %s, %p, %s : {part}, {part}, {part}
      }}) {{dimension = {dimension} : i64, is_reverse = {str(reverse).lower()}, {associative}
        operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 2, 1>}}
        : ({whole}, {part}) -> ({whole}, {whole}, {part})
      return %0#0, %0#1, %0#2 : {whole}, {whole}, {part}
    }} }}
    """


@pytest.mark.parametrize("dims", [(2, 3), (4,), (1, 5), (3, 1), (2, 3, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_every_dimension(dims: tuple[int, ...], reverse: bool) -> None:
    for dimension in range(len(dims)):
        run = against_xla(scan(dims, dimension, reverse)).close()
        assert run.nodes["Scan"] == 1


@pytest.mark.parametrize("element", ["f64", "bf16", "f16", "i32", "ui8", "complex<f32>"])
def test_element_types(element: str) -> None:
    rng = np.random.default_rng(0)
    x, i = rng.integers(0, 4, (2, 3)), rng.integers(0, 4, 2)
    arrays = (values.astype(numpy_type(element)) for values in (x, i))
    against_xla(scan(element=element), *arrays).bit_exact()


@pytest.mark.parametrize("licence", ["is_associative = true,", "is_associative = false,"])
def test_associativity_is_a_licence(licence: str) -> None:
    against_xla(scan(associative=licence)).close()


@pytest.mark.parametrize("dims", [(2, 0), (0, 3)])
def test_nothing_to_scan(dims: tuple[int, ...]) -> None:
    x, i = np.ones(dims, np.float32), np.arange(dims[0], dtype=np.float32)
    stacked, products, last = translate(scan(dims))(x, i)
    assert stacked.shape == products.shape == dims
    np.testing.assert_array_equal(last, i if dims[1] == 0 else i + 3)


def test_without_inputs() -> None:
    """Then the size is an attribute."""
    text = """
    module { func.func public @main(%i: tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>) {
      %0:2 = "chlo.scan"(%i) ({ ^bb0(%c: tensor<2xf32>):
        %s = stablehlo.add %c, %c : tensor<2xf32>
        stablehlo.return %c, %s : tensor<2xf32>, tensor<2xf32>
      }) {dimension = 0 : i64, scan_dim_size = 4 : i64,
        operandSegmentSizes = array<i32: 0, 1>, resultSegmentSizes = array<i32: 1, 1>}
        : (tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>)
      return %0#0, %0#1 : tensor<4x2xf32>, tensor<2xf32>
    } }
    """
    i = np.array([1.0, -3.0], np.float32)
    stacked, last = translate(text)(i)
    np.testing.assert_array_equal(stacked, i * 2.0 ** np.arange(4)[:, None])
    np.testing.assert_array_equal(last, 16 * i)


def test_without_carries() -> None:
    text = """
    module { func.func public @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
      %0 = "chlo.scan"(%x) ({ ^bb0(%a: tensor<2xf32>):
        %s = stablehlo.multiply %a, %a : tensor<2xf32>
        stablehlo.return %s : tensor<2xf32>
      }) {dimension = 0 : i64, is_reverse = true,
        operandSegmentSizes = array<i32: 1, 0>, resultSegmentSizes = array<i32: 1, 0>}
        : (tensor<3x2xf32>) -> tensor<3x2xf32>
      return %0 : tensor<3x2xf32>
    } }
    """
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(translate(text)(x), x * x)

"""Helpers that several handlers share, one by one: what they make, and the least that tells."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla

from hlo2onnx import translate

T = oir.DataType
X = np.arange(6, dtype=np.float32).reshape(2, 3)


BITS = """
func.func @main(%x: tensor<6xui32>) -> tensor<6xf32> {{
  %mask = stablehlo.constant dense<{mask}> : tensor<6xui32>
  %code = stablehlo.constant dense<{code}> : tensor<6xui32>
  %m = stablehlo.and %x, %mask : tensor<6xui32>
  %b = stablehlo.or {operands} : tensor<6xui32>
  %r = stablehlo.bitcast_convert %b : (tensor<6xui32>) -> tensor<6xf32>
  return %r : tensor<6xf32>
}}"""


@pytest.mark.parametrize("operands", ["%m, %code", "%code, %m"])
@pytest.mark.parametrize(
    ("code", "mask", "in_octave"),
    [
        (0x3F800000, 0x007FFFFF, True),
        (0x3F800000, 0x00FFFFFF, False),
        (0x3F800001, 0x007FFFFE, False),
        (0x7F000000, 0x007FFFFF, True),
        (0x7F800000, 0x007FFFFF, False),
        (0x0C000000, 0x007FFFFF, True),
        (0x0B800000, 0x007FFFFF, False),
        (0x00000000, 0x007FFFFF, False),
        (0xBF800000, 0x007FFFFF, False),
    ],
)
def test_bits_of_one_octave(code: int, mask: int, in_octave: bool, operands: str) -> None:
    """Random bits as the mantissa of a constant exponent are computed, others are decoded."""
    x = np.array([0, 1, 0x7FFFFF, 0x2AAAAA, 0xFFFFFFFF, 0x12345678], np.uint32)
    run = against_xla(BITS.format(code=code, mask=mask, operands=operands), x).bit_exact()
    nodes = run.program.report.nodes
    assert (nodes["Where"] + nodes["BitCast"] + nodes["Gather"] == 0) == in_octave


def test_stored_integers_of_32_bits_are_dequantized_in_f32_only() -> None:
    text = """
    func.func @main(%x: tensor<3x!quant.uniform<i32:E, 0.1>>) -> tensor<3xE> {
      %0 = stablehlo.uniform_dequantize %x : (tensor<3x!quant.uniform<i32:E, 0.1>>) -> tensor<3xE>
      return %0 : tensor<3xE>
    }"""
    for element, operator in (("f32", 1), ("bf16", 0), ("f64", 0)):
        nodes = translate(text.replace("E", element)).report.nodes
        assert nodes["DequantizeLinear"] == operator


CLAMP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %lo = stablehlo.constant dense<{lo}> : tensor<{lows}f32>
  %hi = stablehlo.constant dense<{hi}> : tensor<{highs}f32>
  %r = stablehlo.clamp %lo, %x, %hi
    : (tensor<{lows}f32>, tensor<4xf32>, tensor<{highs}f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}"""


@pytest.mark.parametrize(
    ("lo", "hi", "nodes"),
    [
        ("0.5", "2.0", ["Clip"]),
        ("0x7FC00000", "2.0", None),
        ("0.5", "0x7FC00000", None),
        ("[0.5, 1.0, 1.5, 0.0]", "2.0", ["Max", "Min"]),
        ("0.5", "[2.0, 3.0, 1.5, 1.0]", ["Max", "Min"]),
        ("[0.5, 1.0, 1.5, 0.0]", "[2.0, 3.0, 1.5, 1.0]", ["Max", "Min"]),
    ],
)
def test_clamp(lo: str, hi: str, nodes: list[str] | None) -> None:
    """Clip ignores bounds that are NaN and takes scalars alone."""
    text = CLAMP.format(lo=lo, hi=hi, lows="4x" * ("[" in lo), highs="4x" * ("[" in hi))
    run = against_xla(text, np.array([-1, 1.25, 9, np.nan], np.float32)).bit_exact()
    if nodes is not None:
        run.graph_is(*nodes)


SORT = """
func.func @main(%x: tensor<{dims}xi32>) -> tensor<{dims}xi32> {{
  %r = "stablehlo.sort"(%x) ({{
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }}) {{dimension = {axis} : i64}} : (tensor<{dims}xi32>) -> tensor<{dims}xi32>
  return %r : tensor<{dims}xi32>
}}"""


@pytest.mark.parametrize(
    ("dims", "axis", "sorts"),
    [((5, 0), 0, False), ((0, 5), 0, False), ((0, 5), 1, False), ((1, 5), 0, False),
     ((1, 5), 1, True), ((2, 5), 0, True)],
)  # fmt: skip
def test_what_is_not_sorted(dims: tuple[int, ...], axis: int, sorts: bool) -> None:
    x = np.arange(dims[0] * dims[1], dtype=np.int32)[::-1].reshape(dims).copy()
    run = against_xla(SORT.format(dims="x".join(map(str, dims)), axis=axis), x).bit_exact()
    assert (run.program.report.nodes["TopK"] == 1) == sorts


@pytest.mark.parametrize(("element", "steps"), [("ui8", 3), ("ui16", 4), ("ui32", 5), ("ui64", 6)])
def test_leading_zeros_take_a_step_for_each_doubling(element: str, steps: int) -> None:
    text = """
    func.func @main(%x: tensor<3xE>) -> tensor<3xE> {
      %r = stablehlo.count_leading_zeros %x : tensor<3xE>
      return %r : tensor<3xE>
    }"""
    x = np.array([0, 1, 200]).astype(element.replace("ui", "uint"))
    run = against_xla(text.replace("E", element), x).bit_exact()
    assert run.program.report.nodes["BitwiseOr"] == steps


@pytest.mark.parametrize(
    ("element", "opset", "operators"),
    [("u16", 20, 0), ("u16", 21, 1), ("u8", 18, 1), ("i4", 21, 1), ("i16", 23, 1)],
)
def test_since_when_types_are_stored(element: str, opset: int, operators: int) -> None:
    text = """
    func.func @main(%x: tensor<3x!quant.uniform<E:f32, 0.1>>) -> tensor<3xf32> {
      %0 = stablehlo.uniform_dequantize %x : (tensor<3x!quant.uniform<E:f32, 0.1>>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    program = translate(text.replace("E", element), opset=opset)
    assert program.report.nodes["DequantizeLinear"] == operators


def test_axes_that_change_places_while_they_are_broadcast() -> None:
    text = """
    func.func @main(%x: tensor<?x3xf32>) -> tensor<3x4x?xf32> {
      %c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
      %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.concatenate %c, %v, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 0]
        : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<3x4x?xf32>
      return %0 : tensor<3x4x?xf32>
    }"""
    found = translate(text)(X)
    np.testing.assert_array_equal(found, np.broadcast_to(X.T[:, None], (3, 4, 2)))

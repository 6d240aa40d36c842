"""and, or, xor, not, popcnt, count_leading_zeros."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values, pairs
from elementwise_text import elementwise

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
COUNTS = ["popcnt", "count_leading_zeros"]


@pytest.mark.parametrize("op", ["and", "or", "xor"])
@pytest.mark.parametrize("type", [*INTEGERS, "i1"])
def test_two_operands(op: str, type: str) -> None:
    x, y = pairs(type)
    run = against_xla(elementwise(op, [type, type], type, f"{len(x)}"), x, y).bit_exact()
    run.graph_is(("Bitwise" if type != "i1" else "") + op.capitalize())


@pytest.mark.parametrize("type", [*INTEGERS, "i1"])
def test_not(type: str) -> None:
    x = edge_values(type)
    run = against_xla(elementwise("not", [type], type, f"{len(x)}"), x).bit_exact()
    run.graph_is("BitwiseNot" if type != "i1" else "Not")


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize("type", INTEGERS)
def test_counts(op: str, type: str) -> None:
    """Edges, every single bit, every run of low bits."""
    width = numpy_type(type).itemsize * 8
    unsigned = np.array(
        [1 << bit for bit in range(width)] + [(1 << bit) - 1 for bit in range(width)]
    )
    powers = unsigned.astype(np.uint64).astype(numpy_type(type))
    x = np.concatenate([edge_values(type), powers])
    against_xla(elementwise(op, [type], type, f"{len(x)}"), x).bit_exact()


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize("type", ["i8", "ui8", "i16"])
def test_every_value(op: str, type: str) -> None:
    info = np.iinfo(numpy_type(type))
    x = np.arange(info.min, info.max + 1).astype(info.dtype)
    against_xla(elementwise(op, [type], type, f"{len(x)}"), x).bit_exact()


@pytest.mark.parametrize("shape", ["", "0", "2x0x3"])
@pytest.mark.parametrize("op", [*COUNTS, "not"])
def test_edge_shapes(op: str, shape: str) -> None:
    x = np.full([int(dim) for dim in shape.split("x") if dim], 12, np.int32)
    against_xla(elementwise(op, ["i32"], "i32", shape), x).bit_exact()


NIBBLES = """
module {{ func.func public @main(%arg0: tensor<16x{byte}>) -> tensor<16x{byte}> {{
  %0 = stablehlo.convert %arg0 : (tensor<16x{byte}>) -> tensor<16x{type}>
  %1 = stablehlo.{op} %0 : tensor<16x{type}>
  %2 = stablehlo.convert %1 : (tensor<16x{type}>) -> tensor<16x{byte}>
  return %2 : tensor<16x{byte}>
}} }}
"""


@pytest.mark.parametrize("op", COUNTS)
@pytest.mark.parametrize(("type", "byte"), [("i4", "i8"), ("ui4", "ui8")])
def test_four_bits(op: str, type: str, byte: str) -> None:
    """Against Python: XLA widens i4 by its sign before it counts."""
    x = np.arange(16).astype(np.uint8).view(numpy_type(byte))
    x = np.where(x > 7, x - 16, x).astype(np.int8) if type == "i4" else x
    run = against_xla(NIBBLES.format(op=op, type=type, byte=byte), x)
    codes = [int(item) & 15 for item in x]
    counts = {"popcnt": int.bit_count, "count_leading_zeros": lambda code: 4 - code.bit_length()}
    for (result,) in run.actual:
        np.testing.assert_array_equal(result, [counts[op](code) for code in codes])


@pytest.mark.parametrize(("type", "shifts"), [("ui8", 3), ("ui16", 4), ("ui32", 4), ("ui64", 4)])
def test_counts_take_few_shifts(type: str, shifts: int) -> None:
    """Those of popcnt, and one more to smear for each power of two below the width."""
    width = numpy_type(type).itemsize * 8
    for op, more in (("popcnt", 0), ("count_leading_zeros", width.bit_length() - 1)):
        nodes = hlo2onnx.translate(elementwise(op, [type], type, "4")).report.nodes
        assert nodes["BitShift"] == shifts + more

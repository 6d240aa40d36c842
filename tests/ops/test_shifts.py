"""shift_left, shift_right_arithmetic, shift_right_logical."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values
from elementwise_text import elementwise

from hlo2onnx.frontend.mlir.types import numpy_type

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
OPS = ["shift_left", "shift_right_logical", "shift_right_arithmetic"]

BY_CONSTANT = """
module {{ func.func public @main(%arg0: tensor<{n}x{type}>) -> tensor<{n}x{type}> {{
  %0 = stablehlo.constant dense<{amount}> : tensor<{n}x{type}>
  %1 = stablehlo.{op} %arg0, %0 : tensor<{n}x{type}>
  return %1 : tensor<{n}x{type}>
}} }}
"""


def amounts(type: str) -> np.ndarray:
    """Amounts on both sides of the width, and negative ones."""
    dtype = numpy_type(type)
    width = dtype.itemsize * 8
    some = [0, 1, 2, width // 2, width - 2, width - 1, width, width + 1, np.iinfo(dtype).max]
    return np.array(some + ([-1, -width, np.iinfo(dtype).min] if dtype.kind == "i" else []), dtype)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", INTEGERS)
def test_run_time_amount(op: str, type: str) -> None:
    x, by = (grid.reshape(-1) for grid in np.meshgrid(edge_values(type), amounts(type)))
    against_xla(elementwise(op, [type, type], type, f"{len(x)}"), x, by).bit_exact()


@pytest.mark.parametrize("amount", ["0", "1", "half", "width - 1", "width", "max"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", INTEGERS)
def test_constant_amount(op: str, type: str, amount: str) -> None:
    dtype = numpy_type(type)
    width = dtype.itemsize * 8
    number = {
        "half": width // 2,
        "width - 1": width - 1,
        "width": width,
        "max": np.iinfo(dtype).max,
    }
    x = edge_values(type)
    text = BY_CONSTANT.format(op=op, type=type, amount=number.get(amount) or amount, n=len(x))
    against_xla(text, x).bit_exact()


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", ["i32", "ui64", "i8"])
def test_constant_amounts_that_differ(op: str, type: str) -> None:
    text = BY_CONSTANT.format(op=op, type=type, amount="[0, 1, 5, 7]", n=4)
    run = against_xla(text, edge_values(type)[:4]).bit_exact()
    run.has_no("Where", "Less")


@pytest.mark.parametrize(
    ("op", "type", "nodes"),
    [
        ("shift_left", "ui32", ["BitShift"]),
        ("shift_right_logical", "ui32", ["BitShift"]),
        ("shift_right_logical", "ui64", ["BitShift"]),
        ("shift_left", "i32", ["Mul"]),
        ("shift_right_arithmetic", "i32", ["BitwiseAnd", "Div"]),
        ("shift_right_logical", "i32", ["Cast", "BitShift", "Cast"]),
    ],
)
def test_nodes_of_a_constant_amount(op: str, type: str, nodes: list[str]) -> None:
    text = BY_CONSTANT.format(op=op, type=type, amount="9", n=4)
    against_xla(text, edge_values(type)[:4]).bit_exact().graph_is(*nodes)


@pytest.mark.parametrize("op", ["shift_right_logical", "shift_right_arithmetic"])
def test_a_known_amount_of_what_is_not_negative_is_a_division(op: str) -> None:
    text = BY_CONSTANT.format(op=op, type="i32", amount="3", n=4)
    text = text.replace("%arg0: tensor<4xi32>", "%arg0: tensor<4xui8>").replace(
        f"%1 = stablehlo.{op} %arg0",
        "%x = stablehlo.convert %arg0 : (tensor<4xui8>) -> tensor<4xi32>\n"
        f"  %1 = stablehlo.{op} %x",
    )
    run = against_xla(text, np.array([0, 7, 8, 255], np.uint8)).bit_exact()
    run.graph_is("Cast", "Div")


@pytest.mark.parametrize("shape", ["", "0", "2x0x3"])
@pytest.mark.parametrize("op", OPS)
def test_edge_shapes(op: str, shape: str) -> None:
    dims = [int(dim) for dim in shape.split("x") if dim]
    x, by = np.full(dims, -9, np.int32), np.full(dims, 2, np.int32)
    against_xla(elementwise(op, ["i32", "i32"], "i32", shape), x, by).bit_exact()


NIBBLES = """
module {{ func.func public @main(%arg0: tensor<256xi8>, %arg1: tensor<256xi8>) -> tensor<256xi8> {{
  %0 = stablehlo.convert %arg0 : (tensor<256xi8>) -> tensor<256xi4>
  %1 = stablehlo.convert %arg1 : (tensor<256xi8>) -> tensor<256xi4>
  %2 = stablehlo.{op} %0, %1 : tensor<256xi4>
  %3 = stablehlo.convert %2 : (tensor<256xi4>) -> tensor<256xi8>
  return %3 : tensor<256xi8>
}} }}
"""


@pytest.mark.parametrize("op", OPS)
def test_four_bits(op: str) -> None:
    """All pairs, against Python's integers: XLA computes i4 in i8 and forgets to wrap."""
    x, by = (grid.reshape(-1).astype(np.int8) for grid in np.mgrid[-8:8, -8:8])
    run = against_xla(NIBBLES.format(op=op), x, by)
    expected = [_shifted(op, int(a), int(b)) for a, b in zip(x, by, strict=True)]
    for (result,) in run.actual:
        np.testing.assert_array_equal(result, expected)


def _shifted(op: str, x: int, by: int) -> int:
    inside = 0 <= by < 4
    if op == "shift_left":
        bits = x << by if inside else 0
    elif op == "shift_right_logical":
        bits = (x & 15) >> by if inside else 0
    else:
        bits = x >> (by if inside else 4)
    return ((bits & 15) ^ 8) - 8

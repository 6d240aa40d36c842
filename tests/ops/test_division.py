"""divide and remainder of real numbers."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from against_xla import against_xla
from edge_values import pairs
from elementwise_text import elementwise

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
FLOATS = ["f32", "f64", "f16", "bf16"]
OPS = ["divide", "remainder"]

BY_CONSTANT = """
module {{ func.func public @main(%arg0: tensor<{n}x{type}>) -> tensor<{n}x{type}> {{
  %0 = stablehlo.constant dense<{divisor}> : tensor<{n}x{type}>
  %1 = stablehlo.{op} %arg0, %0 : tensor<{n}x{type}>
  return %1 : tensor<{n}x{type}>
}} }}
"""


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", INTEGERS)
def test_integers(op: str, type: str) -> None:
    """All pairs of edges: division by 0, INT_MIN / -1, every pair of signs."""
    x, y = pairs(type)
    against_xla(elementwise(op, [type, type], type, f"{len(x)}"), x, y).bit_exact()


BY_ITSELF = """
module {{ func.func public @main(%arg0: tensor<4x{type}>) -> (tensor<4x{type}>, tensor<4x{type}>) {{
  %0 = stablehlo.divide %arg0, %arg0 : tensor<4x{type}>
  %1 = stablehlo.remainder %arg0, %arg0 : tensor<4x{type}>
  return %0, %1 : tensor<4x{type}>, tensor<4x{type}>
}} }}
"""


@pytest.mark.parametrize("type", INTEGERS)
def test_integers_by_themselves(type: str) -> None:
    """x / x = 1, for 0 as well: JAX 0.10 has x / 0 there, so that the numbers stand here."""
    dtype = numpy_type(type)
    x = np.array([0, 5, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    quotient, remainder = hlo2onnx.translate(BY_ITSELF.format(type=type))(x)
    np.testing.assert_array_equal(quotient, np.ones(4, dtype))
    np.testing.assert_array_equal(remainder, np.zeros(4, dtype))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_symbolic_floor_division_by_themselves(dtype: type) -> None:
    """XLA inlines @floor_divide when it makes the shapes static, and sees the same value twice."""
    x = np.array([0, 5, 100], dtype)
    symbolic = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b"), dtype)
    quotient, remainder = hlo2onnx.translate(lambda x: (x // x, x % x), symbolic)(x)
    np.testing.assert_array_equal(quotient, np.ones(3, dtype))
    np.testing.assert_array_equal(remainder, np.zeros(3, dtype))


def test_static_floor_division_by_themselves() -> None:
    """Here the call hides it, from the fusion that XLA makes of @floor_divide as well."""
    x = np.array([0, 5, -5], np.int32)
    assert hlo2onnx.translate(lambda x: x // x, x).verify(x)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", FLOATS)
def test_floats(op: str, type: str) -> None:
    x, y = pairs(type)
    run = against_xla(elementwise(op, [type, type], type, f"{len(x)}"), x, y).close()
    run.graph_is(*({"divide": ["Div"], "remainder": ["Mod"]}[op] + run_casts(type)))


def run_casts(type: str) -> list[str]:
    """Half-precision arithmetic goes through f32."""
    return ["Cast"] * 3 if type in ("f16", "bf16") else []


@pytest.mark.parametrize("shape", ["", "0", "2x0x3", "1"])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", ["i32", "ui8", "f32"])
def test_edge_shapes(op: str, type: str, shape: str) -> None:
    dims = [int(dim) for dim in shape.split("x") if dim]
    x, y = np.full(dims, 7, numpy_type(type)), np.full(dims, 2, numpy_type(type))
    against_xla(elementwise(op, [type, type], type, shape), x, y).bit_exact()


@pytest.mark.parametrize(
    ("divisor", "nodes"),
    [
        ("10", {"divide": ["Div"], "remainder": ["Div", "Mul", "Sub"]}),
        ("-3", {"divide": ["Div"], "remainder": ["Div", "Mul", "Sub"]}),
        ("-1", None),
        ("0", None),
    ],
)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", ["i32", "i64", "i8"])
def test_constant_divisor(
    op: str, type: str, divisor: str, nodes: dict[str, list[str]] | None
) -> None:
    """A divisor that is neither 0 nor -1 needs no guard."""
    x = np.unique(pairs(type)[0])
    text = BY_CONSTANT.format(op=op, type=type, divisor=divisor, n=len(x))
    run = against_xla(text, x).bit_exact()
    if nodes is not None:
        run.graph_is(*nodes[op])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("type", ["ui8", "ui32", "ui64"])
def test_unsigned_constant_divisor(op: str, type: str) -> None:
    x = np.unique(pairs(type)[0])
    run = against_xla(BY_CONSTANT.format(op=op, type=type, divisor="7", n=len(x)), x).bit_exact()
    run.graph_is({"divide": "Div", "remainder": "Mod"}[op])


CONSTANTS = """
module {{ func.func public @main() -> (tensor<2x{type}>, tensor<2x{type}>) {{
  %0 = stablehlo.constant dense<[{least}, 5]> : tensor<2x{type}>
  %1 = stablehlo.constant dense<[-1, 0]> : tensor<2x{type}>
  %2 = stablehlo.divide %0, %1 : tensor<2x{type}>
  %3 = stablehlo.remainder %0, %1 : tensor<2x{type}>
  return %2, %3 : tensor<2x{type}>, tensor<2x{type}>
}} }}
"""


@pytest.mark.parametrize("type", ["i8", "i32", "i64"])
def test_constants_that_trap(type: str) -> None:
    """ORT folds constants when it loads a model, and dies of INT_MIN / -1 (as XLA's compiler does,
    so that the expected numbers stand here)."""
    least = np.iinfo(numpy_type(type)).min
    program = hlo2onnx.translate(CONSTANTS.format(type=type, least=least))
    quotient, remainder = program()
    np.testing.assert_array_equal(quotient, [least, -1])
    np.testing.assert_array_equal(remainder, [0, 5])

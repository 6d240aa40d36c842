"""select and clamp."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values, pairs
from elementwise_text import elementwise

from hlo2onnx.frontend.mlir.types import numpy_type

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
FLOATS = ["f32", "f64", "f16", "bf16"]
COMPLEX = ["complex<f32>", "complex<f64>"]
ALL = [*INTEGERS, *FLOATS, "i1", "f8E4M3FN", "f8E5M2", *COMPLEX]


def _bits(array: np.ndarray) -> np.ndarray:
    return np.arange(array.size).reshape(array.shape) % 3 == 0


@pytest.mark.costly
@pytest.mark.parametrize("type", ALL)
def test_select(type: str) -> None:
    """Every edge value in both branches; -0 in the first may become +0 in ORT."""
    x = edge_values(type)
    text = elementwise("select", ["i1", type, type], type, f"{len(x)}")
    run = against_xla(text, _bits(x), x, x[::-1].copy())
    run.close() if x.dtype.kind in "fcV" else run.bit_exact()


@pytest.mark.parametrize("type", ["f32", "i32", "i1", "complex<f32>", "bf16"])
@pytest.mark.parametrize("pred", [True, False])
def test_scalar_pred(type: str, pred: bool) -> None:
    x = np.ones((2, 3), numpy_type(type))
    text = elementwise("select", ["i1", type, type], type, ["", "2x3", "2x3"])
    against_xla(text, np.array(pred), x, 0 * x if type != "i1" else ~x).bit_exact()


@pytest.mark.parametrize("shape", ["", "0", "2x0x3"])
@pytest.mark.parametrize("type", ["f32", "i1", "complex<f64>"])
def test_select_edge_shapes(type: str, shape: str) -> None:
    dims = [int(dim) for dim in shape.split("x") if dim]
    x = np.ones(dims, numpy_type(type))
    text = elementwise("select", ["i1", type, type], type, shape)
    against_xla(text, np.ones(dims, bool), x, x).bit_exact()


def test_select_is_where() -> None:
    x = edge_values("f32")
    text = elementwise("select", ["i1", "f32", "f32"], "f32", f"{len(x)}")
    against_xla(text, _bits(x), x, x).graph_is("Where")


@pytest.mark.parametrize("type", [*INTEGERS, *FLOATS])
def test_clamp(type: str) -> None:
    """Every value between every pair of bounds, lo above hi and NaN bounds among them."""
    lo, hi = pairs(type)
    x = edge_values(type)
    lo, hi, x = np.repeat(lo, len(x)), np.repeat(hi, len(x)), np.tile(x, len(lo))
    text = elementwise("clamp", [type] * 3, type, f"{len(x)}")
    run = against_xla(text, lo, x, hi)
    run.close() if type in FLOATS else run.bit_exact()


BOUNDS = [(-1, 2), (2, -1), (0, 0), (np.nan, 1), (-np.inf, np.nan), (-np.inf, np.inf)]


@pytest.mark.parametrize(("lo", "hi"), BOUNDS)
@pytest.mark.parametrize("type", ["f32", "f16", "i32", "ui8"])
def test_clamp_scalar_bounds(type: str, lo: float, hi: float) -> None:
    if type in ("i32", "ui8"):
        lo, hi = (int(np.clip(np.nan_to_num(bound), 0, 100)) for bound in (lo, hi))
    x, dtype = edge_values(type), numpy_type(type)
    text = elementwise("clamp", [type] * 3, type, ["", f"{len(x)}", ""])
    against_xla(text, np.array(lo, dtype), x, np.array(hi, dtype)).close()


CONSTANT_BOUNDS = """
module {{ func.func public @main(%arg0: tensor<2x3x{type}>) -> tensor<2x3x{type}> {{
  %0 = stablehlo.constant dense<0{point}> : tensor<{type}>
  %1 = stablehlo.constant dense<6{point}> : tensor<{type}>
  %2 = stablehlo.clamp %0, %arg0, %1
      : (tensor<{type}>, tensor<2x3x{type}>, tensor<{type}>) -> tensor<2x3x{type}>
  return %2 : tensor<2x3x{type}>
}} }}
"""


@pytest.mark.parametrize("type", ["f32", "f64", "i32", "i64", "ui8"])
def test_clamp_to_constants_is_clip(type: str) -> None:
    x = np.resize(edge_values(type), (2, 3))
    text = CONSTANT_BOUNDS.format(type=type, point=".0" if type[0] == "f" else "")
    # ORT's Clip of i64 is wrong beyond 32 bits.
    clip = ["Clip"] if type != "i64" else ["Less", "Where"] * 2
    against_xla(text, x).close().graph_is(*clip)


@pytest.mark.parametrize("shape", ["", "0", "2x0x3"])
def test_clamp_edge_shapes(shape: str) -> None:
    dims = [int(dim) for dim in shape.split("x") if dim]
    x = np.full(dims, 9, np.float32)
    text = elementwise("clamp", ["f32"] * 3, "f32", shape)
    against_xla(text, 0 * x, x, 0 * x + 6).bit_exact()

"""reduce_precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values

from hlo2onnx.frontend.mlir.types import numpy_type

TEXT = """
module {{ func.func public @main(%arg0: tensor<{dims}{type}>) -> tensor<{dims}{type}> {{
  %0 = stablehlo.reduce_precision %arg0, format = e{exponent}m{mantissa} : tensor<{dims}{type}>
  return %0 : tensor<{dims}{type}>
}} }}
"""

FORMATS = [(5, 10), (8, 7), (8, 23), (11, 52), (5, 2), (4, 3), (8, 0), (5, 0), (1, 10), (2, 3)]
FORMATS += [(11, 3), (8, 10), (6, 40), (5, 7)]
EIGHT_BITS = ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"]


def reduced(type: str, format: tuple[int, int], dims: str) -> str:
    exponent, mantissa = format
    return TEXT.format(type=type, dims=dims, exponent=exponent, mantissa=mantissa)


def interesting(type: str, format: tuple[int, int]) -> np.ndarray:
    """Ties and their neighbours at every exponent the two formats treat differently."""
    dtype = numpy_type(type)
    if dtype.itemsize == 1:
        return np.arange(256).astype(np.uint8).view(dtype)
    exponent, mantissa = format
    bias = (1 << exponent - 1) - 1
    digits = min(mantissa, ml_dtypes.finfo(dtype).nmant)
    scales = [0, 1, -bias - 2, -bias - 1, -bias, 1 - bias, bias - 1, bias, bias + 1, bias + 2]
    steps = np.array([0, 1, 2, 3, (1 << digits) - 2, (1 << digits) - 1, (1 << digits)])
    fractions = np.concatenate([steps, steps + 0.5, steps + 0.25, steps + 0.75]) / (1 << digits)
    with np.errstate(all="ignore"):
        exact = np.ldexp(1 + fractions[:, None], np.array(scales)[None, :]).reshape(-1)
        x = np.concatenate([exact, -exact]).astype(dtype)
        x = np.concatenate([x, np.nextafter(x, dtype.type(np.inf)), np.nextafter(x, dtype.type(0))])
    normal = np.abs(x.astype(np.float64)) >= float(ml_dtypes.finfo(dtype).smallest_normal)
    return np.concatenate([x[normal], edge_values(type)])


@pytest.mark.costly
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16", *EIGHT_BITS])
def test_formats(type: str, format: tuple[int, int]) -> None:
    x = interesting(type, format)
    against_xla(reduced(type, format, f"{len(x)}x"), x).bit_exact()


@pytest.mark.parametrize("format", [(5, 10), (8, 7), (4, 3), (11, 3), (6, 12)])
@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_without_bitcast(type: str, format: tuple[int, int]) -> None:
    x = interesting(type, format)
    against_xla(reduced(type, format, f"{len(x)}x"), x, opset=23).bit_exact().has_no("BitCast")


@pytest.mark.parametrize("format", [(5, 10), (4, 3), (8, 3), (3, 7)])
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_every_value(type: str, format: tuple[int, int]) -> None:
    """Except the subnormals of bf16, which XLA flushes in comparisons."""
    x = np.arange(1 << 16).astype(np.uint16).view(numpy_type(type))
    if type == "bf16":
        magnitude = np.abs(x.astype(np.float32))
        x = x[~((magnitude > 0) & (magnitude < np.finfo(np.float32).smallest_normal))]
    against_xla(reduced(type, format, f"{len(x)}x"), x).bit_exact()


@pytest.mark.parametrize(
    ("type", "format", "nodes"),
    [
        ("f32", (8, 23), ["Identity"]),
        ("f32", (11, 52), ["Identity"]),
        ("f32", (8, 7), ["Cast", "Cast"]),
        ("f32", (5, 10), ["Abs", "Cast", "Cast", "GreaterOrEqual", "Mul", "Where"]),
        ("bf16", (8, 10), ["Identity"]),
    ],
)
def test_nodes(type: str, format: tuple[int, int], nodes: list[str]) -> None:
    """What casts can do needs no bits and no newer opset."""
    x = edge_values(type)
    run = against_xla(reduced(type, format, f"{len(x)}x"), x).bit_exact()
    run.graph_is(*nodes)
    assert run.program.report.opset == 21


@pytest.mark.parametrize("dims", ["", "0x", "2x0x3x"])
@pytest.mark.parametrize("format", [(5, 10), (8, 3)])
def test_edge_shapes(dims: str, format: tuple[int, int]) -> None:
    x = np.full([int(dim) for dim in dims.split("x") if dim], 1.2345, np.float32)
    against_xla(reduced("f32", format, dims), x).bit_exact()

"""pad with edges that add or cut, and gaps between elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from against_xla import Run, against_xla
from edge_values import edge_values
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

PAD = """
module {{ func.func public @main(%arg0: {operand}, %arg1: tensor<{element}>) -> {result} {{
  %0 = stablehlo.pad %arg0, %arg1, low = {low}, high = {high}, interior = {gap} :
    ({operand}, tensor<{element}>) -> {result}
  return %0 : {result}
}} }}
"""

Axis = tuple[int, int, int, int]
"""Extent, low edge, high edge, gap."""


def extent(axis: Axis) -> int:
    size, low, high, gap = axis
    return low + size + max(size - 1, 0) * gap + high


def padded(axes: Sequence[Axis], element: str = "f32") -> Run:
    sizes, low, high, gap = ([axis[part] for axis in axes] for part in range(4))
    text = PAD.format(
        operand=tensor(sizes, element),
        element=element,
        result=tensor([extent(axis) for axis in axes], element),
        low=low,
        high=high,
        gap=gap,
    )
    x = np.resize(edge_values(element), int(np.prod(sizes))).reshape(sizes)
    fill = np.array(1, numpy_type(element)) if element == "i1" else edge_values(element)[5]
    return against_xla(text, x, np.asarray(fill, numpy_type(element))).bit_exact()


CASES: list[tuple[list[Axis], list[str]]] = [
    ([(3, 1, 2, 0)], ["Pad"]),
    ([(3, 0, 0, 0)], ["Identity"]),
    ([(3, -1, 0, 0)], ["Slice"]),
    ([(3, 0, -2, 0)], ["Slice"]),
    ([(3, -1, 1, 0)], ["Pad", "Slice"]),
    ([(3, -2, -1, 0)], ["Slice"]),
    ([(2, -3, 5, 0)], ["Pad", "Slice"]),
    ([(2, 5, -4, 0)], ["Pad", "Slice"]),
    ([(3, 0, 0, 2)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(3, 0, 2, 2)], ["Reshape", "Pad", "Reshape"]),
    ([(3, 3, 2, 2)], ["Reshape", "Pad", "Reshape"]),
    ([(3, 1, 1, 1)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(3, -1, 4, 1)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(3, 7, -9, 3)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(3, -2, -3, 1)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(1, 1, 0, 3)], ["Pad"]),
    ([(2, 1, 1, 0), (3, 0, 0, 1)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(2, -1, 3, 2), (3, 2, -1, 1), (2, 0, 0, 0)], ["Reshape", "Pad", "Reshape", "Slice"]),
    ([(0, 2, 1, 0)], ["Expand"]),
    ([(0, 3, -1, 4), (2, 1, 0, 0)], ["Expand"]),
    ([(0, 0, 0, 1)], ["Identity"]),  # of an empty constant
    ([], ["Identity"]),
]


@pytest.mark.costly
@pytest.mark.parametrize(("axes", "nodes"), CASES)
def test_pad(axes: list[Axis], nodes: list[str]) -> None:
    padded(axes).graph_is(*nodes)


@pytest.mark.costly
@pytest.mark.parametrize(
    "element",
    ["i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "f16", "bf16", "f32", "f64",
     "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "complex<f32>", "complex<f64>"],
)  # fmt: skip
def test_element_types(element: str) -> None:
    padded([(5, 1, -1, 0), (4, 0, 3, 1)], element)

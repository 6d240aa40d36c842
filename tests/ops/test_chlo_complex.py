"""The CHLO ops that are about complex numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from mlir_text import tensor

from hlo2onnx import translate

KERNEL = """
module {{ func.func public @main(%arg0: tensor<36x{element}>) -> tensor<36x{element}> {{
  %0 = "chlo._asin_acos_kernel"(%arg0) : (tensor<36x{element}>) -> tensor<36x{element}>
  return %0 : tensor<36x{element}>
}} }}
"""
BROADCAST = """
module {{ func.func public @main(%re: {re}, %im: {im}) -> {result} {{
  %0 = chlo.broadcast_complex %re, %im {attributes} : ({re}, {im}) -> {result}
  return %0 : {result}
}} }}
"""


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
def test_asin_acos_kernel(element: str) -> None:
    """What MLIR expands complex asin and acos into first."""
    axis = np.array([-30.0, -1.5, -0.2, 0.2, 1.5, 30.0])
    x = (axis[:, None] + 1j * axis).reshape(-1)
    against_xla(
        KERNEL.format(element=element), x.astype(f"c{8 if '32' in element else 16}")
    ).close()


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(
    ("first", "second", "axes"),
    [
        ((2, 3), (2, 3), None),
        ((2, 3), (3,), None),
        ((), (2, 3), None),
        ((2, 1), (1, 3), None),
        ((0, 1), (3,), None),
        ((2, 3), (2,), [0]),
        ((3,), (3, 4), [0]),
    ],
)
def test_broadcast_complex(
    element: str, first: tuple[int, ...], second: tuple[int, ...], axes: list[int] | None
) -> None:
    dtype = np.dtype(f"f{int(element[1:]) // 8}")
    parts = [np.arange(np.prod(s), dtype=dtype).reshape(s) - 2 for s in (first, second)]
    aligned = parts
    if axes is not None:
        aligned = [part if part.ndim == 2 else part[:, None] for part in parts]
    re, im = np.broadcast_arrays(*aligned)
    text = BROADCAST.format(
        re=tensor(first, element),
        im=tensor(second, element),
        result=tensor(re.shape, f"complex<{element}>"),
        attributes="" if axes is None else f"{{broadcast_dimensions = array<i64: {axes[0]}>}}",
    )
    got = translate(text)(*parts)
    assert got.shape == re.shape
    np.testing.assert_array_equal(got.real, re)
    np.testing.assert_array_equal(got.imag, im)

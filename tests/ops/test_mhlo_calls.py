"""Custom calls that carry the ops of XLA's own dialect, as older programs do."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

INSIDE = {"acosh": (1.0, 5.0), "atanh": (-0.9, 0.9), "acos": (-1.0, 1.0), "asin": (-1.0, 1.0)}
NAMES = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan")


def call(name: str, element: str) -> str:
    return f"""
    module {{ func.func public @main(%arg0: tensor<41x{element}>) -> tensor<41x{element}> {{
      %0 = stablehlo.custom_call @mhlo.{name}(%arg0) {{mhlo.attributes = {{}},
        mhlo.version = 1 : i64}} : (tensor<41x{element}>) -> tensor<41x{element}>
      return %0 : tensor<41x{element}>
    }} }}
    """


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
def test_of_real_numbers(name: str, element: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[element]
    x = np.linspace(*INSIDE.get(name, (-1.4, 1.4)), 41).astype(dtype)
    against_xla(call(name, element), x).close()


@pytest.mark.parametrize("name", ["sinh", "cosh", "tan"])
def test_of_complex_numbers(name: str) -> None:
    x = (np.linspace(-1, 1, 41) + 1j * np.linspace(1, 0.2, 41)).astype(np.complex64)
    against_xla(call(name, "complex<f32>"), x).close()

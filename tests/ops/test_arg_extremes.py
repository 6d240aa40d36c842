"""argmax and argmin, as JAX and as XLA build them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from against_xla import against_jax, against_xla
from reduce_case import FLOATS, INTEGERS, values

from hlo2onnx.frontend.mlir.types import numpy_type

ARG = {"argmax": jax.lax.argmax, "argmin": jax.lax.argmin}


@pytest.mark.costly
@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1"])
@pytest.mark.parametrize("name", ARG)
def test_arg_extremes(name: str, element: str) -> None:
    index = {"i1": np.uint8, "f32": np.int64, "f64": np.int16}.get(element, np.int32)

    def function(*operands: jax.Array) -> list[jax.Array]:
        return [ARG[name](x, axis, index) for x, axis in zip(operands, (0, 1, 2, 0), strict=True)]

    shapes = [(40, 6), (6, 40), (2, 3, 9), (1,)]
    against_jax(function, *(values(element, shape) for shape in shapes)).bit_exact()


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("name", ARG)
def test_arg_extremes_between_special_values(name: str, element: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
    rows = [[a, b, c] for a in special for b in special for c in special]
    x = np.array(rows).astype(numpy_type(element))
    against_jax(lambda x: ARG[name](x, 1, np.int32), x).bit_exact()


PAIRS = """
module {{ func.func public @main(%x: tensor<3x9x{value}>, %i: tensor<3x9x{index}>)
    -> (tensor<3x{value}>, tensor<3x{index}>) {{
  %p = stablehlo.constant dense<{start}> : tensor<{value}>
  %q = stablehlo.constant dense<{first}> : tensor<{index}>
  %iota = stablehlo.iota dim = {dim} : tensor<3x9x{index}>
  %o:2 = stablehlo.reduce(%x init: %p), ({indices} init: %q) across dimensions = [1]
    : (tensor<3x9x{value}>, tensor<3x9x{index}>, tensor<{value}>, tensor<{index}>)
    -> (tensor<3x{value}>, tensor<3x{index}>)
   reducer(%a: tensor<{value}>, %b: tensor<{value}>) (%j: tensor<{index}>, %k: tensor<{index}>) {{
    %gt = stablehlo.compare GT, %a, %b : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %nan = stablehlo.compare NE, %a, %a : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %wins = stablehlo.or %gt, %nan : tensor<i1>
    %eq = stablehlo.compare EQ, %a, %b : (tensor<{value}>, tensor<{value}>) -> tensor<i1>
    %lt = stablehlo.compare LT, %j, %k : (tensor<{index}>, tensor<{index}>) -> tensor<i1>
    %tie = stablehlo.and %eq, %lt : tensor<i1>
    %0 = stablehlo.select %wins, %a, %b : tensor<i1>, tensor<{value}>
    %first = stablehlo.or %wins, %tie : tensor<i1>
    %1 = stablehlo.select %first, %j, %k : tensor<i1>, tensor<{index}>
    stablehlo.return %0, %1 : tensor<{value}>, tensor<{index}>
  }}
  return %o#0, %o#1 : tensor<3x{value}>, tensor<3x{index}>
}} }}"""


def pairs(**changes: str) -> str:
    defaults = {"value": "i32", "index": "i32", "start": "-2147483648", "first": "0"}
    return PAIRS.format(**{**defaults, "dim": "1", "indices": "%iota", **changes})


@pytest.mark.costly
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, True),
        ({"value": "f32", "start": "0xFF800000"}, True),
        ({"start": "3"}, True),
        ({"start": "100"}, True),
        ({"start": "3", "first": "5"}, True),
        # NaN wins whatever else there is: a constant.
        ({"value": "f32", "start": "0x7FC00000"}, False),
        ({"first": "-1"}, True),
        ({"indices": "%i"}, False),
        ({"dim": "0"}, False),
        ({"value": "f32", "start": "0xFF800000", "indices": "%i"}, False),
        ({"index": "f32", "first": "0.0"}, False),
        ({"index": "i4", "indices": "%iota"}, False),
    ],
)
def test_both_results_of_an_arg_extreme(changes: dict[str, str], named: bool) -> None:
    text = pairs(**changes)
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (3, 9)).astype(numpy_type(changes.get("value", "i32")))
    x[2] = np.iinfo(np.int32).min if x.dtype.kind == "i" else -np.inf
    if x.dtype.kind == "f":
        x[0, 4] = np.nan
    if changes.get("index") == "i4":
        text = text.replace("%i: tensor<3x9xi4>", "%i: tensor<3x9xi32>")
        text = as_i32_result(text)
    i = rng.integers(0, 4, (3, 9)).astype(
        numpy_type(changes.get("index", "i32").replace("i4", "i32"))
    )
    run = against_xla(text, x, i).bit_exact()
    assert (run.nodes["ArgMax"] > 0) == named


def as_i32_result(text: str) -> str:
    """ORT's Python API takes no 4-bit arrays, so the model gives a wider one."""
    return text.replace(
        "-> (tensor<3xi32>, tensor<3xi4>) {\n", "-> (tensor<3xi32>, tensor<3xi32>) {\n", 1
    ).replace(
        "return %o#0, %o#1 : tensor<3xi32>, tensor<3xi4>",
        "%wide = stablehlo.convert %o#1 : (tensor<3xi4>) -> tensor<3xi32>\n"
        "return %o#0, %wide : tensor<3xi32>, tensor<3xi32>",
    )

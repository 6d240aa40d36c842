"""compare."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from edge_values import pairs
from elementwise_text import elementwise

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type

DIRECTIONS = ["EQ", "NE", "LT", "LE", "GT", "GE"]
NUMBERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f32", "f64", "f16", "bf16"]
FLOATS = ["f32", "f64", "f16", "bf16"]


def compare(direction: str, type: str, shape: str, compare_type: str = "") -> str:
    attributes = f"{{comparison_direction = #stablehlo<comparison_direction {direction}>"
    if compare_type:
        attributes += f", compare_type = #stablehlo<comparison_type {compare_type}>"
    return elementwise("compare", [type, type], "i1", shape, attributes + "}")


@pytest.mark.costly
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("type", [*NUMBERS, "i1", "f8E4M3FN", "f8E5M2FNUZ"])
def test_all_pairs(direction: str, type: str) -> None:
    """NaN against everything, ±0, booleans."""
    x, y = pairs(type)
    against_xla(compare(direction, type, f"{len(x)}"), x, y).bit_exact()


@pytest.mark.parametrize(
    ("type", "compare_type"),
    [("f32", "FLOAT"), ("i32", "SIGNED"), ("ui32", "UNSIGNED"), ("i1", "UNSIGNED")],
)
@pytest.mark.parametrize("direction", ["NE", "LE"])
def test_compare_type(direction: str, type: str, compare_type: str) -> None:
    x, y = pairs(type)
    against_xla(compare(direction, type, f"{len(x)}", compare_type), x, y).bit_exact()


def _ordered(type: str) -> np.ndarray:
    """Edges in total order, NaN of both signs among them."""
    dtype = numpy_type(type)
    numbers = np.array([-np.inf, -2, -1, -0.0, 0, 1, 2, np.inf, np.nan]).astype(dtype)
    return np.concatenate([-numbers[-1:], numbers])


@pytest.mark.costly
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("type", FLOATS)
def test_total_order(direction: str, type: str) -> None:
    """-NaN < -inf < -0 < +0 < inf < NaN."""
    x, y = (grid.reshape(-1) for grid in np.meshgrid(_ordered(type), _ordered(type)))
    run = against_xla(compare(direction, type, f"{len(x)}", "TOTALORDER"), x, y).bit_exact()
    assert run.nodes["BitCast"] == 2


@pytest.mark.costly
@pytest.mark.parametrize("direction", ["EQ", "LT", "GE"])
@pytest.mark.parametrize("type", [*FLOATS, "f8E4M3FN", "f8E5M2"])
def test_total_order_without_bitcast(direction: str, type: str) -> None:
    """An explicit opset is obeyed; then every NaN is positive."""
    ordered = _ordered(type)[2:] if type == "f8E4M3FN" else _ordered(type)[1:]
    x, y = (grid.reshape(-1) for grid in np.meshgrid(ordered, ordered))
    text = compare(direction, type, f"{len(x)}", "TOTALORDER")
    run = against_xla(text, x, y, opset=23).bit_exact()
    run.has_no("BitCast")
    assert "NaN becomes the quiet NaN" in str(run.program.report)


def _canonical(type: str, shape: str, nan: str, zero: str, name: str) -> str:
    """JAX's select(x != x, NaN, select(x == 0, 0, x)) of the argument %`name`."""
    x, mask = f"tensor<{shape}x{type}>", f"tensor<{shape}xi1>"
    return f"""
      %zero_{name} = stablehlo.constant dense<{zero}> : {x}
      %nan_{name} = stablehlo.constant dense<{nan}> : {x}
      %is_zero_{name} = stablehlo.compare EQ, %{name}, %zero_{name} : ({x}, {x}) -> {mask}
      %one_zero_{name} = stablehlo.select %is_zero_{name}, %zero_{name}, %{name} : {mask}, {x}
      %is_nan_{name} = stablehlo.compare NE, %{name}, %{name} : ({x}, {x}) -> {mask}
      %same_{name} = stablehlo.select %is_nan_{name}, %nan_{name}, %one_zero_{name} : {mask}, {x}
"""


def canonical_order(direction: str, type: str, shape: str, nan: str, zero: str = "0.0") -> str:
    x, mask = f"tensor<{shape}x{type}>", f"tensor<{shape}xi1>"
    sides = [_canonical(type, shape, nan, zero, name) for name in "ab"]
    return f"""
    func.func public @main(%a: {x}, %b: {x}) -> {mask} {{ {"".join(sides)}
      %0 = stablehlo.compare {direction}, %same_a, %same_b, TOTALORDER : ({x}, {x}) -> {mask}
      return %0 : {mask}
    }}"""


_NAN = {"f32": "0x7FC00000", "f64": "0x7FF8000000000000", "f16": "0x7E00", "bf16": "0x7FC0"}


@pytest.mark.costly
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("type", FLOATS)
def test_total_order_of_canonical_numbers(direction: str, type: str) -> None:
    """Without signs of zero and NaN the total order is that of numbers, NaN the greatest."""
    x, y = (grid.reshape(-1) for grid in np.meshgrid(_ordered(type), _ordered(type)))
    text = canonical_order(direction, type, f"{len(x)}", _NAN[type])
    run = against_xla(text, x, y).bit_exact()
    run.has_no("BitCast", "Where")
    assert run.program.report.opset <= 23


@pytest.mark.parametrize(("nan", "zero"), [("0xFFC00000", "0.0"), ("0x7FC00000", "-0.0")])
def test_total_order_of_other_constants(nan: str, zero: str) -> None:
    """A negative NaN comes first, and -0 before +0: bits are compared."""
    x, y = (grid.reshape(-1) for grid in np.meshgrid(_ordered("f32"), _ordered("f32")))
    text = canonical_order("LT", "f32", f"{len(x)}", nan, zero)
    assert against_xla(text, x, y).bit_exact().nodes["BitCast"] == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: jnp.searchsorted(x, y),
        lambda x, y: jnp.searchsorted(x, y, method="compare_all", side="right"),
        lambda x, y: jnp.interp(y, x, x * x),
        lambda x, y: jnp.digitize(y, jnp.arange(4.0)),
    ],
)
def test_search_needs_no_newer_opset(function: Callable[..., jax.Array]) -> None:
    x = np.array([-np.inf, -2, -0.0, 0.0, 1e-30, 3, np.inf, np.nan], np.float32)
    y = np.array([np.nan, -np.nan, -0.0, 0.0, -np.inf, np.inf, 2, -3], np.float32)
    program = hlo2onnx.translate(function, x, y)
    assert program.report.opset == 21
    np.testing.assert_array_equal(program(x, y), jax.jit(function)(x, y))


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("direction", ["EQ", "NE"])
def test_complex(direction: str, element: str) -> None:
    numbers = np.array([1 + 2j, 1 - 2j, 2 + 2j, 0j, complex(-0.0, 0.0), complex(1, np.nan)])
    dtype = np.complex64 if element == "f32" else np.complex128
    x, y = (grid.reshape(-1).astype(dtype) for grid in np.meshgrid(numbers, numbers))
    against_xla(compare(direction, f"complex<{element}>", f"{len(x)}"), x, y).bit_exact()


@pytest.mark.parametrize(
    ("direction", "type", "compare_type", "why"),
    [
        ("LT", "complex<f32>", "", "no order"),
        ("EQ", "complex<f32>", "TOTALORDER", "no order"),
        ("LT", "i32", "UNSIGNED", "does not fit"),
        ("LT", "ui32", "TOTALORDER", "does not fit"),
        ("LT", "i1", "SIGNED", "does not fit"),
    ],
)
def test_refusals(direction: str, type: str, compare_type: str, why: str) -> None:
    with pytest.raises(TranslationError, match=why):
        hlo2onnx.translate(compare(direction, type, "2", compare_type))


@pytest.mark.parametrize("shape", ["", "0", "2x0x3"])
@pytest.mark.parametrize("type", ["f32", "i32", "i1"])
def test_edge_shapes(type: str, shape: str) -> None:
    dims = [int(dim) for dim in shape.split("x") if dim]
    x = np.ones(dims, numpy_type(type))
    for direction in DIRECTIONS:
        against_xla(compare(direction, type, shape), x, x).bit_exact()


@pytest.mark.parametrize(
    ("direction", "nodes"),
    [("EQ", ["Equal"]), ("NE", ["Equal", "Not"]), ("LE", ["LessOrEqual"]), ("GT", ["Greater"])],
)
def test_nodes(direction: str, nodes: list[str]) -> None:
    x, y = pairs("f32")
    against_xla(compare(direction, "f32", f"{len(x)}"), x, y).graph_is(*nodes)


def test_total_order_of_every_bf16() -> None:
    """Neighbouring codes compare as their order says, over the whole type."""
    codes = np.arange(1 << 16, dtype=np.uint16)
    order = np.argsort(
        np.where(codes < 1 << 15, codes.astype(int), (1 << 15) - codes.astype(int) - 1)
    )
    ordered = codes[order].view(ml_dtypes.bfloat16)
    text = compare("LT", "bf16", f"{len(ordered) - 1}", "TOTALORDER")
    run = against_xla(text, ordered[:-1].copy(), ordered[1:].copy()).bit_exact()
    assert all(outputs[0].all() for outputs in run.actual)

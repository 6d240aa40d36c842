"""convert: the whole matrix of element types."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values
from elementwise_text import elementwise

from hlo2onnx.frontend.mlir.types import numpy_type

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
FLOATS = ["f32", "f64", "f16", "bf16"]
EIGHT_BITS = ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"]
REAL = ["i1", *INTEGERS, *FLOATS, *EIGHT_BITS]


def converted(source: str, target: str, x: np.ndarray) -> None:
    dims = "x".join(map(str, x.shape))
    against_xla(elementwise("convert", [source], target, dims), x).bit_exact()


def interesting(source: str) -> np.ndarray:
    """Edges; for integers the neighbourhoods of all powers of two; for floats of those that bound
    an integer type, and every number of a narrow type with what lies half-way to the next."""
    dtype = numpy_type(source)
    if dtype.kind == "b":
        return edge_values(source)
    if dtype.kind in "iu":
        powers = [
            sign * 2**bit + step for bit in range(64) for step in (-1, 0, 1) for sign in (1, -1)
        ]
        info = np.iinfo(dtype)
        inside = [number for number in powers if info.min <= number <= info.max]
        return np.concatenate([edge_values(source), np.array(inside, dtype)])
    if dtype.itemsize == 1:
        return np.arange(256).astype(np.uint8).view(dtype)
    limits = np.array([2.0**bit for bit in (0, 7, 8, 15, 16, 31, 32, 63, 64)])
    with np.errstate(over="ignore"):
        near = np.concatenate([limits, -limits]).astype(dtype)
    above, below = (np.nextafter(near, near.dtype.type(end)) for end in (np.inf, -np.inf))
    fractions = (near.astype(np.float64) - 0.5).astype(dtype)
    return np.concatenate([edge_values(source), near, above, below, fractions, _ties(dtype)])


def _ties(dtype: np.dtype) -> np.ndarray:
    """Numbers half-way between two neighbours of each narrower float type, and beside them."""
    parts = []
    for element in [*EIGHT_BITS, "f16", "bf16", "f32"]:
        narrow = numpy_type(element)
        if narrow.itemsize >= dtype.itemsize:
            continue
        codes = np.arange(256 ** min(narrow.itemsize, 2))
        if narrow.itemsize == 2:
            codes = codes[:: 37 if element == "f16" else 61]
        if narrow.itemsize == 4:
            codes = np.random.default_rng(0).integers(0, 1 << 31, 500)
        unsigned = codes.astype(f"u{narrow.itemsize}")
        with np.errstate(invalid="ignore", over="ignore"):
            values, following = (
                c.view(narrow).astype(np.float64) for c in (unsigned, unsigned + 1)
            )
            middle = ((values + following) / 2).astype(dtype)
            middle = middle[np.isfinite(middle.astype(np.float64))]
            ends = (dtype.type(np.inf), dtype.type(-np.inf))
            parts += [middle, *(np.nextafter(middle, end) for end in ends)]
    numbers = np.concatenate(parts) if parts else np.zeros(0, dtype)
    # XLA flushes subnormals on both sides of a conversion.
    normal = np.abs(numbers.astype(np.float64)) >= float(
        ml_dtypes.finfo(np.float32).smallest_normal
    )
    return numbers[normal]


@pytest.mark.costly
@pytest.mark.parametrize("target", REAL)
@pytest.mark.parametrize("source", REAL)
def test_matrix(source: str, target: str) -> None:
    """Bit for bit what XLA gives: saturation, NaN -> 0, wrapping, roundings, overflow."""
    x = interesting(source)
    if (source, target) == ("f64", "f16"):
        # XLA rounds once on CPUs with AVX512-FP16. On others it rounds to f32 first, as we do.
        with np.errstate(over="ignore"):
            once, twice = x.astype(np.float16), x.astype(np.float32).astype(np.float16)
        x = x[(once == twice) | np.isnan(x)]
    converted(source, target, x)


@pytest.mark.parametrize("target", ["i8", "i16", "ui8", "i32", "i1", "f32", *EIGHT_BITS])
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_every_value(source: str, target: str) -> None:
    x = np.arange(1 << 16).astype(np.uint16).view(numpy_type(source))
    converted(source, target, x)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
@pytest.mark.parametrize(("source", "target"), [("f32", "i32"), ("i64", "ui8"), ("f32", "f8E5M2")])
def test_edge_shapes(source: str, target: str, shape: tuple[int, ...]) -> None:
    converted(source, target, np.full(shape, 7, numpy_type(source)))


COMPLEX = [
    pair
    for pair in itertools.product(["complex<f32>", "complex<f64>"], [*REAL[:13], "complex<f32>"])
    if pair[0] != pair[1]
]


@pytest.mark.costly
@pytest.mark.parametrize(("source", "target"), COMPLEX)
def test_from_complex(source: str, target: str) -> None:
    """Real targets lose the imaginary part."""
    numbers = [1 + 2j, 2j, 0j, complex(np.nan, 1), complex(0, np.nan), 1e30, -3.7 + 1j]
    converted(source, target, np.array(numbers, numpy_type(source)))


@pytest.mark.costly
@pytest.mark.parametrize("target", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("source", [*REAL[:13], "complex<f32>"])
def test_to_complex(source: str, target: str) -> None:
    x = np.array([0, 1, 3, 100]).astype(numpy_type(source))
    converted(source, target, x)
    converted(source, target, x[1])


@pytest.mark.parametrize(
    ("source", "target", "nodes"),
    [
        ("f32", "f64", ["Cast"]),
        ("f64", "f16", ["Cast"]),
        ("i64", "i32", ["Cast"]),
        ("f32", "i1", ["Cast"]),
        ("f32", "i8", ["IsNaN", "Where", "Clip", "Cast"]),
        ("f64", "i32", ["IsNaN", "Where", "Clip", "Cast"]),
        ("f32", "i32", ["IsNaN", "Where", "Clip", "Cast", "GreaterOrEqual", "Where"]),
        ("f32", "f8E4M3FNUZ", ["Cast"]),
    ],
)
def test_nodes(source: str, target: str, nodes: list[str]) -> None:
    x = edge_values(source)
    run = against_xla(elementwise("convert", [source], target, f"{len(x)}"), x)
    run.bit_exact().graph_is(*nodes)


KNOWN_RANGE = """
module {{ func.func public @main(%arg0: tensor<17x{source}>) -> tensor<17x{target}> {{
  %0 = stablehlo.convert %arg0 : (tensor<17x{source}>) -> tensor<17xf32>
  %1 = stablehlo.constant dense<{low}> : tensor<f32>
  %2 = stablehlo.constant dense<{high}> : tensor<f32>
  %3 = stablehlo.clamp %1, %0, %2 : (tensor<f32>, tensor<17xf32>, tensor<f32>) -> tensor<17xf32>
  %4 = stablehlo.floor %3 : tensor<17xf32>
  %5 = stablehlo.convert %4 : (tensor<17xf32>) -> tensor<17x{target}>
  return %5 : tensor<17x{target}>
}} }}
"""


@pytest.mark.parametrize(
    ("source", "target", "low", "high", "guards"),
    [
        ("i32", "i8", "-128.0", "127.9", []),
        ("i32", "ui8", "0.0", "255.0", []),
        ("i32", "i32", "0.0", "255.0", []),
        ("f32", "ui8", "0.0", "255.0", ["IsNaN", "Where"]),
        ("i32", "i8", "-128.0", "128.0", ["Clip"]),
        ("i32", "ui8", "-1.0", "255.0", ["Clip"]),
        ("i32", "i32", "0.0", "2147483648.0", ["Clip", "GreaterOrEqual", "Where"]),
    ],
)
def test_known_range(source: str, target: str, low: str, high: str, guards: list[str]) -> None:
    """Guards stand only against what the operand may be."""
    x = np.resize(edge_values(source), 17)
    text = KNOWN_RANGE.format(source=source, target=target, low=low, high=high)
    run = against_xla(text, x).bit_exact()
    casts = ["Cast"] * (2 if source == "i32" else 1)
    run.graph_is("Clip", "Floor", *casts, *guards)


NIBBLES = """
module {{ func.func public @main(%arg0: tensor<{n}x{source}>) -> tensor<{n}x{back}> {{
  %0 = stablehlo.convert %arg0 : (tensor<{n}x{source}>) -> tensor<{n}x{narrow}>
  %1 = stablehlo.convert %0 : (tensor<{n}x{narrow}>) -> tensor<{n}x{back}>
  return %1 : tensor<{n}x{back}>
}} }}
"""


@pytest.mark.parametrize("back", ["i32", "f32", "i1"])
@pytest.mark.parametrize("narrow", ["i4", "ui4"])
@pytest.mark.parametrize("source", ["i8", "i64", "f32"])
def test_four_bits(source: str, narrow: str, back: str) -> None:
    """Integers wrap, floats truncate and saturate."""
    x = np.array([-100, -17, -9, -8, -1, 0, 1, 7, 8, 15, 16, 100], numpy_type(source))
    if source == "f32":
        x = np.concatenate([x, x + np.float32(0.75)])
    text = NIBBLES.format(source=source, narrow=narrow, back=back, n=len(x))
    run = against_xla(text, x)
    low, high = (-8, 7) if narrow == "i4" else (0, 15)
    if source == "f32":
        wrapped = np.trunc(np.clip(x, low, high))
    else:
        wrapped = (x.astype(int) - low) % 16 + low
    for (result,) in run.actual:
        np.testing.assert_array_equal(result, wrapped.astype(numpy_type(back)))


@pytest.mark.parametrize(("narrow", "low"), [("i2", -2), ("ui2", 0)])
def test_two_bits(narrow: str, low: int) -> None:
    """Types of ONNX since opset 25."""
    x = np.arange(-9, 10).astype(np.int32)
    text = NIBBLES.format(source="i32", narrow=narrow, back="i32", n=len(x))
    run = against_xla(text, x, opset=26)
    for (result,) in run.actual:
        np.testing.assert_array_equal(result, (x - low) % 4 + low)

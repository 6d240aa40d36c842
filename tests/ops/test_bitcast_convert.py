"""bitcast_convert, with BitCast and without."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values
from elementwise_text import tensor

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type

pytestmark = pytest.mark.wide

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
FLOATS = ["f32", "f64", "f16", "bf16"]
EIGHT_BITS = ["f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"]
ALL = [*INTEGERS, *FLOATS, *EIGHT_BITS]


def bitcast(source: str, from_dims: str, target: str, to_dims: str) -> str:
    argument, result = tensor(from_dims, source), tensor(to_dims, target)
    return f"""
module {{ func.func public @main(%arg0: {argument}) -> {result} {{
  %0 = stablehlo.bitcast_convert %arg0 : ({argument}) -> {result}
  return %0 : {result}
}} }}
"""


def width(element: str) -> int:
    return numpy_type(element).itemsize * 8


def program(source: str, target: str, x: np.ndarray) -> tuple[str, np.ndarray]:
    """The program over a 1-D array, and the array in the shape it takes."""
    wide, narrow = width(source), width(target)
    if wide >= narrow:
        to_dims = f"{x.size}" if wide == narrow else f"{x.size}x{wide // narrow}"
        return bitcast(source, f"{x.size}", target, to_dims), x
    count = narrow // wide
    x = x[: x.size // count * count].reshape(-1, count)
    return bitcast(source, f"{x.shape[0]}x{count}", target, f"{x.shape[0]}"), x


def sample(element: str) -> np.ndarray:
    """Edges and random bits."""
    dtype = numpy_type(element)
    noise = np.random.default_rng(0).integers(0, 256, 64 * dtype.itemsize, np.uint8).view(dtype)
    return np.concatenate([edge_values(element), noise])


def quiet(x: np.ndarray) -> np.ndarray:
    """x with every NaN replaced by the quiet one, whose bits survive arithmetic."""
    if x.dtype.kind in "iu":
        return x
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(x.astype(np.float64)), np.array(np.nan, x.dtype), x)


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_matrix(source: str, target: str) -> None:
    """Every pair of types of whole bytes, little-endian."""
    x = sample(source)
    text, x = program(source, target, quiet(x) if source in EIGHT_BITS else x)
    against_xla(text, x).bit_exact()


@pytest.mark.parametrize("target", ["i32", "ui64", "ui8", "i16", *FLOATS])
@pytest.mark.parametrize("source", ["i32", "ui64", "ui8", "i16", *FLOATS])
def test_without_bitcast(source: str, target: str) -> None:
    """Below opset 26 the bits of floats are computed."""
    text, x = program(source, target, quiet(sample(source)))
    run = against_xla(text, x, opset=23).bit_exact()
    run.has_no("BitCast")
    assert run.program.report.opset == 23


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_every_code_without_bitcast(element: str) -> None:
    codes = np.arange(1 << 16).astype(np.uint16)
    text, x = program("ui16", element, codes)
    against_xla(text, x, opset=23).bit_exact()
    text, x = program(element, "ui16", quiet(codes.view(numpy_type(element))))
    against_xla(text, x, opset=23).bit_exact()


@pytest.mark.parametrize("element", EIGHT_BITS)
def test_every_code_of_eight_bits(element: str) -> None:
    codes = np.arange(256).astype(np.uint8)
    text, x = program("ui8", element, codes)
    against_xla(text, x).bit_exact()
    text, x = program(element, "ui8", quiet(codes.view(numpy_type(element))))
    against_xla(text, x).bit_exact().has_no("BitCast")


@pytest.mark.parametrize(
    ("source", "from_dims", "target", "to_dims"),
    [
        ("f32", "", "i32", ""),
        ("f32", "", "ui8", "4"),
        ("ui8", "4", "f32", ""),
        ("i64", "2x3", "i16", "2x3x4"),
        ("i16", "2x3x4", "f64", "2x3"),
        ("i32", "0", "i16", "0x2"),
        ("i16", "0x2", "i32", "0"),
        ("f32", "2x0x3", "i32", "2x0x3"),
    ],
)
def test_shapes(source: str, from_dims: str, target: str, to_dims: str) -> None:
    dims = [int(dim) for dim in from_dims.split("x") if dim]
    x = np.resize(sample("i8"), dims).astype(numpy_type(source))
    against_xla(bitcast(source, from_dims, target, to_dims), x).bit_exact()


@pytest.mark.parametrize(
    ("source", "target", "nodes"),
    [
        ("f32", "i32", ["BitCast"]),
        ("ui16", "bf16", ["BitCast"]),
        ("i32", "ui32", ["Cast"]),
        ("i1", "i1", ["Identity"]),
        ("ui32", "ui8", ["Unsqueeze", "BitShift", "Cast"]),
        ("ui8", "ui32", ["Cast", "MatMul", "Squeeze"]),
    ],
)
def test_nodes(source: str, target: str, nodes: list[str]) -> None:
    text, x = program(source, target, edge_values(source))
    run = against_xla(text, x).bit_exact()
    run.graph_is(*nodes)
    assert run.program.report.opset == (26 if "BitCast" in nodes else 21)


NIBBLES = """
module {{ func.func public @main(%arg0: tensor<4x{byte}>) -> (tensor<4x{byte}>, tensor<4x2xi32>) {{
  %0 = stablehlo.bitcast_convert %arg0 : (tensor<4x{byte}>) -> tensor<4x2x{nibble}>
  %1 = stablehlo.bitcast_convert %0 : (tensor<4x2x{nibble}>) -> tensor<4x{byte}>
  %2 = stablehlo.convert %0 : (tensor<4x2x{nibble}>) -> tensor<4x2xi32>
  return %1, %2 : tensor<4x{byte}>, tensor<4x2xi32>
}} }}
"""


@pytest.mark.parametrize(("byte", "nibble"), [("i8", "i4"), ("ui8", "ui4"), ("i8", "ui4")])
def test_four_bits(byte: str, nibble: str) -> None:
    """The low nibble comes first."""
    x = np.array([0x12, 0x7F, 0x80, 0xFE], np.uint8).view(numpy_type(byte))
    against_xla(NIBBLES.format(byte=byte, nibble=nibble), x).bit_exact()


def test_complex_to_itself() -> None:
    x = edge_values("complex<f32>")
    dims = f"{len(x)}"
    against_xla(bitcast("complex<f32>", dims, "complex<f32>", dims), x).bit_exact()


@pytest.mark.parametrize(
    ("source", "from_dims", "target", "to_dims"),
    [("complex<f64>", "2", "complex<f32>", "2x2")],
)
def test_refusals(source: str, from_dims: str, target: str, to_dims: str) -> None:
    with pytest.raises(TranslationError, match="XLA"):
        hlo2onnx.translate(bitcast(source, from_dims, target, to_dims))


@pytest.mark.parametrize("opset", [None, 23])
@pytest.mark.parametrize("element", [*INTEGERS, *FLOATS])
def test_a_boolean_is_one_bit(element: str, opset: int | None) -> None:
    """XLA keeps a boolean in a byte; numpy has StableHLO's bits, the lowest first."""
    x, bits = quiet(sample(element)), width(element)
    as_bytes = x.view(np.uint8).reshape(x.size, -1)
    flags = np.unpackbits(as_bytes, axis=1, bitorder="little").astype(bool)
    to_flags = bitcast(element, f"{x.size}", "i1", f"{x.size}x{bits}")
    from_flags = bitcast("i1", f"{x.size}x{bits}", element, f"{x.size}")
    np.testing.assert_array_equal(hlo2onnx.translate(to_flags, opset=opset)(x), flags)
    back = hlo2onnx.translate(from_flags, opset=opset)(flags)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back.view(np.uint8).reshape(x.size, -1), as_bytes)


@pytest.mark.parametrize("dims", ["0x8", "2x3x8"])
def test_booleans_of_other_shapes(dims: str) -> None:
    shape = [int(dim) for dim in dims.split("x")]
    flags = np.random.default_rng(0).integers(0, 2, shape).astype(bool)
    got = hlo2onnx.translate(bitcast("i1", dims, "ui8", dims[:-2]))(flags)
    want = np.packbits(flags, axis=-1, bitorder="little")[..., 0]
    np.testing.assert_array_equal(got, want.reshape(shape[:-1]))


UNIFORM = """
module {{ func.func public @main(%arg0: tensor<{n}x{bits}>) -> tensor<{n}x{type}> {{
  %0 = stablehlo.constant dense<{shift}> : tensor<{n}x{bits}>
  %1 = stablehlo.constant dense<{code}> : tensor<{n}x{bits}>
  %2 = stablehlo.constant dense<1.0> : tensor<{n}x{type}>
  %3 = stablehlo.shift_right_logical %arg0, %0 : tensor<{n}x{bits}>
  %4 = stablehlo.or %3, %1 : tensor<{n}x{bits}>
  %5 = stablehlo.bitcast_convert %4 : (tensor<{n}x{bits}>) -> tensor<{n}x{type}>
  %6 = stablehlo.subtract %5, %2 : tensor<{n}x{type}>
  return %6 : tensor<{n}x{type}>
}} }}
"""


@pytest.mark.parametrize(
    ("type", "bits", "shift", "one"),
    [
        ("f32", "ui32", 9, 0x3F800000),
        ("f64", "ui64", 12, 0x3FF0000000000000),
        ("f16", "ui16", 6, 0x3C00),
        ("bf16", "ui16", 9, 0x3F80),
    ],
)
def test_uniform_numbers_need_no_bitcast(type: str, bits: str, shift: int, one: int) -> None:
    """JAX's random.uniform: the same bits, and the model stays at the default opset."""
    x = np.concatenate([edge_values(bits), sample(bits)])
    run = against_xla(UNIFORM.format(type=type, bits=bits, shift=shift, code=one, n=len(x)), x)
    run.bit_exact().has_no("BitCast")
    assert run.program.report.opset == 21


@pytest.mark.parametrize("shift", [8, 9, 10])
@pytest.mark.parametrize("code", [0x3F800000, 0x40000000, 0x3F800001, 0x00800000, 0x7F800000, 0])
def test_other_codes(shift: int, code: int) -> None:
    """Other exponents, shifts and ors; what is not one octave is cast."""
    x = sample("ui32")
    run = against_xla(UNIFORM.format(type="f32", bits="ui32", shift=shift, code=code, n=len(x)), x)
    run.close()
    assert run.nodes["BitCast"] == (shift < 9 or code not in (0x3F800000, 0x40000000))

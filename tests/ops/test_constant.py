"""constant in every form the dialect prints."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

import hlo2onnx
from hlo2onnx.frontend.mlir.constants import Constants, Splat
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.verify.xla import XlaProgram

DENSE = """
module {{ func.func public @main(%arg0: tensor<{shape}{type}>)
    -> (tensor<{shape}{type}>, tensor<{shape}{type}>) {{
  %0 = stablehlo.constant dense<{value}> : tensor<{shape}{type}>
  return %0, %arg0 : tensor<{shape}{type}>, tensor<{shape}{type}>
}} }}
"""


@pytest.mark.parametrize(
    ("shape", "type", "value"),
    [
        ("2x3x", "f32", "[[1.0, 2.0, -0.0], [0x7F800000, 0xFF800000, 0x7FC00000]]"),
        ("2x3x", "f32", "1.5"),
        ("", "f64", "0.1"),
        ("0x3x", "f32", "1.0"),
        ("2x", "i1", "[true, false]"),
        ("4x", "i1", "true"),
        ("2x", "ui8", "[1, 255]"),
        ("2x", "i64", "[-9223372036854775808, 9223372036854775807]"),
        ("3x", "bf16", "[1.0, -2.5, 0x7F80]"),
        ("300x", "bf16", "1.5"),
        ("2x", "complex<f32>", "[(1.0, 2.0), (-0.0, 3.0)]"),
        ("2x", "complex<f64>", "(1.0, 2.0)"),
    ],
)
def test_constant(shape: str, type: str, value: str) -> None:
    against_xla(DENSE.format(shape=shape, type=type, value=value)).bit_exact()


def test_dense_resource() -> None:
    run = against_xla("""
module { func.func public @main() -> tensor<4xf32> {
  %0 = stablehlo.constant dense_resource<w> : tensor<4xf32>
  return %0 : tensor<4xf32>
} }
{-# dialect_resources: { builtin: { w: "0x040000000000803f000000400000404000008040" } } #-}
""")
    np.testing.assert_array_equal(run.expected[0], [1, 2, 3, 4])
    run.bit_exact()


def test_equal_constants_are_stored_once() -> None:
    run = against_xla("""
module { func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %2 = stablehlo.add %arg0, %0 : tensor<2xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<2xf32>
  return %3 : tensor<2xf32>
} }
""").close()
    assert len(run.program.model.graph.initializers) == 1


ODD = [
    *["bf16", "f8E3M4", "f8E4M3", "f8E4M3B11FNUZ", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2"],
    *["f8E5M2FNUZ", "f8E8M0FNU", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN", "i2", "i4", "ui2", "ui4"],
]
CONSTANT = "func.func @main() -> {0} {{ %0 = stablehlo.constant dense<{1}> : {0} return %0 : {0} }}"


def _content(type: str, value: str) -> np.ndarray | Splat:
    module = parse_module(CONSTANT.format(type, value), "the test")
    function = module.body.operations[0].regions[0].blocks[0]
    return Constants().read(function.operations[0].operation)


def test_equal_contents_of_several_contexts() -> None:
    constants = Constants()

    def read(type: str, *numbers: int) -> np.ndarray:
        module = parse_module(CONSTANT.format(type, list(numbers)), "the test")
        function = module.body.operations[0].regions[0].blocks[0]
        found = constants.read(function.operations[0].operation)
        assert isinstance(found, np.ndarray)
        assert found.tolist() == list(numbers)
        return found

    numbers = range(3000)
    first = read("tensor<3000xi32>", *numbers)
    assert read("tensor<3000xi32>", *numbers) is first
    assert read("tensor<3000xi32>", *numbers[:-1], 0) is not first
    assert read("tensor<3000xui32>", *numbers) is not first
    assert read("tensor<2xi1>", 0, 1) is read("tensor<2xi1>", 0, 1)
    assert read("tensor<2xi1>", 1, 0) is not read("tensor<2xi1>", 0, 1)


@pytest.mark.parametrize("element", ODD)
@pytest.mark.parametrize("shape", [(1,), (3,), (40, 50), (0, 2), ()])
def test_content_without_xla(
    element: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA aborts the process on some of these types."""
    monkeypatch.setattr(XlaProgram, "__init__", None)
    dtype = numpy_type(element)
    bits = 8 * dtype.itemsize if element[:2] == "bf" else int(element.strip("uif")[0])
    rng = np.random.default_rng(0)
    content = rng.integers(0, 1 << bits, shape, f"u{dtype.itemsize}")
    if bits in (2, 4) and dtype.name.startswith("int"):
        want = (content.astype(np.int8) << (8 - bits) >> (8 - bits)).astype(dtype)
    elif dtype.name.startswith("uint"):
        want = content.astype(dtype)
    else:
        want = content.view(dtype)
    dims = "".join(f"{dim}x" for dim in shape)
    digits = content.tobytes().hex()
    found = _content(f"tensor<{dims}{element}>", f'"0x{digits}"' if digits else "")
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (dtype, shape)
    assert found.tobytes() == want.tobytes()


@pytest.mark.parametrize("element", [*ODD, "f32", "f16", "i1", "ui64", "i8", "complex<f32>"])
def test_splat(element: str) -> None:
    value = {"i1": "true", "complex<f32>": "(1.0, 0.0)"}.get(element)
    value = value or ("1" if "i" in element else "1.0")
    found = _content(f"tensor<4x5x{element}>", value)
    assert isinstance(found, Splat)
    assert (found.element.shape, found.shape) == ((), (4, 5))
    assert complex(found.element) == 1


def test_splat_of_any_size() -> None:
    found = _content(f"tensor<{1 << 40}x{1 << 40}xf32>", "2.0")
    assert isinstance(found, Splat)
    assert float(found.element) == 2


def test_content_in_another_form() -> None:
    text = CONSTANT.replace("dense<{1}>", "sparse<[[0]], [1.0]>").format("tensor<2xf32>")
    with pytest.raises(hlo2onnx.TranslationError, match=r"written as sparse<\.\.\.>(?s:.*)dense"):
        hlo2onnx.translate(text)

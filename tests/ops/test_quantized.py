"""Quantized types: what is stored, converted and computed."""

from __future__ import annotations

import numpy as np
import pytest
from edge_values import edge_values
from quantized_text import (
    EXACT,
    WIDER,
    A,
    conversion,
    dequantized,
    element,
    elementwise,
    parameters,
    quantized,
)

import hlo2onnx
from hlo2onnx import LoadError, translate
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.quantization import Quantization, parse_quantization
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.frontend.mlir.values import module_bytecode
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.verify.xla import XlaProgram

ELEMENTS = [
    element(),
    element(rest="0.3:-128"),
    element("u8", rest="0.037:131"),
    element("i8<-127:127>", rest="1.7"),
    element("i8<-100:90>", rest="0.25:3"),
    element("u8", axis=":1", rest="{0.1:3,2.5,0.7:255}"),
    element(axis=":0", rest="{0.1,2.5:-7}"),
    element("i16", rest="0.001"),
    element("u16", rest="0.001:1000"),
    element("i32", rest="0.0001"),
    element("i8", "f16", rest="0.1:5"),
    element("u8", "bf16", rest="0.5"),
    element("i16", "f64", rest="0.1:-3"),
]


def floats(known: Quantization) -> np.ndarray:
    """Values of every kind, halves between steps among them."""
    dtype = numpy_type(known.expressed)
    stored = np.array([known.low, known.low + 1, -1, 0, 1, 2, known.high - 1, known.high, 10**9])
    steps = np.concatenate([stored, stored + 0.5, stored + 0.25]) - known.zero_points[0]
    values = np.concatenate([steps * known.scales[0], edge_values(known.expressed).astype(float)])
    with np.errstate(over="ignore"):
        values = np.resize(values, 6 * (values.size // 6 + 1)).astype(dtype)
    return values.reshape(-1, 2, 3)


def outputs(program: hlo2onnx.OnnxProgram, x: np.ndarray) -> list[np.ndarray]:
    """The result of ONNX Runtime with and without graph optimisation."""
    content = program.model_proto.SerializeToString()
    return [
        OrtProgram(content, optimize=optimize)({program.input_names[0]: x})[0]
        for optimize in (True, False)
    ]


@pytest.mark.parametrize("kind", ELEMENTS)
def test_quantize_is_exact(kind: str) -> None:
    known = parse_quantization(kind)
    assert known is not None
    program = translate(conversion("uniform_quantize", known.expressed, kind), **EXACT)
    assert program.report.nodes["QuantizeLinear"] == 0
    for x in floats(known):
        for found in outputs(program, x):
            np.testing.assert_array_equal(found, quantized(known, x), str(x))


@pytest.mark.parametrize("kind", ELEMENTS)
def test_quantize_as_an_operator(kind: str) -> None:
    """At most one step off, and that only halfway between two steps and beside a zero point."""
    known = parse_quantization(kind)
    assert known is not None
    program = translate(conversion("uniform_quantize", known.expressed, kind))
    has_operator = known.expressed == "f32" and known.storage != "i32"
    assert program.report.nodes["QuantizeLinear"] == has_operator
    for x in floats(known):
        want = quantized(known, x).astype(np.int64)
        want = np.where(np.isnan(x.astype(np.float64)) & has_operator, known.low, want)
        scale, zero = parameters(known, x.dtype, 2)
        with np.errstate(all="ignore"):
            half = np.abs(np.abs((x / scale + zero) % 1 - 0.5).astype(np.float64)) < 1e-4
        slack = half & any(known.zero_points)
        for found in outputs(program, x):
            assert (np.abs(found.astype(np.int64) - want) <= slack).all(), (x, found, want)


@pytest.mark.parametrize("kind", ELEMENTS)
def test_dequantize_is_exact(kind: str) -> None:
    known = parse_quantization(kind)
    assert known is not None
    dtype = numpy_type(known.expressed)
    program = translate(conversion("uniform_dequantize", kind, known.expressed))
    assert program.report.nodes["DequantizeLinear"] == (known.expressed == "f32")
    x = np.resize(edge_values(known.storage), 18).reshape(3, 2, 3)
    for q in x:
        for found in outputs(program, q):
            np.testing.assert_array_equal(
                found.astype(np.float64), dequantized(known, q, dtype).astype(np.float64)
            )


@pytest.mark.parametrize("rest", ["0.00001", "0.0000025:7"])
def test_small_scales_have_a_reference(rest: str) -> None:
    program = translate(conversion("uniform_quantize", "f32", element("i16", rest=rest)))
    x = np.array([[1e-5, -2.4e-5, 0.1], [7.0, 0.0, 3.3e-6]], np.float32)
    assert program.verify(x).ok


@pytest.mark.parametrize("opset", [17, 18, 20, 21, 23, 25])
@pytest.mark.parametrize("kind", [element("u16", rest="0.001:1000"), element(rest="0.5:3")])
def test_every_opset(kind: str, opset: int) -> None:
    known = parse_quantization(kind)
    assert known is not None
    text = conversion("uniform_quantize", "f32", kind)
    x = np.array([[0.1, -2.3, 7.0], [1e9, -1e9, 0.7]], np.float32)
    np.testing.assert_array_equal(translate(text, opset=opset)(x), quantized(known, x))
    text = conversion("uniform_dequantize", kind, "f32")
    q = quantized(known, x)
    found = translate(text, opset=opset)(q)
    np.testing.assert_array_equal(found, dequantized(known, q, np.dtype(np.float32)))


def test_four_bits() -> None:
    """ONNX Runtime's Python API takes no arrays of 4 bits, so both ends are floats here."""
    kind = element("i4", rest="0.5:-3")
    known = parse_quantization(kind)
    assert known is not None
    text = f"""
    module {{ func.func public @main(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {{
      %0 = stablehlo.uniform_quantize %arg0 : (tensor<2x3xf32>) -> tensor<2x3x{kind}>
      %1 = stablehlo.uniform_dequantize %0 : (tensor<2x3x{kind}>) -> tensor<2x3xf32>
      return %1 : tensor<2x3xf32>
    }} }}
    """
    x = np.array([[0.1, -2.3, 1.7], [1e9, -1e9, 0.7]], np.float32)
    steps = np.clip(np.rint(x / np.float32(0.5) - 3), -8, 7)
    program = translate(text)
    np.testing.assert_array_equal(program(x), (steps + 3) * 0.5)
    assert program.verify(x)


def test_constants_of_unsigned_bytes() -> None:
    kind = element("u8", rest="0.5:3")
    program = translate(f"""
    module {{ func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
      %c = stablehlo.constant() <{{value = dense<[-1, 3, 127]> : tensor<3xi8>}}>
        : () -> tensor<3x{kind}>
      %d = stablehlo.uniform_dequantize %c : (tensor<3x{kind}>) -> tensor<3xf32>
      %y = stablehlo.add %x, %d : tensor<3xf32>
      return %y : tensor<3xf32>
    }} }}
    """)
    np.testing.assert_array_equal(program(np.zeros(3, np.float32)), [126.0, 0.0, 62.0])
    assert program.verify()


def test_requantizing_is_dequantizing_and_quantizing() -> None:
    text = conversion("uniform_quantize", A, WIDER)
    first, second = parse_quantization(A), parse_quantization(WIDER)
    assert first is not None and second is not None
    program = translate(text, **EXACT)
    for q in np.resize(np.arange(-128, 128).astype(np.int8), 258).reshape(-1, 2, 3):
        want = quantized(second, dequantized(first, q, np.dtype(np.float32)))
        np.testing.assert_array_equal(program(q), want)


@pytest.mark.parametrize("op", ["uniform_quantize", "uniform_dequantize", "add", "tanh"])
def test_the_reference_is_mlirs_own(op: str) -> None:
    """XLA takes no quantized types; what it is given instead computes what MLIR's own pass makes
    of them, where that is right: on signed bytes and f32."""
    if op.startswith("uniform"):
        sides = ("f32", A) if op == "uniform_quantize" else (A, "f32")
        text = conversion(op, *sides)
    else:
        text = elementwise(op, 2 if op == "add" else 1)
    program = translate(text)
    module = parse_module(text, "it").operation
    run_pipeline(module, "builtin.module(func.func(stablehlo-legalize-quant-to-math))")
    theirs = XlaProgram(module_bytecode(module))
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(0, 20, value.shape.numpy()).astype(np.float32)
        if value.dtype.name == "FLOAT"
        else rng.integers(-128, 128, value.shape.numpy()).astype(np.int8)
        for value in program.model.graph.inputs
    ]
    (want,) = theirs(arrays)
    np.testing.assert_array_equal(translate(text, **EXACT)(*arrays), want)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!quant.uniform<i8:f32:{0:1, 1:3}, {{0.1}, {0.2}}>", "per tensor or per axis"),
        ("!quant.any<i8:f32>", "per tensor or per axis"),
        ("!quant.calibrated<f32<-1.0:1.0>>", "per tensor or per axis"),
    ],
)
def test_other_quantized_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        parse_quantization(text)


def test_parsing() -> None:
    assert parse_quantization("f32") is None
    known = parse_quantization("!quant.uniform<u8<1:250>:bf16:2, {1.000000e-01:3,0.25}>")
    assert known == Quantization("ui8", 1, 250, "bf16", (0.1, 0.25), (3, 0), 2)
    known = parse_quantization("!quant.uniform<i4:f32, 0.012345678901233999:-8>")
    assert known == Quantization("i4", -8, 7, "f32", (0.012345678901233999,), (-8,), None)

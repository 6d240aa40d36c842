"""Quantized types: what is stored, converted and computed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from edge_values import edge_values

import hlo2onnx
from hlo2onnx import LoadError, translate
from hlo2onnx.mlir.context import parse_module
from hlo2onnx.mlir.passes import run_pipeline
from hlo2onnx.mlir.quant.types import Quantization, parse_quantization
from hlo2onnx.mlir.types import numpy_type
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.verification.xla import XlaProgram, module_bytecode

EXACT = {"nan": "xla"}
"""Options under which quantization is exactly as StableHLO has it, NaN included."""


def quantized(known: Quantization, x: np.ndarray) -> np.ndarray:
    """StableHLO's definition, in numpy."""
    scale, zero = parameters(known, x.dtype, x.ndim)
    with np.errstate(all="ignore"):
        rounded = np.rint(
            np.clip(x / scale + zero, x.dtype.type(known.low), x.dtype.type(known.high))
        )
    stored = numpy_type(known.storage)
    limits = np.iinfo(stored)
    wide = np.clip(np.nan_to_num(rounded.astype(np.float64), nan=0), limits.min, limits.max)
    return wide.astype(stored)


def dequantized(known: Quantization, q: np.ndarray, dtype: np.dtype) -> np.ndarray:
    scale, zero = parameters(known, dtype, q.ndim)
    return (q.astype(np.int64) - zero.astype(np.int64)).astype(dtype) * scale


def parameters(known: Quantization, dtype: np.dtype, rank: int) -> tuple[np.ndarray, np.ndarray]:
    shape = [1] * rank
    if known.axis is not None:
        shape[known.axis] = len(known.scales)
    return tuple(
        np.array(n).astype(dtype).reshape(shape) for n in (known.scales, known.zero_points)
    )


def element(storage: str = "i8", expressed: str = "f32", axis: str = "", rest: str = "0.5") -> str:
    return f"!quant.uniform<{storage}:{expressed}{axis}, {rest}>"


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


def conversion(op: str, source: str, result: str) -> str:
    return f"""
    module {{ func.func public @main(%arg0: tensor<2x3x{source}>) -> tensor<2x3x{result}> {{
      %0 = stablehlo.{op} %arg0 : (tensor<2x3x{source}>) -> tensor<2x3x{result}>
      return %0 : tensor<2x3x{result}>
    }} }}
    """


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


@pytest.mark.parametrize("opset", [18, 20, 21, 23, 25])
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


A = element(rest="0.5:3")
WIDER = element("u8", rest="0.3:100")
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "atan2"]
UNARY = ["abs", "negate", "tanh", "exponential", "logistic", "sqrt", "sine", "floor", "sign"]


def elementwise(op: str, count: int) -> str:
    arguments = ", ".join(f"%arg{i}: tensor<4x5x{A}>" for i in range(count))
    operands = ", ".join(f"%arg{i}" for i in range(count))
    types = ", ".join([f"tensor<4x5x{A}>"] * count)
    return f"""
    module {{ func.func public @main({arguments}) -> tensor<4x5x{A}> {{
      %0 = "stablehlo.{op}"({operands}) : ({types}) -> tensor<4x5x{A}>
      return %0 : tensor<4x5x{A}>
    }} }}
    """


@pytest.mark.parametrize("op", BINARY + UNARY)
def test_elementwise(op: str) -> None:
    """On the values that what is stored stands for, and quantized again."""
    makes_nan = op in ("power", "sqrt")
    options = EXACT if makes_nan else {}
    program = translate(elementwise(op, 2 if op in BINARY else 1), **options)
    assert program.report.nodes["DequantizeLinear"] == (2 if op in BINARY else 1)
    assert program.report.nodes["QuantizeLinear"] == (not makes_nan)
    assert program.verify(), program.verify()
    assert program.model.graph.outputs[0].dtype.name == "INT8"


STORED = {
    "transpose": ("%arg0, dims = [1, 0]", f"tensor<5x4x{A}>"),
    "reshape": ("%arg0", f"tensor<20x{A}>"),
    "slice": ("%arg0 [1:3, 0:5:2]", f"tensor<2x3x{A}>"),
    "broadcast_in_dim": ("%arg0, dims = [1, 2]", f"tensor<3x4x5x{A}>"),
    "reverse": ("%arg0, dims = [1]", f"tensor<4x5x{A}>"),
}


@pytest.mark.parametrize("op", STORED)
def test_moving_what_is_stored(op: str) -> None:
    operands, result = STORED[op]
    types = f"tensor<4x5x{A}>"
    arrow = types if op == "reverse" else f"({types}) -> {result}"
    program = translate(f"""
    module {{ func.func public @main(%arg0: {types}) -> {result} {{
      %0 = stablehlo.{op} {operands} : {arrow}
      return %0 : {result}
    }} }}
    """)
    assert program.verify()
    assert len(program.report.nodes) == 1


S = f"tensor<{A}>"
REGIONS = {
    "reduce": (
        '"stablehlo.reduce"(%arg0, %arg1)',
        "{dimensions = array<i64: 1>}",
        f"tensor<4x{A}>",
        "add",
    ),
    "reduce_window": (
        '"stablehlo.reduce_window"(%arg0, %arg1)',
        "{window_dimensions = array<i64: 1, 2>}",
        f"tensor<4x4x{A}>",
        "maximum",
    ),
}


@pytest.mark.parametrize("name", REGIONS)
def test_regions(name: str) -> None:
    """A step of a reduction is one in quantized arithmetic."""
    op, attributes, result, body = REGIONS[name]
    program = translate(f"""
    module {{ func.func public @main(%arg0: tensor<4x5x{A}>, %arg1: {S}) -> {result} {{
      %0 = {op} ({{ ^bb0(%a: {S}, %b: {S}):
        %c = stablehlo.{body} %a, %b : {S}
        stablehlo.return %c : {S}
      }}) {attributes} : (tensor<4x5x{A}>, {S}) -> {result}
      return %0 : {result}
    }} }}
    """)
    x = np.arange(-10, 10, dtype=np.int8).reshape(4, 5)
    assert program.verify(x, np.int8(3) if name == "reduce" else np.int8(-128))


def test_control_flow_and_calls() -> None:
    program = translate(f"""
    module {{
      func.func private @twice(%x: tensor<4x5x{A}>) -> tensor<4x5x{A}> {{
        %0 = stablehlo.add %x, %x : tensor<4x5x{A}>
        return %0 : tensor<4x5x{A}>
      }}
      func.func public @main(%x: tensor<4x5x{A}>, %n: tensor<i32>) -> tensor<4x5x{A}> {{
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r:2 = stablehlo.while(%a = %x, %i = %zero) : tensor<4x5x{A}>, tensor<i32>
        cond {{
          %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %b = func.call @twice(%a) : (tensor<4x5x{A}>) -> tensor<4x5x{A}>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %b, %j : tensor<4x5x{A}>, tensor<i32>
        }}
        return %r#0 : tensor<4x5x{A}>
      }}
    }}
    """)
    x = np.arange(-10, 10, dtype=np.int8).reshape(4, 5)
    assert program.verify(x, np.int32(3))
    np.testing.assert_array_equal(program(x, np.int32(0)), x)


W = element(axis=":1", rest="{0.02,0.01,0.035,0.04}")
SUM = element("i32", axis=":1", rest="{0.01,0.005,0.0175,0.02}")
OUT = element("u8", rest="0.25:120")


def matmul(relu: bool = False) -> str:
    """uniform_quantize, dot_general into i32, a bias, uniform_quantize: as quantizers write it."""
    return f"""
    module {{ func.func public @main(%x: tensor<6x8xf32>, %w: tensor<8x4x{W}>,
        %bias: tensor<4x{SUM.replace(":1,", ":0,")}>) -> (tensor<6x4x{OUT}>, tensor<6x4xf32>) {{
      %q = stablehlo.uniform_quantize %x : (tensor<6x8xf32>) -> tensor<6x8x{A}>
      %y = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0]
        : (tensor<6x8x{A}>, tensor<8x4x{W}>) -> tensor<6x4x{SUM}>
      %b = stablehlo.broadcast_in_dim %bias, dims = [1]
        : (tensor<4x{SUM.replace(":1,", ":0,")}>) -> tensor<6x4x{SUM}>
      %z = stablehlo.add %y, %b : tensor<6x4x{SUM}>
      %r = stablehlo.uniform_quantize %z : (tensor<6x4x{SUM}>) -> tensor<6x4x{OUT}>
      %d = stablehlo.uniform_dequantize %r : (tensor<6x4x{OUT}>) -> tensor<6x4xf32>
      return %r, %d : tensor<6x4x{OUT}>, tensor<6x4xf32>
    }} }}
    """


def test_a_dense_layer_is_q_dq() -> None:
    """The accumulator leaves no trace: its values are floats as they are."""
    program = translate(matmul())
    nodes = program.report.nodes
    assert (nodes["QuantizeLinear"], nodes["DequantizeLinear"]) == (2, 4)
    assert (nodes["Gemm"], nodes["Round"]) == (1, 0)
    assert program.verify(), program.verify()


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_onnx_runtime_fuses_a_dense_layer(opset: int, tmp_path: Path) -> None:
    program = translate(matmul(), opset=opset)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    optimized = onnx.load(options.optimized_model_filepath).graph.node
    assert [node.op_type for node in optimized] == ["QuantizeLinear", "QGemm", "DequantizeLinear"]


def test_an_accumulator_on_another_grid_stays() -> None:
    text = matmul().replace("{0.01,0.005,0.0175,0.02}", "{0.01,0.005,0.0175,0.03}")
    program = translate(text)
    assert program.report.nodes["Round"] > 0
    assert program.verify(), program.verify()


def test_convolution() -> None:
    kernel = element(axis=":3", rest="{0.02,0.01,0.035}")
    accumulated = element("i32", axis=":3", rest="{0.01,0.005,0.0175}")
    x, w = f"tensor<2x6x6x2x{A}>", f"tensor<3x3x2x3x{kernel}>"
    y, out = f"tensor<2x4x4x3x{accumulated}>", f"tensor<2x4x4x3x{OUT}>"
    program = translate(f"""
    module {{ func.func public @main(%x: {x}, %w: {w}) -> {out} {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({x}, {w}) -> {y}
      %1 = stablehlo.uniform_quantize %0 : ({y}) -> {out}
      return %1 : {out}
    }} }}
    """)
    nodes = program.report.nodes
    assert (nodes["QuantizeLinear"], nodes["DequantizeLinear"], nodes["Conv"]) == (1, 2, 1)
    assert nodes["Round"] == 0
    assert program.verify(), program.verify()


def test_weights_alone() -> None:
    """A hybrid dot: a float on the left, weights of a byte on the right, which stay bytes. ONNX
    Runtime would make MatMulNBits of DequantizeLinear and MatMul, which is inexact."""
    weights = np.arange(-16, 16, dtype=np.int8).reshape(8, 4)
    text = f"""
    module {{ func.func public @main(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {{
      %w = stablehlo.constant() <{{value = dense<{weights.tolist()}> : tensor<8x4xi8>}}>
        : () -> tensor<8x4x{W}>
      %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<6x8xf32>, tensor<8x4x{W}>) -> tensor<6x4xf32>
      return %y : tensor<6x4xf32>
    }} }}
    """
    program = translate(text)
    assert program.verify()
    assert dict(program.report.nodes) == {"Cast": 1, "Mul": 1, "MatMul": 1}
    plain = translate(text, target="onnx", opset=23)
    assert dict(plain.report.nodes) == {"DequantizeLinear": 1, "MatMul": 1}
    stored = {v.dtype.name for v in program.model.graph.initializers.values() if v.shape == (8, 4)}
    assert stored == {"INT8"}


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
    ports = program._source.signature.inputs
    arrays = [
        rng.normal(0, 20, port.shape).astype(np.float32)
        if port.element == "f32"
        else rng.integers(-128, 128, port.shape).astype(np.int8)
        for port in ports
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


def test_names_and_types_at_the_boundary() -> None:
    program = translate(matmul())
    types: Sequence[str] = [str(x.dtype.name) for x in program.model.graph.inputs]
    assert types == ["FLOAT", "INT8", "INT32"]
    assert program.model.graph.outputs[0].dtype.name == "UINT8"

"""Quantized types: what is computed and moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from quantized_text import BINARY, EXACT, UNARY, A, element, elementwise

from hlo2onnx import translate


@pytest.mark.costly
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


@pytest.mark.wide
def test_a_dense_layer_is_q_dq() -> None:
    """The accumulator leaves no trace: its values are floats as they are."""
    program = translate(matmul())
    nodes = program.report.nodes
    assert (nodes["QuantizeLinear"], nodes["DequantizeLinear"]) == (2, 4)
    assert (nodes["Gemm"], nodes["Round"]) == (1, 0)
    assert program.verify(), program.verify()


DENSE_LAYER = Path(__file__).parents[1] / "producers" / "quantized_dense.mlir"


@pytest.mark.parametrize("opset", [17, 18, 21, 23])
def test_onnx_runtime_fuses_a_dense_layer(opset: int, tmp_path: Path) -> None:
    """Of constant weights and a constant bias, as quantizers write it."""
    program = translate(DENSE_LAYER.read_text(encoding="utf-8"), opset=opset)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    optimized = onnx.load(options.optimized_model_filepath).graph.node
    assert [node.op_type for node in optimized] == ["QuantizeLinear", "QGemm", "DequantizeLinear"]


@pytest.mark.wide
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


def test_names_and_types_at_the_boundary() -> None:
    program = translate(matmul())
    types: Sequence[str] = [str(x.dtype.name) for x in program.model.graph.inputs]
    assert types == ["FLOAT", "INT8", "INT32"]
    assert program.model.graph.outputs[0].dtype.name == "UINT8"

"""Dynamic ops with constant operands, and set_dimension_size."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla

from hlo2onnx import TranslationError, translate

X = "tensor<2x3xf32>"
CONSTANT = "%{name} = stablehlo.constant dense<{value}> : tensor<{dims}xi64>\n"


def constants(**values: object) -> str:
    lines = []
    for name, value in values.items():
        array = np.array(value)
        dims = "x".join(map(str, array.shape))
        lines.append(CONSTANT.format(name=name, value=array.tolist(), dims=dims))
    return "".join(lines)


BODIES = {
    "dynamic_reshape": (
        constants(s=[3, 2]) + f"%0 = stablehlo.dynamic_reshape %x, %s : ({X}, tensor<2xi64>)",
        "tensor<3x2xf32>",
    ),
    "dynamic_broadcast_in_dim": (
        constants(s=[4, 2, 3])
        + f"%0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : ({X}, tensor<3xi64>)",
        "tensor<4x2x3xf32>",
    ),
    "dynamic_iota": (
        constants(s=[4, 2]) + "%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<2xi64>)",
        "tensor<4x2xf32>",
    ),
    "dynamic_pad": (
        constants(s=[1, 2])
        + "%z = stablehlo.constant dense<7.0> : tensor<f32>\n"
        + f"%0 = stablehlo.dynamic_pad %x, %z, %s, %s, %s : ({X}, tensor<f32>, tensor<2xi64>,"
        " tensor<2xi64>, tensor<2xi64>)",
        "tensor<5x11xf32>",
    ),
    "real_dynamic_slice": (
        constants(a=[0, 0], b=[2, 3], c=[1, 2])
        + f"%0 = stablehlo.real_dynamic_slice %x, %a, %b, %c : ({X}, tensor<2xi64>,"
        " tensor<2xi64>, tensor<2xi64>)",
        "tensor<2x2xf32>",
    ),
    "dynamic_gather": (
        constants(i=[1, 0], s=[1, 3])
        + '%0 = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],"
        f" index_vector_dim = 1>}} : ({X}, tensor<2xi64>, tensor<2xi64>)",
        X,
    ),
    "get_dimension_size": (
        f"%0 = stablehlo.get_dimension_size %x, dim = 1 : ({X})",
        "tensor<i32>",
    ),
}


def module(body: str, result: str, arguments: str = "") -> str:
    arrow = "" if "->" in body.splitlines()[-1] else f" -> {result}"
    return f"""
    module {{ func.func public @main(%x: {X}{arguments}) -> {result} {{
      {body}{arrow}
      return %0 : {result}
    }} }}
    """


@pytest.mark.parametrize("name", BODIES)
def test_constant_operands_make_them_static(name: str) -> None:
    run = against_xla(module(*BODIES[name]), np.ones((2, 3), np.float32))
    run.bit_exact()
    assert not run.nodes["Shape"]


def test_a_slice_from_data() -> None:
    """XLA does not take the op; numpy does."""
    program = translate("""
      func.func public @main(%x: tensor<?x4xf32>, %a: tensor<2xi32>, %b: tensor<2xi32>,
                             %c: tensor<2xi32>) -> tensor<?x?xf32> {
        %0 = stablehlo.real_dynamic_slice %x, %a, %b, %c
          : (tensor<?x4xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
        return %0 : tensor<?x?xf32>
      }""")
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    starts, limits, strides = (np.array(row, np.int32) for row in ([1, 0], [5, 3], [2, 1]))
    np.testing.assert_array_equal(program(x, starts, limits, strides), x[1:5:2, 0:3])


CONVOLUTION = """
  %i = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<1x2x3x1xf32>
  %w = stablehlo.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[-1.0]]]]> : tensor<2x2x1x1xf32>
  {padding}
  %0 = "stablehlo.{name}"(%i, %w{operand}) {{{attribute} batch_group_count = 1 : i64,
    dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
    feature_group_count = 1 : i64}} : (tensor<1x2x3x1xf32>, tensor<2x2x1x1xf32>{type})
    -> tensor<1x2x3x1xf32>"""


def convolution(dynamic: bool) -> str:
    pads = "dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>"
    body = CONVOLUTION.format(
        name="dynamic_conv" if dynamic else "convolution",
        padding=f"%p = stablehlo.constant {pads}" if dynamic else "",
        operand=", %p" if dynamic else "",
        type=", tensor<2x2xi64>" if dynamic else "",
        attribute="" if dynamic else f"padding = {pads},",
    )
    return module(body, "tensor<1x2x3x1xf32>")


def test_dynamic_conv() -> None:
    """XLA does not take the op; it is compared with a convolution of the same padding."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    static = against_xla(convolution(dynamic=False), x).close()
    np.testing.assert_array_equal(translate(convolution(dynamic=True))(x), static.expected[0])


def resized(size: str, result: str) -> str:
    bounded = "tensor<2x?xf32, #stablehlo.bounds<?, 3>>"
    return module(
        f"""{size}
      %1 = stablehlo.set_dimension_size %x, %n, dim = 1 : ({X}, tensor<i32>) -> {bounded}
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [1]
        : ({bounded}, tensor<f32>) -> tensor<2xf32>""",
        result,
        "" if size else ", %n: tensor<i32>",
    )


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_set_dimension_size(size: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    constant = f"%n = stablehlo.constant dense<{size}> : tensor<i32>"
    against_xla(resized(constant, "tensor<2xf32>"), x).bit_exact()
    against_xla(resized("", "tensor<2xf32>"), x, np.int32(size)).bit_exact()


def test_a_size_that_is_there_already() -> None:
    body = f"""%n = stablehlo.constant dense<3> : tensor<i32>
      %0 = stablehlo.set_dimension_size %x, %n, dim = 1 : ({X}, tensor<i32>) -> {X}"""
    against_xla(module(body, X), np.ones((2, 3), np.float32)).bit_exact().graph_is("Identity")


def test_another_size_of_a_static_result_is_refused() -> None:
    body = f"""%n = stablehlo.constant dense<2> : tensor<i32>
      %0 = stablehlo.set_dimension_size %x, %n, dim = 1 : ({X}, tensor<i32>) -> {X}"""
    with pytest.raises(TranslationError, match="may differ from the static extent"):
        translate(module(body, X))


def test_axes_that_change_places_while_they_are_broadcast() -> None:
    text = """
    func.func @main(%x: tensor<?x3xf32>) -> tensor<3x4x?xf32> {
      %c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
      %v = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %s = stablehlo.concatenate %c, %v, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [2, 0]
        : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<3x4x?xf32>
      return %0 : tensor<3x4x?xf32>
    }"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = translate(text)(x)
    np.testing.assert_array_equal(found, np.broadcast_to(x.T[:, None], (3, 4, 2)))

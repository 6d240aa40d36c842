"""Float types that models hold as the integers of their bits."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from jax import lax

import hlo2onnx
from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPE, STORED_FLOATS

IN_XLA = ["f4E2M1FN", "f8E3M4", "f8E4M3", "f8E4M3B11FNUZ"]
NOT_IN_XLA = ["f6E2M3FN", "f6E3M2FN"]
ROUNDS_IN_XLA = [*IN_XLA, "f8E8M0FNU"]
ONE_QUICKLY = [
    pytest.param(name, marks=[] if name == "f8E4M3" else pytest.mark.wide) for name in ROUNDS_IN_XLA
]
"""Each of them, all but one in the wide tests."""


def dtype_of(element: str) -> np.dtype[Any]:
    return STORED_FLOATS.get(element, np.dtype(ml_dtypes.float8_e8m0fnu))


def all_codes(element: str) -> np.ndarray:
    dtype = dtype_of(element)
    return np.arange(1 << ml_dtypes.finfo(dtype).bits).astype(np.uint8).view(dtype)


def edges(element: str) -> np.ndarray:
    """Numbers of the type, what lies halfway between two of them, and the f32 beside that."""
    numbers = all_codes(element).astype(np.float64)
    numbers = np.sort(numbers[np.isfinite(numbers)])
    middles = ((numbers[1:] + numbers[:-1]) / 2).astype(np.float32)
    above, below = (np.nextafter(middles, np.float32(limit)) for limit in (np.inf, -np.inf))
    top = numbers[-1]
    beyond = [1.01 * top, 1.2 * top, 2 * top, 1e30, np.inf, np.nan, 1e-30, 0.0]
    odd = np.array([*beyond, *(-number for number in beyond)])
    if element == "f8E8M0FNU":  # what is below 2^-126 is denormal in f32, and 0 in XLA
        middles, above, below = (item[2:] for item in (middles, above, below))
        odd = odd[np.abs(odd) != 1e-30]
    with np.errstate(over="ignore"):
        return np.concatenate([numbers, middles, above, below, odd]).astype(np.float32)


def unary(op: str, source: str, target: str, size: int) -> str:
    return f"""
module {{ func.func public @main(%arg0: tensor<{size}x{source}>) -> tensor<{size}x{target}> {{
  %0 = stablehlo.{op} %arg0 : (tensor<{size}x{source}>) -> tensor<{size}x{target}>
  return %0 : tensor<{size}x{target}>
}} }}"""


# -- conversions --------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["f32", "f64", "f16", "bf16", "i32", "i1"])
@pytest.mark.parametrize("element", ROUNDS_IN_XLA)
def test_rounded_once(element: str, source: str) -> None:
    x = edges(element).astype(np.float64)
    if source == "f64":
        x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
    dtypes: dict[str, Any] = {
        "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    }  # fmt: skip
    if source in dtypes:
        with np.errstate(over="ignore"):
            x = x.astype(dtypes[source])
    else:
        x = np.arange(-300, 300).astype(np.int32 if source == "i32" else bool)
    if element == "f8E8M0FNU" and source in ("bf16", "f64"):
        x = x[~(np.abs(x.astype(np.float64)) < 2.0**-120) | (x == 0)]
    against_xla(unary("convert", source, element, x.size), x).bit_exact()


@pytest.mark.parametrize("element", NOT_IN_XLA)
def test_rounded_as_in_ml_dtypes(element: str) -> None:
    """XLA has no such type, and ml_dtypes makes +0 of a negative NaN."""
    x = edges(element)
    x = x[~(np.isnan(x) & np.signbit(x))]
    got = hlo2onnx.translate(unary("convert", "f32", element, x.size))(x)
    want = x.astype(dtype_of(element))
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("element", NOT_IN_XLA)
def test_widened_as_in_ml_dtypes(element: str) -> None:
    x = all_codes(element)
    got = hlo2onnx.translate(unary("convert", element, "f32", x.size))(x)
    want = x.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("target", ["f32", "f64", "f16", "i32", "ui8", "i1", "f8E4M3"])
@pytest.mark.parametrize("element", ONE_QUICKLY)
def test_every_number(element: str, target: str) -> None:
    x = all_codes(element)
    if element == "f8E8M0FNU":
        x = x[1:]  # 2^-127 is denormal
    if element == "f4E2M1FN":
        x = x[np.abs(x.astype(np.float32)) < 6]  # XLA saturates 6, which is the largest
    against_xla(unary("convert", element, target, x.size), x).bit_exact()


def test_the_largest_of_four_bits_as_an_integer() -> None:
    x = np.array([6, -6, 4], np.float32).astype(ml_dtypes.float4_e2m1fn)
    got = hlo2onnx.translate(unary("convert", "f4E2M1FN", "i32", 3))(x)
    assert got.tolist() == [6, -6, 4]


@pytest.mark.parametrize(("element", "bits"), [("f8E4M3", "ui8"), ("f8E4M3", "i8")])
def test_bits(element: str, bits: str) -> None:
    x = all_codes(element)
    against_xla(unary("bitcast_convert", element, bits, x.size), x).bit_exact()
    codes = x.view(np.uint8 if bits == "ui8" else np.int8)
    against_xla(unary("bitcast_convert", bits, element, x.size), codes).bit_exact()


def test_bits_of_four() -> None:
    """A pair of f4 in a byte, the first in its low half."""
    text = """
module { func.func public @main(%arg0: tensor<8x2xf4E2M1FN>) -> (tensor<8xui8>, tensor<8x2xf4E2M1FN>) {
  %0 = stablehlo.bitcast_convert %arg0 : (tensor<8x2xf4E2M1FN>) -> tensor<8xui8>
  %1 = stablehlo.bitcast_convert %0 : (tensor<8xui8>) -> tensor<8x2xf4E2M1FN>
  return %0, %1 : tensor<8xui8>, tensor<8x2xf4E2M1FN>
} }"""  # noqa: E501
    x = all_codes("f4E2M1FN").reshape(8, 2)
    codes, back = hlo2onnx.translate(text)(x)
    low, high = x.view(np.uint8).T
    np.testing.assert_array_equal(codes, low | high << 4)
    np.testing.assert_array_equal(back.view(np.uint8), x.view(np.uint8))


# -- ops ----------------------------------------------------------------------------------------

UNARY = ["abs", "cbrt", "ceil", "cosine", "exponential", "floor", "log", "logistic", "negate",
         "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tanh"]  # fmt: skip
BINARY = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder",
          "subtract"]  # fmt: skip


def ordinary(element: str, size: int = 64) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.uniform(0.5, 4, size).astype(dtype_of(element))


@pytest.mark.costly
@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("element", ONE_QUICKLY)
def test_unary(element: str, op: str) -> None:
    x = all_codes(element)
    if element == "f8E8M0FNU":
        x = x[32:224]
    against_xla(unary(op, element, element, x.size), x).close()


@pytest.mark.costly
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("element", ONE_QUICKLY)
def test_binary(element: str, op: str) -> None:
    x = ordinary(element)
    tensor = f"tensor<{x.size}x{element}>"
    against_xla(
        f"""
module {{ func.func public @main(%arg0: {tensor}, %arg1: {tensor}) -> {tensor} {{
  %0 = stablehlo.{op} %arg0, %arg1 : {tensor}
  return %0 : {tensor}
}} }}""",
        x,
        x[::-1].copy(),
    ).close()


COMPARE = """
module {{ func.func public @main(%arg0: {x}, %arg1: {x}) -> tensor<{n}xi1> {{
  %0 = stablehlo.compare {direction}, %arg0, %arg1, {kind} : ({x}, {x}) -> tensor<{n}xi1>
  return %0 : tensor<{n}xi1>
}} }}"""


@pytest.mark.parametrize("kind", ["FLOAT", "TOTALORDER"])
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "GE"])
@pytest.mark.parametrize("element", ONE_QUICKLY)
def test_compare(element: str, direction: str, kind: str) -> None:
    codes = all_codes(element)
    codes = codes[~np.isnan(codes.astype(np.float32)) & (codes.view(np.uint8) > 0)][::9]
    pairs = np.array(list(itertools.product(codes.view(np.uint8), repeat=2)), np.uint8)
    x, y = (column.copy().view(codes.dtype) for column in pairs.T)
    tensor = f"tensor<{x.size}x{element}>"
    text = COMPARE.format(x=tensor, n=x.size, direction=direction, kind=kind)
    against_xla(text, x, y).bit_exact()


@pytest.mark.parametrize("element", IN_XLA)
def test_constants(element: str) -> None:
    """Decimal numbers, bits of NaN, bytes in hexadecimal, one for all, none at all."""
    x = all_codes(element)
    count = x.size
    many = ", ".join("0x%02X" % code for code in x.view(np.uint8))  # noqa: UP031
    hexadecimal = np.tile(x.view(np.uint8), 32).tobytes().hex().upper()
    types = [f"tensor<{dims}{element}>" for dims in (f"{count}x", "2x2x", "3x", "0x2x", "")]
    types.append(f"tensor<{32 * count}x{element}>")
    bodies = [f"[{many}]", "[[1.0, -2.0], [0.5, -0.0]]", "1.5", "", "-1.5", f'"0x{hexadecimal}"']
    lines = [
        f"  %{index} = stablehlo.constant dense<{body}> : {kind}"
        for index, (body, kind) in enumerate(zip(bodies, types, strict=True))
    ]
    results, all_types = ", ".join(f"%{index}" for index in range(6)), ", ".join(types)
    head, end = f"module {{ func.func public @main() -> ({all_types}) {{", "} }"
    text = "\n".join([head, *lines, f"  return {results} : {all_types}", end])
    against_xla(text).bit_exact()


RESOURCE = """
module {{ func.func public @main() -> tensor<4x{element}> {{
  %0 = stablehlo.constant dense_resource<w> : tensor<4x{element}>
  return %0 : tensor<4x{element}>
}} }}
{{-#
  dialect_resources: {{ builtin: {{ w: "0x0400000038404850" }} }}
#-}}"""


@pytest.mark.parametrize("element", ["f8E4M3", "f8E3M4", "f8E4M3B11FNUZ"])
def test_resources(element: str) -> None:
    against_xla(RESOURCE.format(element=element)).bit_exact()


# -- programs -----------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "sum": lambda x: lax.reduce(x[:3], x.dtype.type(0), lax.add, (0,)),
    "two at once": lambda x: lax.reduce(
        (x, lax.iota(np.int32, x.size)),
        (x.dtype.type(0), np.int32(0)),
        lambda a, b: (lax.max(a[0], b[0]), lax.add(a[1], b[1])),
        (0,),
    ),
    "sort with values": lambda x: lax.sort((x, lax.iota(np.int32, x.size)), num_keys=1),
    "top_k": lambda x: lax.top_k(x, 3),
    "largest at": lambda x: x.at[jnp.array([3, 1, 3])].max(x[:3]),
    "update": lambda x: lax.dynamic_update_slice(x, x[:3], (jnp.argmax(x),)),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * c[0] - c, x),
    "branches": lambda x: lax.cond(x[0] > 1, lambda v: v + v, lambda v: v[::-1], x),
    "movement": lambda x: jnp.pad(jnp.concatenate([x, x[::-1]]).reshape(2, -1).T, 1)[1:],
    "product": lambda x: lax.dot_general(
        x.reshape(4, -1), x.reshape(-1, 4), (((1,), (0,)), ((), ())),
        preferred_element_type=np.float32,
    ),
}  # fmt: skip


NOT_COMPILED_BY_XLA = {("f4E2M1FN", "product"), ("f4E2M1FN", "top_k")}


@pytest.mark.costly
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", ONE_QUICKLY[:-1])
def test_programs(element: str, name: str) -> None:
    x = ordinary(element, 16)
    program = hlo2onnx.translate(FUNCTIONS[name], x)
    if (element, name) in NOT_COMPILED_BY_XLA:
        expected = jax.tree.leaves(FUNCTIONS[name](x.astype(np.float32)))
        for got, want in zip(jax.tree.leaves(program(x)), expected, strict=True):
            np.testing.assert_array_equal(got.astype(np.float32), want)
        return
    found = program.verify(x)
    assert found, found


def test_boundary() -> None:
    x = ordinary("f8E4M3")
    program = hlo2onnx.translate(lambda x: {"twice": x + x}, x)
    assert program(x)["twice"].dtype == x.dtype
    (given,), (result,) = program.model.graph.inputs, program.model.graph.outputs
    assert given.dtype == result.dtype == oir.DataType.UINT8
    assert given.metadata_props[ELEMENT_TYPE] == "f8E4M3"
    assert result.metadata_props[ELEMENT_TYPE] == "f8E4M3"
    assert "x is uint8 and holds the bits of f8E4M3 numbers" in program.report.notes
    proto = program.model_proto
    assert proto.graph.input[0].metadata_props[0].value == "f8E4M3"


def test_scalars_and_other_types_are_checked() -> None:
    program = hlo2onnx.translate(lambda x: x + x, jnp.float8_e4m3(1))
    assert float(program(1.5)) == 3
    with pytest.raises(hlo2onnx.SignatureError, match="must be float8_e4m3, not uint8"):
        program(np.uint8(1))


def test_weights_that_are_bound() -> None:
    w = ordinary("f8E3M4", 8)
    program = hlo2onnx.translate(lambda w, x: w + x, w, w, bind={"w": w})
    assert program.verify(w)
    assert "w (folded)" in program.model.graph.initializers  # small: decoded at once


def test_states() -> None:
    step = jax.jit(lambda state, x: (state + x, state * x), donate_argnums=0)
    x = ordinary("f8E4M3", 8)
    program = hlo2onnx.translate(step.lower(x, x))
    state, product = program.step(x, x)
    assert state.dtype == x.dtype
    state, product = program.step(state, x)
    np.testing.assert_array_equal(
        product, np.asarray(step(*(np.asarray(v) for v in (step(x, x)[0], x)))[1])
    )
    assert np.asarray(state).dtype == x.dtype


def test_symbolic_shapes() -> None:
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 4"), jnp.float8_e4m3)
    program = hlo2onnx.translate(lambda x: jnp.exp(x[::-1]) + x[:1], spec)
    assert program.verify(ordinary("f8E4M3", 12).reshape(3, 4))


def test_the_plain_standard_has_four_bits() -> None:
    program = hlo2onnx.translate(lambda x: x + x, ordinary("f4E2M1FN"), target="onnx")
    assert program.model.graph.inputs[0].dtype == oir.DataType.FLOAT4E2M1


def test_neighbours_are_refused() -> None:
    text = unary("chlo.next_after %arg0,", "f8E4M3", "f8E4M3", 2).replace("stablehlo.chlo", "chlo")
    text = text.replace(
        ": (tensor<2xf8E4M3>) -> tensor<2xf8E4M3>",
        ": tensor<2xf8E4M3>, tensor<2xf8E4M3> -> tensor<2xf8E4M3>",
    )
    with pytest.raises(LoadError, match="next_after of f8E4M3"):
        hlo2onnx.translate(text)

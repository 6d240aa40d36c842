"""Elementwise arithmetic and transcendental ops, in every element type."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from accuracy import like_xla, ulps
from against_xla import Run, against_xla
from edge_values import edge_values, pairs

from hlo2onnx.frontend.mlir.types import numpy_type

HALVES = ["f16", "bf16"]
FLOATS = ["f32", "f64", *HALVES]
INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
SIGNED = [name for name in INTEGERS if name[0] == "i"]


def apply(op: str, element: str, *operands: np.ndarray, result: str = "") -> Run:
    """One op on these operands, in XLA and in ORT."""
    dims = "".join(f"{dim}x" for dim in operands[0].shape)
    operand, result = f"tensor<{dims}{element}>", f"tensor<{dims}{result or element}>"
    parameters = ", ".join(f"%arg{i}: {operand}" for i in range(len(operands)))
    names = ", ".join(f"%arg{i}" for i in range(len(operands)))
    types = ", ".join([operand] * len(operands))
    return against_xla(
        f"module {{ func.func public @main({parameters}) -> {result} {{\n"
        f'  %0 = "stablehlo.{op}"({names}) : ({types}) -> {result}\n'
        f"  return %0 : {result}\n}} }}",
        *operands,
    )


# op: ONNX operators it becomes in f32, the exact function, where to look, ULP in f32 and in f64
UNARY: dict[str, tuple[list[str], Callable[..., np.ndarray], tuple[float, float], int, int]] = {
    "abs": (["Abs"], np.abs, (-9, 9), 0, 0),
    "cbrt": (
        ["Abs", "Div", "Div", "LessOrEqual", "Mul", "Mul", "Pow", "Sign", "Sub", "Sub", "Where"],
        np.cbrt,
        (-1e6, 1e6),
        2,
        2,
    ),
    "ceil": (["Ceil"], np.ceil, (-9, 9), 0, 0),
    "cosine": (["Cos"], np.cos, (-1.5, 1.5), 3, 9),
    "exponential": (["Exp"], np.exp, (-80, 80), 2, 3),
    "exponential_minus_one": (["Add", "Exp", "Mul", "Mul", "Tanh"], np.expm1, (-20, 20), 7, 8),
    "floor": (["Floor"], np.floor, (-9, 9), 0, 0),
    "log": (["Log"], np.log, (1e-9, 9), 4, 3),
    "log_plus_one": (
        ["Add", "Div", "IsNaN", "Log", "Sub", "Sub", "Sub", "Sub", "Where"],
        np.log1p,
        (-0.999, 9),
        5,
        3,
    ),
    "logistic": (
        ["Add", "Exp", "Neg", "Reciprocal"],
        lambda x: 1 / (1 + np.exp(-x)),
        (-80, 30),
        3,
        4,
    ),
    "negate": (["Neg"], np.negative, (-9, 9), 0, 0),
    "round_nearest_afz": (
        ["Abs", "Add", "Equal", "Mul", "Round", "Sign", "Sub", "Where"],
        lambda x: np.trunc(x) + np.trunc(2 * (x - np.trunc(x))),
        (-9, 9),
        0,
        0,
    ),
    "round_nearest_even": (["Round"], np.round, (-9, 9), 0, 0),
    "rsqrt": (["Reciprocal", "Sqrt"], lambda x: 1 / np.sqrt(x), (1e-9, 1e9), 2, 2),
    "sign": (["Cast", "Sign", "Where"], np.sign, (-9, 9), 0, 0),
    "sine": (["Sin"], np.sin, (-1.5, 1.5), 3, 4),
    "sqrt": (["Sqrt"], np.sqrt, (0, 1e9), 1, 1),
    "tan": (["Tan"], np.tan, (-9, 9), 2, 6),
    "tanh": (["Tanh"], np.tanh, (-9, 9), 5, 8),
}


def sweep(element: str, low: float, high: float) -> np.ndarray:
    """Evenly spread values, and values that approach 0 from both sides."""
    near = 10.0 ** np.linspace(-30 if element in ("f32", "f64", "bf16") else -4, 0, 300)
    values = np.concatenate([np.linspace(low, high, 3001), near, -near])
    largest = float(ml_dtypes.finfo(numpy_type(element)).max)
    low, high = max(low, -largest), min(high, largest)
    return values[(values >= low) & (values <= high)].astype(numpy_type(element))


@pytest.mark.costly
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_accuracy(op: str, element: str) -> None:
    operators, exact, (low, high), in_f32, in_f64 = UNARY[op]
    x = sweep(element, low, high)
    with np.errstate(all="ignore"):
        truth = exact(x.astype(np.longdouble if element == "f64" else np.float64))
    run = apply(op, element, x)
    if element == "f32":
        run.graph_is(*operators)
    # A half type is rounded once, from f32.
    limit = {"f32": in_f32, "f64": in_f64}.get(element, min(in_f32, 1))
    assert max(ulps(outputs[0], truth) for outputs in run.actual) <= limit


@pytest.mark.costly
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_at_the_edges(op: str, element: str) -> None:
    like_xla(apply(op, element, edge_values(element)))


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ"])
@pytest.mark.parametrize("op", ["abs", "exponential", "logistic", "sign", "round_nearest_afz"])
def test_unary_on_eight_bits(op: str, element: str) -> None:
    # Most values, and NaN, are exact in every step, so that equality may be asked for.
    every_value = np.arange(256, dtype=np.uint8).view(numpy_type(element))
    apply(op, element, every_value).close()


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(
    "op",
    ["abs", "cbrt", "ceil", "exponential_minus_one", "floor", "log_plus_one", "negate",
     "round_nearest_afz", "round_nearest_even", "sign", "sine", "sqrt", "tan", "tanh"],
)  # fmt: skip
def test_zero_keeps_its_sign(op: str, element: str) -> None:
    x = np.array([0.0, -0.0, -0.25, 0.25], numpy_type(element))
    run = apply(op, element, x)
    for (got,) in run.actual:
        zero = run.expected[0] == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(run.expected[0][zero]))


@pytest.mark.parametrize("element", [*FLOATS, "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ"])
def test_is_finite(element: str) -> None:
    run = apply("is_finite", element, edge_values(element), result="i1").bit_exact()
    if element in ("f32", "f64"):
        run.graph_is("Abs", "LessOrEqual")


ARITHMETIC = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "maximum": "Max",
    "minimum": "Min",
}


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", [*ARITHMETIC, "power", "atan2"])
def test_binary_at_the_edges(op: str, element: str) -> None:
    """NaN, infinities and zeros of both signs, each with each."""
    run = apply(op, element, *pairs(element))
    like_xla(run)
    if element == "f32" and op in ARITHMETIC:
        run.graph_is(ARITHMETIC[op])


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("op", [*ARITHMETIC, "power"])
def test_binary_on_eight_bits(op: str, element: str) -> None:
    apply(op, element, *pairs(element)).close()


@pytest.mark.parametrize(("element", "limit"), [("f32", 6), ("f64", 6), ("f16", 1), ("bf16", 1)])
def test_atan2_accuracy(element: str, limit: int) -> None:
    rng = np.random.default_rng(0)
    exponents = rng.uniform(-4, 4, (2, 3000))
    y, x = (rng.choice([-1, 1], (2, 3000)) * 10.0**exponents).astype(numpy_type(element))
    truth = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    assert max(ulps(outputs[0], truth) for outputs in apply("atan2", element, y, x).actual) <= limit


def test_atan2_of_zeros_and_infinities_has_the_sign_of_y() -> None:
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 2.0, -2.0], np.float32)
    y, x = (side.reshape(-1) for side in np.meshgrid(ends, ends))
    run = apply("atan2", "f32", y, x)
    like_xla(run)
    np.testing.assert_array_equal(np.signbit(run.actual[0][0]), np.signbit(y))


@pytest.mark.parametrize(("element", "limit"), [("f32", 1), ("f64", 3), ("f16", 1), ("bf16", 1)])
def test_power_accuracy(element: str, limit: int) -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-1, 1, 3000)).astype(numpy_type(element))
    y = rng.uniform(-9, 9, 3000).astype(numpy_type(element))
    truth = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert max(ulps(outputs[0], truth) for outputs in apply("power", element, x, y).actual) <= limit


@pytest.mark.parametrize("element", INTEGERS)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_integers_wrap(op: str, element: str) -> None:
    run = apply(op, element, *pairs(element)).bit_exact()
    if element == "i64" and op in ("maximum", "minimum"):
        run.graph_is("Less", "Where")  # ORT's own are wrong beyond 32 bits
    elif element in ("i32", "i64", "ui8"):
        run.graph_is(ARITHMETIC[op])


@pytest.mark.parametrize(
    ("op", "element"),
    [*((op, element) for op in ("abs", "sign") for element in SIGNED),
     *(("negate", element) for element in INTEGERS)],
)  # fmt: skip
def test_signs_of_integers(op: str, element: str) -> None:
    run = apply(op, element, edge_values(element)).bit_exact()
    if (op, element) == ("sign", "i64"):  # ORT's own is wrong beyond 32 bits
        run.graph_is("Greater", "Cast", "Less", "Cast", "Sub")
        return
    run.graph_is({"abs": "Abs", "sign": "Sign"}.get(op, "Neg" if element in SIGNED else "Sub"))


@pytest.mark.parametrize(
    ("op", "operator"),
    [("add", "Or"), ("multiply", "And"), ("maximum", "Or"), ("minimum", "And")],
)
def test_booleans(op: str, operator: str) -> None:
    apply(op, "i1", *pairs("i1")).bit_exact().graph_is(operator)


@pytest.mark.parametrize("element", INTEGERS)
def test_integer_power(element: str) -> None:
    """All edge values to all powers that both ends of the JAX range get right: below 64."""
    dtype = numpy_type(element)
    powers = [0, 1, 2, 3, 5, 31, 32, 62, 63]
    if element in SIGNED:
        powers += [-1, -2, -3, np.iinfo(dtype).min]
    x, y = np.meshgrid(edge_values(element), np.array(powers, dtype))
    apply("power", element, x.reshape(-1), y.reshape(-1)).bit_exact()


@pytest.mark.parametrize("element", ["i16", "i32", "i64"])
def test_integer_power_beyond_six_bits(element: str) -> None:
    x = np.array([3, -3, 7, -1, 1, 5], numpy_type(element))
    y = np.array([64, 65, 1000, 32767, 32766, 127], numpy_type(element))
    apply("power", element, x, y).bit_exact()
    run = apply("power", element, 2 * x, y)
    np.testing.assert_array_equal(run.actual[0][0], 0)


@pytest.mark.parametrize("element", SIGNED)
def test_integer_power_to_the_constant_minus_one(element: str) -> None:
    """XLA makes 1 / x of it, which is -1 for 0."""
    x = edge_values(element)
    type = f"tensor<{len(x)}x{element}>"
    against_xla(
        f"""
module {{ func.func public @main(%arg0: {type}) -> {type} {{
  %0 = stablehlo.constant dense<-1> : {type}
  %1 = stablehlo.power %arg0, %0 : {type}
  return %1 : {type}
}} }}""",
        x,
    ).bit_exact()


def test_integer_power_looks_at_the_bits_the_exponent_can_have() -> None:
    run = against_xla(
        """
module { func.func public @main(%arg0: tensor<7xi32>) -> tensor<7xi32> {
  %0 = stablehlo.constant dense<[0, 1, 2, 3, 2, 1, 0]> : tensor<7xi32>
  %1 = stablehlo.power %arg0, %0 : tensor<7xi32>
  return %1 : tensor<7xi32>
} }""",
        np.arange(-3, 4, dtype=np.int32),
    ).bit_exact()
    assert run.nodes["Mul"] <= 3
    run.has_no("GreaterOrEqual", "Less", "Abs", "Pow")


@pytest.mark.parametrize(("op", "exact"), [("add", np.add), ("multiply", np.multiply)])
def test_four_bits_wrap(op: str, exact: Callable[..., np.ndarray]) -> None:
    """Against numpy: XLA drops the conversions and computes in eight bits."""
    x, y = (side.reshape(-1).astype(np.int8) for side in np.meshgrid(range(-8, 8), range(-8, 8)))
    run = against_xla(
        f"""
module {{ func.func public @main(%arg0: tensor<256xi8>, %arg1: tensor<256xi8>) -> tensor<256xi8> {{
  %0 = stablehlo.convert %arg0 : (tensor<256xi8>) -> tensor<256xi4>
  %1 = stablehlo.convert %arg1 : (tensor<256xi8>) -> tensor<256xi4>
  %2 = stablehlo.{op} %0, %1 : tensor<256xi4>
  %3 = stablehlo.convert %2 : (tensor<256xi4>) -> tensor<256xi8>
  return %3 : tensor<256xi8>
}} }}""",
        x,
        y,
    )
    wrapped = (exact(x, y) + 8) % 16 - 8
    for (got,) in run.actual:
        np.testing.assert_array_equal(got, wrapped)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0), (1, 1, 5)])
@pytest.mark.parametrize("op", ["log_plus_one", "cbrt", "round_nearest_afz", "sign"])
def test_unary_shapes(op: str, shape: tuple[int, ...]) -> None:
    like_xla(apply(op, "f32", np.full(shape, 2.5, np.float32)))


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1)])
@pytest.mark.parametrize(("op", "element"), [("atan2", "f32"), ("power", "i32"), ("add", "i1")])
def test_binary_shapes(op: str, element: str, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, numpy_type(element))
    like_xla(apply(op, element, x, x))


def test_logistic_is_not_sigmoid() -> None:
    """Sigmoid is 0 from -18 on in ONNX Runtime's f32 kernel."""
    x = np.array([-15, -18, -40, -87], np.float32)
    run = apply("logistic", "f32", x).has_no("Sigmoid")
    assert ulps(run.actual[0][0], np.exp(x.astype(np.float64))) < 10


def test_accuracy_requests_are_taken() -> None:
    run = against_xla(
        """
module { func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.exponential"(%arg0) {result_accuracy = #stablehlo.result_accuracy<
    mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "stablehlo.cbrt"(%0) {result_accuracy = #stablehlo.result_accuracy<
    atol = 0.0, rtol = 0.0, ulps = 1, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>}
    : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
} }""",
        np.array([-1, 0, 2], np.float32),
    )
    like_xla(run)

"""Complex arithmetic against XLA, at ordinary points and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import Run

import hlo2onnx

UNARY = ["abs", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
         "logistic", "negate", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"]  # fmt: skip
BINARY = ["add", "atan2", "subtract", "maximum", "minimum", "multiply", "divide", "power"]
CHLO = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "square", "conj"]
EDGES = [0.0, -0.0, 1.0, -1.5, -1e-30, 2.5, np.inf, -np.inf, np.nan]


def program(op: str, arity: int, element: str, dialect: str = "stablehlo") -> str:
    names = ", ".join(f"%arg{i}" for i in range(arity))
    arguments = ", ".join(f"%arg{i}: tensor<?xcomplex<{element}>>" for i in range(arity))
    operand = f"tensor<?xcomplex<{element}>>"
    result = f"tensor<?x{element}>" if op == "abs" else operand
    arrow = "->" if dialect == "chlo" else ""
    kind = f"{operand} -> {result}" if arity == 1 and (arrow or op == "abs") else operand
    if op == "abs":
        kind = f"({operand}) -> {result}"
    return (
        f"module {{ func.func public @main({arguments}) -> {result} {{\n"
        f"  %0 = {dialect}.{op} {names} : {kind}\n  return %0 : {result}\n}} }}"
    )


def run(op: str, element: str, *inputs: np.ndarray, dialect: str = "stablehlo") -> Run:
    text = program(op, len(inputs), element, dialect).replace("?x", f"{inputs[0].size}x")
    return Run(text, inputs)


def grid(values: list[float], dtype: type) -> np.ndarray:
    result = np.empty(len(values) ** 2, dtype)
    result.real = np.repeat(values, len(values))
    result.imag = np.tile(values, len(values))
    return result


def ordinary(dtype: type, size: int = 200) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (3 * rng.standard_normal(size) + 3j * rng.standard_normal(size)).astype(dtype)


TYPES = [("f32", np.complex64), ("f64", np.complex128)]


@pytest.mark.costly
@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str, element: str, dtype: type) -> None:
    run(op, element, ordinary(dtype)).close()


@pytest.mark.costly
@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", UNARY)
def test_unary_near_zero(op: str, element: str, dtype: type) -> None:
    x = ordinary(dtype) * dtype(1e-4)
    if (op, element) == ("sine", "f64"):
        # XLA's sinh is (e^b - e^-b) / 2 here, which has lost half of its digits.
        np.testing.assert_allclose(run(op, element, x).actual[0][0], np.sin(x), rtol=1e-14)
    else:
        run(op, element, x).close()


@pytest.mark.costly
@pytest.mark.parametrize("op", UNARY)
def test_unary_edges(op: str) -> None:
    run(op, "f32", grid(EDGES, np.complex64)).close()


@pytest.mark.costly
@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, element: str, dtype: type) -> None:
    x = ordinary(dtype)
    run(op, element, x, x[::-1].copy()).close()


@pytest.mark.parametrize("op", [op for op in BINARY if op != "atan2"])
def test_binary_edges(op: str) -> None:
    values = grid(EDGES, np.complex64)
    run(op, "f32", np.repeat(values, values.size), np.tile(values, values.size)).close()


def test_atan2_edges() -> None:
    """On the cut of the logarithm the last bit decides between pi and -pi."""
    values = grid(EDGES, np.complex64)
    found = run("atan2", "f32", np.repeat(values, values.size), np.tile(values, values.size))
    want = found.expected[0]
    for (got,) in found.actual:
        turns = np.exp(1j * got.real.astype(float)), np.exp(1j * want.real.astype(float))
        np.testing.assert_allclose(*turns, atol=1e-5)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("element", "dtype"), TYPES)
def test_cube_root(element: str, dtype: type) -> None:
    """XLA has none of complex numbers, so that numpy is the judge."""
    finite = grid([0.0, -0.0, 1.0, -8.0, 1e-30, 1e30, 27.0], dtype)
    x = np.concatenate([ordinary(dtype), ordinary(dtype) * dtype(1e-9), finite])
    program_ = hlo2onnx.translate(program("cbrt", 1, element).replace("?x", f"{x.size}x"))
    precise = x.astype(np.clongdouble)
    want = np.cbrt(np.abs(precise)) * np.exp(1j * np.angle(precise) / 3)
    got = program_(x)
    limit = 8 * np.finfo(dtype).eps
    np.testing.assert_array_less(np.abs(got - want), limit * np.abs(want) + np.finfo(dtype).tiny)
    real = finite.real >= 0
    on_axis = program_(x)[-finite.size :][real & (finite.imag == 0)]
    assert (on_axis.imag == 0).all()


def test_cube_root_of_infinities_and_nan() -> None:
    x = np.array(
        [np.inf, complex(np.inf, -0.0), complex(np.nan, 0), complex(0, np.nan)], np.complex64
    )
    got = hlo2onnx.translate(program("cbrt", 1, "f32").replace("?x", "4x"))(x)
    assert got[:2].tolist() == [np.inf, np.inf]
    assert np.isnan(got[2:]).all()


@pytest.mark.parametrize("op", ["maximum", "atan2"])
def test_reached_through_chlo(op: str) -> None:
    x = ordinary(np.complex64)
    kind = f"tensor<{x.size}xcomplex<f32>>"
    text = f"""
module {{ func.func public @main(%arg0: {kind}, %arg1: {kind}) -> {kind} {{
  %0 = chlo.broadcast_{op} %arg0, %arg1 : ({kind}, {kind}) -> {kind}
  return %0 : {kind}
}} }}"""
    Run(text, [x, x[::-1].copy()]).close()


@pytest.mark.costly
@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", CHLO)
def test_chlo(op: str, element: str, dtype: type) -> None:
    run(op, element, ordinary(dtype), dialect="chlo").close()

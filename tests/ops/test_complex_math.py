"""Complex arithmetic against XLA, at ordinary points and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import Run

UNARY = ["abs", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one",
         "logistic", "negate", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh"]  # fmt: skip
BINARY = ["add", "subtract", "multiply", "divide", "power"]
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


@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op: str, element: str, dtype: type) -> None:
    run(op, element, ordinary(dtype)).close()


@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", UNARY)
def test_unary_near_zero(op: str, element: str, dtype: type) -> None:
    x = ordinary(dtype) * dtype(1e-4)
    if (op, element) == ("sine", "f64"):
        # XLA's sinh is (e^b - e^-b) / 2 here, which has lost half of its digits.
        np.testing.assert_allclose(run(op, element, x).actual[0][0], np.sin(x), rtol=1e-14)
    else:
        run(op, element, x).close()


@pytest.mark.parametrize("op", UNARY)
def test_unary_edges(op: str) -> None:
    run(op, "f32", grid(EDGES, np.complex64)).close()


@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, element: str, dtype: type) -> None:
    x = ordinary(dtype)
    run(op, element, x, x[::-1].copy()).close()


@pytest.mark.parametrize("op", BINARY)
def test_binary_edges(op: str) -> None:
    values = grid(EDGES, np.complex64)
    run(op, "f32", np.repeat(values, values.size), np.tile(values, values.size)).close()


@pytest.mark.parametrize(("element", "dtype"), TYPES)
@pytest.mark.parametrize("op", CHLO)
def test_chlo(op: str, element: str, dtype: type) -> None:
    run(op, element, ordinary(dtype), dialect="chlo").close()

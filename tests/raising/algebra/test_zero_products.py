"""0 * x of finite numbers where the sign of the zero is lost, and sums with what is never -0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder

Value = oir.Value
MOST = float(np.finfo(np.float32).max)
X = np.array([1.5, -0.0, 0.0, np.nan, np.inf, -np.inf, -2.0, MOST], np.float32)
INPUTS = {"x": X, "y": X[::-1].copy()}


def finite(b: GraphBuilder, x: Value) -> Value:
    """1 for NaN, and 0 for others."""
    return b.cast(b.IsNaN(x), oir.DataType.FLOAT)


def nothing(b: GraphBuilder, x: Value, number: float = 0.0) -> Value:
    return b.Mul(b.scalar_like(number, x), finite(b, x))


def less(b: GraphBuilder, y: Value, number: float = 3.0) -> Value:
    return b.Sub(b.scalar_like(number, y), y)


FIRES: dict[str, Callable[[GraphBuilder, Value, Value], Value]] = {
    "a difference": lambda b, x, y: b.Add(nothing(b, x), less(b, y)),
    "a difference from 0": lambda b, x, y: b.Add(nothing(b, x), less(b, y, 0.0)),
    "the other order": lambda b, x, y: b.Add(less(b, y), nothing(b, x)),
    "-0": lambda b, x, y: b.Add(nothing(b, x, -0.0), less(b, y)),
    "a sum": lambda b, x, y: b.Add(nothing(b, x), b.Add(y, b.scalar_like(2, y))),
    "an even function": lambda b, x, y: b.Add(nothing(b, x), b.Abs(y)),
    "a negated zero": lambda b, x, y: b.Add(b.Neg(nothing(b, x)), less(b, y)),
}
NEAR_MISSES: dict[str, Callable[[GraphBuilder, Value, Value], Value]] = {
    "any sum": lambda b, x, y: b.Add(nothing(b, x), y),
    "a difference from -0": lambda b, x, y: b.Add(nothing(b, x), less(b, y, -0.0)),
    "a difference of any": lambda b, x, y: b.Add(nothing(b, x), b.Sub(y, b.scalar_like(2, y))),
    "a difference": lambda b, x, y: b.Sub(less(b, y), nothing(b, x)),
    "a result": lambda b, x, y: nothing(b, x),
    "any factor": lambda b, x, y: b.Add(b.Mul(b.scalar_like(0, x), x), less(b, y)),
    "another factor": lambda b, x, y: b.Add(nothing(b, x, 1e-30), less(b, y)),
    "other numbers": lambda b, x, y: b.Add(b.Mul(b.scalar_like(0, x), b.Exp(x)), less(b, y)),
}


def rewritten(build: Callable[[GraphBuilder, Value, Value], Any]) -> Rewrite:
    return Rewrite(build, INPUTS, rule("fold-absorbing-operand"), rule("fold-identity-operand"))


@pytest.mark.parametrize("name", FIRES)
def test_products_with_zero_vanish(name: str) -> None:
    made = rewritten(FIRES[name])
    assert made.fired["fold-absorbing-operand"] == 1
    assert not made.nodes["Mul"] and not made.nodes["IsNaN"]
    assert name == "a negated zero" or made.fired["fold-identity-operand"] == 1


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    rewritten(NEAR_MISSES[name]).nothing()


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_powers_of_one(dtype: type) -> None:
    numbers = np.array([0, 1, 5, -3], np.int32)

    def power(b: GraphBuilder, n: Value) -> Value:
        return b.Neg(b.Pow(b.const(dtype(1)), b.cast(n, oir.DataType.FLOAT)))

    Rewrite(power, {"n": numbers}, rule("fold-absorbing-operand")).gives("Neg", "Expand")


def test_other_powers() -> None:
    for base in (2.0, -1.0, 0.0):
        Rewrite(
            lambda b, n, base=base: b.Pow(b.const(np.float32(base)), b.cast(n, oir.DataType.FLOAT)),
            {"n": np.arange(4)},
            rule("fold-absorbing-operand"),
        ).nothing()
    for pair in ((0, 1), (1, 0)):
        Rewrite(
            lambda b, x, pair=pair: b.Pow(*[(x, b.scalar_like(1, x))[k] for k in pair]),
            {"x": X},
            rule("fold-absorbing-operand"),
        ).nothing()

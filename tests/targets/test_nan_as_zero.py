"""Floats with 0 for NaN before a Clip: ThresholdedRelu, where that gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize

X = np.array(
    [np.nan, -np.nan, 0.0, -0.0, 0.5, -0.5, 1e-45, 3e38, -3e38, np.inf, -np.inf, 200, -200],
    np.float32,
)
Build = Callable[[GraphBuilder, oir.Value], oir.Value]


def number(b: GraphBuilder, x: oir.Value, value: float) -> oir.Value:
    return b.scalar_like(value, x)


def guarded(b: GraphBuilder, x: oir.Value, zero: float = 0.0) -> oir.Value:
    return b.Where(b.IsNaN(x), number(b, x, zero), x)


def clip(b: GraphBuilder, x: oir.Value, low: float, high: float) -> oir.Value:
    return b.Clip(x, number(b, x, low), number(b, x, high))


def legalized(build: Build, x: np.ndarray = X) -> list[str]:
    """The operators after legalization, which gives the same numbers."""
    plain, legal = (model_of(build, {"x": x}) for _ in range(2))
    legalize(legal, load_target("ort-cpu"), "xla", Report())
    for old, new in zip(run_model(plain, {"x": x}), run_model(legal, {"x": x}), strict=True):
        np.testing.assert_array_equal(new, old)
        np.testing.assert_array_equal(np.signbit(new), np.signbit(old))
    return [node.op_type for node in legal.graph]


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-5, 0), (-3e38, np.inf)])
def test_bounds_around_zero(low: float, high: float) -> None:
    names = legalized(lambda b, x: clip(b, guarded(b, x), low, high))
    assert names == ["Clip", "ThresholdedRelu"]


NEAR_MISSES: dict[str, Build] = {
    "no lower bound": lambda b, x: clip(b, guarded(b, x), -np.inf, 9),
    "bounds above zero": lambda b, x: clip(b, guarded(b, x), 1, 9),
    "bounds below zero": lambda b, x: clip(b, guarded(b, x), -9, -1),
    "another number": lambda b, x: clip(b, guarded(b, x, 2.0), -9, 9),
    "a negative zero": lambda b, x: clip(b, guarded(b, x, -0.0), -9, 9),
    "another value": lambda b, x: clip(b, b.Where(b.IsNaN(x), number(b, x, 0), b.Neg(x)), -9, 9),
    "no Clip": lambda b, x: b.Neg(guarded(b, x)),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_other_guards_stay(name: str) -> None:
    assert "Where" in legalized(NEAR_MISSES[name])


def test_f64_has_no_kernel() -> None:
    assert "Where" in legalized(lambda b, x: clip(b, guarded(b, x), -9, 9), X.astype(np.float64))


@pytest.mark.parametrize("limit", [5.0, 0.0, -1.0])
def test_comparisons(limit: float) -> None:
    """0 is not above a positive limit, and neither is NaN."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(b.GreaterOrEqual(guarded(b, x), number(b, x, limit)), oir.DataType.FLOAT)

    assert ("Where" in legalized(build)) == (limit <= 0)

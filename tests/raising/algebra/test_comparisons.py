"""Quotients that are only compared with 1, and numbers that are neither infinite nor NaN."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from rewriting import Rewrite, fires

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.comparisons import CompareQuotient, IsFinite

T = oir.DataType
Value = oir.Value
STRICT = ("Less", "Greater")
WEAK = ("LessOrEqual", "GreaterOrEqual")


def neighbours(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and divisors that are at most two steps away from them or far away."""
    one = np.array([1, 1.5, 1.75, 2, 3, 0.1, 1000, np.finfo(dtype).max / 4], dtype)
    for _ in range(2):
        one = np.concatenate([one, np.nextafter(one[-8:], np.inf, dtype=dtype)])
    edges = np.array([0.0, -0.0, -3, np.inf, -np.inf, np.nan, np.finfo(dtype).max], dtype)
    one = np.concatenate([one, edges])
    x, y = np.meshgrid(one, one)
    return x.ravel(), y.ravel()


def ratio(b: GraphBuilder, x: Value, y: Value, most: float = np.inf) -> Value:
    """x divided by a number between 1/8 and `most`, or NaN."""
    low, high = (b.scalar(bound, oir.DataType(x.dtype)) for bound in (0.125, most))
    return b.Div(x, b.Add(low, b.Abs(y)) if most == np.inf else b.Clip(y, low, high))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compare", STRICT + WEAK)
@pytest.mark.parametrize("swapped", [False, True])
def test_any_numbers(compare: str, swapped: bool, dtype: type) -> None:
    is_below = compare.startswith("Less") != swapped
    most = np.inf if compare in STRICT else 1e6

    def build(b: GraphBuilder, x: Value, y: Value) -> Value:
        x = b.Abs(x) if is_below and compare in STRICT else x
        pair = (ratio(b, x, y, most), b.scalar(1, oir.DataType(x.dtype)))
        return b.op(compare, *(pair[::-1] if swapped else pair))

    x, y = neighbours(dtype)
    if compare in WEAK:  # the runtime's Clip takes no NaN
        x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    rewrite = Rewrite(build, {"x": x, "y": y}, CompareQuotient())
    assert rewrite.fired
    assert not rewrite.nodes["Div"]


def test_tolerances_of_solvers() -> None:
    """A quotient of squares, compared with 1 after an extreme of few elements."""

    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        scale = 1e-4 + 1e-4 * jnp.sum(x * x)
        return jnp.abs(y[0]) / scale < 1, jnp.max(jnp.abs(x - y) / (1e-4 + jnp.abs(y))) < 1

    x = np.array([1, -2, 3], np.float32)
    program = jax.jit(function).lower(x, x + np.float32(1e-5))
    run = against_xla(program.as_text(), x, x + np.float32(1e-5)).bit_exact()
    assert run.program.report.rules["compare-quotient"] == 2


def test_near_misses() -> None:
    def compare(b: GraphBuilder, found: Value, limit: object = 1, op: str = "Less") -> Value:
        return b.op(op, found, b.const(np.asarray(limit, np.float32)))

    def any_sign(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, b.Div(x, y), op="Greater")

    def zero(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, b.Div(x, b.Abs(y)), op="Greater")

    def infinite(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, ratio(b, x, y), op="GreaterOrEqual")

    def infinite_below(b: GraphBuilder, x: Value, y: Value) -> Value:
        """-inf / inf is not below 1."""
        return compare(b, ratio(b, x, y))

    def another_limit(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, ratio(b, x, y), 2, "Greater")

    def no_order(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, ratio(b, x, y), op="Equal")

    def read(b: GraphBuilder, x: Value, y: Value) -> list[Value]:
        found = ratio(b, x, y)
        return [compare(b, found, op="Greater"), found]

    def more_axes(b: GraphBuilder, x: Value, y: Value) -> Value:
        return compare(b, ratio(b, x, y), [[1]], "Greater")

    x = np.array([1, 2], np.float32)
    for build in (
        any_sign,
        zero,
        infinite,
        infinite_below,
        another_limit,
        no_order,
        read,
        more_axes,
    ):
        assert not fires(build, {"x": x, "y": x}, CompareQuotient()), build
    assert fires(
        lambda b, x, y: compare(b, ratio(b, x, y), op="Greater"),
        {"x": x, "y": x},
        CompareQuotient(),
    )

    def integers(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.Less(b.Div(x, b.Max(y, b.scalar(1, T.INT32))), b.scalar(1, T.INT32))

    numbers = np.array([1, 2], np.int32)
    assert not fires(integers, {"x": numbers, "y": numbers}, CompareQuotient())


EDGES = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_finite_numbers(dtype: Any) -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return ~jnp.isinf(x) & ~jnp.isnan(x), jnp.isnan(x) | jnp.isinf(x)

    largest = float(jnp.finfo(dtype).max)
    x = np.array([*EDGES, largest, -largest]).astype(dtype)
    run = against_xla(jax.jit(function).lower(x).as_text(), x).bit_exact()
    assert run.program.report.rules["is-finite"] == 2
    assert not run.program.report.nodes["Equal"]


def test_finite_near_misses() -> None:
    def parts(
        b: GraphBuilder, x: Value, y: Value, limit: float = np.inf
    ) -> tuple[Value, Value, Value]:
        infinite = b.Equal(b.Abs(x), b.scalar(limit, T.FLOAT))
        return infinite, b.Not(infinite), b.Equal(y, y)

    def finite(b: GraphBuilder, x: Value, y: Value) -> Value:
        _, bounded, number = parts(b, x, x)
        return b.And(number, bounded)

    def of_two(b: GraphBuilder, x: Value, y: Value) -> Value:
        _, bounded, number = parts(b, x, y)
        return b.And(bounded, number)

    def infinite(b: GraphBuilder, x: Value, y: Value) -> Value:
        bound, _, number = parts(b, x, x)
        return b.And(bound, number)

    def not_nan(b: GraphBuilder, x: Value, y: Value) -> Value:
        bound, _, number = parts(b, x, x)
        return b.Or(bound, number)

    def other_limit(b: GraphBuilder, x: Value, y: Value) -> Value:
        _, bounded, number = parts(b, x, x, 3.0)
        return b.And(bounded, number)

    def read(b: GraphBuilder, x: Value, y: Value) -> list[Value]:
        _, bounded, number = parts(b, x, x)
        return [b.And(bounded, number), bounded]

    inputs = {"x": np.float32(EDGES), "y": np.float32(EDGES[::-1])}
    Rewrite(finite, inputs, IsFinite()).gives("Abs", "LessOrEqual")
    for build in (of_two, infinite, not_nan, other_limit, read):
        assert not fires(build, inputs, IsFinite()), build

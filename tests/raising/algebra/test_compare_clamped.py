"""Comparisons of clamped numbers with constants."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_xla
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.comparisons import CompareClamped

Value = oir.Value
Made = Value | list[Value]

EDGES = np.array([0.0, -0.0, 1e-45, -1e-45, 1, -1, 3, np.inf, -np.inf, np.nan], np.float32)
X, Y = np.repeat(EDGES, len(EDGES)), np.tile(EDGES, len(EDGES))
FLIPPED = {
    "Less": "Greater", "LessOrEqual": "GreaterOrEqual",
    "Greater": "Less", "GreaterOrEqual": "LessOrEqual",
}  # fmt: skip


def number(b: GraphBuilder, k: float, like: Value) -> Value:
    assert like.dtype is not None
    return b.scalar(k, like.dtype)


def compared(b: GraphBuilder, op_type: str, x: Value, k: float, swapped: bool = False) -> Value:
    pair = (x, number(b, k, x))
    return b.op(FLIPPED[op_type], *pair[::-1]) if swapped else b.op(op_type, *pair)


def without_nan(b: GraphBuilder, x: Value, k: float) -> Value:
    return b.Where(b.IsNaN(x), number(b, k, x), x)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("extreme", "bound", "compare", "limit", "fires"),
    [
        ("Max", 0.0, "LessOrEqual", 0.0, True),
        ("Max", 0.0, "LessOrEqual", -0.0, True),
        ("Max", -0.0, "LessOrEqual", 0.0, True),
        ("Max", -np.inf, "Less", 1.0, True),
        ("Min", 1.0, "Greater", 0.0, True),
        ("Min", np.inf, "GreaterOrEqual", np.inf, True),
        ("Max", 0.0, "Less", 0.0, False),
        ("Max", 1.0, "LessOrEqual", 0.0, False),
        ("Max", 0.0, "Greater", 0.0, False),
        ("Max", 0.0, "GreaterOrEqual", 1.0, False),
        ("Min", 0.0, "Less", 1.0, False),
        ("Min", 0.0, "Greater", 0.0, False),
        ("Max", np.nan, "Less", 1.0, False),
        ("Max", 0.0, "Less", np.nan, False),
    ],
)
def test_bounds(
    extreme: str, bound: float, compare: str, limit: float, fires: bool, swapped: bool
) -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return compared(b, compare, b.op(extreme, x, number(b, bound, x)), limit, swapped)

    rewrite = Rewrite(build, {"x": EDGES}, CompareClamped())
    assert bool(rewrite.fired) == fires
    assert (rewrite.nodes[extreme] == 0) == fires


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64])
def test_other_types(dtype: type) -> None:
    numbers = np.array([-2, -1, 0, 1, 2, 3]).astype(dtype)

    def build(b: GraphBuilder, x: Value) -> Value:
        return compared(b, "Less", b.Max(x, number(b, 0, x)), 2)

    Rewrite(build, {"x": numbers}, CompareClamped()).gives("Less")


@pytest.mark.parametrize(
    ("substitute", "compare", "limit", "fires"),
    [
        (np.inf, "LessOrEqual", 0.0, True),
        (np.inf, "Less", np.inf, True),
        (-np.inf, "Greater", 0.0, True),
        (np.nan, "Less", 0.0, True),
        (np.inf, "LessOrEqual", np.inf, False),
        (np.inf, "Greater", 0.0, False),
        (-1.0, "LessOrEqual", 0.0, False),
    ],
)
def test_substitutes_of_nan(substitute: float, compare: str, limit: float, fires: bool) -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return compared(b, compare, without_nan(b, x, substitute), limit)

    rewrite = Rewrite(build, {"x": EDGES}, CompareClamped())
    if fires:
        rewrite.gives(compare)
    else:
        rewrite.nothing()


def test_errors_of_a_line_search() -> None:
    def build(b: GraphBuilder, x: Value, y: Value) -> Value:
        zero = number(b, 0, x)
        errors = [without_nan(b, b.Max(each, zero), np.inf) for each in (x, y)]
        return compared(b, "LessOrEqual", b.Max(*errors), 0)

    Rewrite(build, {"x": X, "y": Y}, CompareClamped()).gives("Max", "LessOrEqual")


def of_others(b: GraphBuilder, x: Value, y: Value) -> Made:
    """NaN is replaced where another number is NaN."""
    return compared(b, "Less", b.Where(b.IsNaN(y), number(b, np.inf, x), x), 1)


def kept_number(b: GraphBuilder, x: Value, y: Value) -> Made:
    """Numbers are replaced, and NaN is not."""
    return compared(b, "Less", b.Where(b.IsNaN(x), x, number(b, np.inf, x)), 1)


def computed_bound(b: GraphBuilder, x: Value, y: Value) -> Made:
    return compared(b, "Less", b.Max(x, y), 1)


def computed_limit(b: GraphBuilder, x: Value, y: Value) -> Made:
    return b.Less(b.Max(x, number(b, 0, x)), y)


def read_by_others(b: GraphBuilder, x: Value, y: Value) -> Made:
    """One Max more would be computed."""
    largest = b.Max(x, y, number(b, 0, x))
    return [compared(b, "Less", largest, 1), b.Neg(largest)]


def wide_bound(b: GraphBuilder, x: Value, y: Value) -> Made:
    """The bound decides the shape."""
    return compared(b, "Less", b.Max(x, b.const(np.zeros((1, 1), np.float32))), 1)


@pytest.mark.parametrize(
    "build",
    [of_others, kept_number, computed_bound, computed_limit, read_by_others, wide_bound],
    ids=lambda build: build.__name__,
)
def test_near_misses(build: Callable[..., Made]) -> None:
    Rewrite(build, {"x": X, "y": Y}, CompareClamped()).nothing()


def test_a_clamp_that_others_read() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        clamped = b.Max(x, number(b, 0, x))
        return [compared(b, "Less", clamped, 1), b.Neg(clamped)]

    Rewrite(build, {"x": EDGES}, CompareClamped()).gives("Less", "Max", "Neg")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_beside_xla(dtype: type) -> None:
    def step(x: jax.Array, y: jax.Array) -> jax.Array:
        errors = [jnp.where(jnp.isnan(each), jnp.inf, each) for each in (jnp.maximum(x, 0), y)]
        return jnp.maximum(*errors) <= 0

    with jax.enable_x64(dtype is np.float64):
        # XLA takes denormal numbers for 0.
        normal = [np.where(abs(side) < 1e-3, 0, side) for side in (X, Y)]
        x, y = normal[0].astype(dtype), normal[1].astype(dtype)
        run = against_xla(jax.jit(step).lower(x, y).as_text(), x, y).bit_exact()
    assert run.program.report.rules["compare-clamped"]

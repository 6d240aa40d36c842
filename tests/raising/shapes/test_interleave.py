"""Sums of tensors that fill each other's gaps of zeros, and near misses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, rewrites
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.interleave import Interleave
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes

X = np.array([[1, -0.0, 3], [np.nan, 5, np.inf], [7, 8, 9]], np.float32)


def spread(
    b: GraphBuilder, x: oir.Value, low: int, extent: int, axis: int = 0, step: int = 2
) -> oir.Value:
    """x with its elements `step` apart along an axis, the first at `low`."""
    dims = [int(dim) for dim in x.shape or ()]  # type: ignore[arg-type]
    count = dims[axis]
    x = b.reshape(x, [*dims[: axis + 1], 1, *dims[axis + 1 :]])
    before, behind = [0] * (len(dims) + 1), [0] * (len(dims) + 1)
    before[axis], behind[axis + 1] = -(-low // step), step - 1
    start = before[axis] * step - low
    units = max(-(-(start + extent) // step), count + before[axis])
    behind[axis] = units - count - before[axis]
    x = b.Pad(x, b.i64(before + behind), b.scalar_like(0, x))
    x = b.reshape(x, [*dims[:axis], units * step, *dims[axis + 1 :]])
    return b.slice(x, [start], [start + extent], axes=[axis])


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("axis", "extent"), [(0, 6), (0, 5), (1, 6), (1, 5)])
def test_interleave(axis: int, extent: int, dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(spread(b, y, 1, extent, axis), spread(b, x, 0, extent, axis))

    x = X if dtype == np.float32 else np.arange(9, dtype=dtype).reshape(3, 3)
    inputs = {"x": x, "y": np.take(x, range(extent // 2), axis) * 2}
    last = ["Add"] if dtype == np.float32 else []
    Rewrite(build, inputs, Interleave(), ComposeReshapes()).gives("Concat", "Gather", *last)


def test_a_single_element_has_no_gaps() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(spread(b, x, 0, 3), b.Pad(y, b.i64([1, 0, 1, 0]), b.scalar_like(0, y)))

    rewrite = Rewrite(build, {"x": X[:2], "y": X[2:]}, Interleave(), ComposeReshapes())
    rewrite.gives("Concat", "Gather", "Add")


@pytest.mark.costly
@pytest.mark.parametrize("count", range(1, 12))
@pytest.mark.parametrize("axis", [0, 1])
def test_associative_scan(count: int, axis: int) -> None:
    """What the rule is for: no Pad is left of an associative scan, whatever its length."""
    shape = (count, 3) if axis == 0 else (3, count)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    def scan(x: jax.Array) -> jax.Array:
        return jax.lax.associative_scan(jnp.maximum, x, axis=axis)

    program = hlo2onnx.translate(jax.jit(scan).lower(x))
    np.testing.assert_array_equal(program(x), jax.jit(scan)(x))
    assert program.report.nodes["Pad"] == 0


# -- near misses ----------------------------------------------------------------------------------


def gaps(b: GraphBuilder, x: oir.Value, pads: list[int], dims: tuple[int, ...]) -> oir.Value:
    """x as (3, 1, 3), padded and read in order."""
    padded = b.Pad(b.reshape(x, (3, 1, 3)), b.i64(pads), b.scalar_like(0, x))
    return b.reshape(padded, dims)


def even(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return gaps(b, x, [0, 0, 0, 0, 1, 0], (6, 3))


def odd(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return spread(b, x, 1, 6)


CONSTANTS = {"spread": spread, "gaps": gaps, "even": even, "odd": odd}
NEAR_MISSES = [
    "spread(x, 0, 6) + spread(x, 0, 6)",  # both even
    "spread(x, 0, 7, 0, 3) + spread(x, 1, 7, 0, 3)",  # in steps of 3
    "spread(x, 0, 6, 0) + spread(Concat(x, x, axis=0), 1, 3, 1)",  # along two axes
    "spread(x, 0, 6) + Concat(x, x, axis=0)",  # one has gaps
    "spread(x, 0, 7) + spread(x, 1, 7)",  # too short
    "reshape(Pad(reshape(x, (3, 1, 3)), [0, 0, 0, 0, 1, 0], 1), (6, 3)) + odd(x)",
    # Other axes are padded, or cut.
    "gaps(x, [0, 0, 0, 0, 1, 1], (6, 4)) + gaps(x, [0, 0, 1, 0, 1, 0], (6, 4))",
    "slice(even(x), [1], [3], axes=[1]) + slice(odd(x), [1], [3], axes=[1])",
    "Slice(even(x), [0], [6], [0], [2]) + x",
    "Slice(even(x), [0, 0], [5, 2], [0, 1]) + Slice(odd(x), [0, 0], [5, 2], [0, 1])",
    "Neg(even(x)) + Abs(odd(x))",
    "Pad(x, [0, 0, 3, 0], 0) + odd(x)",  # one of several
    "Pad(x, [0, 0, 0, 0], 0) + slice(even(x), [0], [3], axes=[0])",  # nothing is padded
    "x + x",
]


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_what_does_not_take_turns(text: str) -> None:
    rewrites(text, NOTHING, {"x": X}, Interleave(), constants=CONSTANTS)


def test_computed_starts_and_free_sums_stay() -> None:
    def started(b: GraphBuilder, x: oir.Value) -> oir.Value:
        bounds = [b.Abs(b.i64([0])), b.i64([6]), b.i64([0])]
        return b.Add(b.op("Slice", even(b, x), *bounds, types=[(x.dtype, (6, 3))]), odd(b, x))

    def summed(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.op("Add", even(b, x), odd(b, x), types=[(x.dtype, (oir.SymbolicDim("n"), 3))])

    for build in (started, summed):
        Rewrite(build, {"x": X}, Interleave()).nothing()


def test_gaps_before_the_elements() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Add(gaps(b, x, [0, 1, 0, 0, 0, 0], (6, 3)), even(b, x))

    assert Rewrite(build, {"x": X}, Interleave()).nodes["Pad"] == 0


def test_free_shapes_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one, other = (b.reshape(free(b, side(b, x), "n", 3), (6, 3)) for side in (even, odd))
        return b.Add(one, other)

    Rewrite(build, {"x": X}, Interleave()).nothing()


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_single_elements(axes: tuple[int, ...]) -> None:
    """Two of them are joined as they are; one that is padded along two axes stays."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one, zero = b.slice(x, [0, 0], [1, 1]), b.scalar_like(0, x)
        before = [int(axis in axes) for axis in range(2)]
        first = b.Pad(one, b.i64([0, 0, *before]), zero)
        return b.Add(b.Pad(b.Neg(one), b.i64([*before, 0, 0]), zero), first)

    rewrite = Rewrite(build, {"x": X}, Interleave())
    if len(axes) == 2:
        rewrite.nothing()
    else:
        rewrite.gives("Slice", "Neg", "Concat", "Add")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_cut_of_a_single_element(axis: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        one, zero = b.slice(x, [0, 0], [1, 1]), b.scalar_like(0, x)
        far = [2 * (axis == 0), 2 * (axis == 1)]
        padded = b.Pad(one, b.i64([*far, 0, 0]), zero)
        cut = b.slice(padded, [1], [3], axes=[axis])
        return b.Add(cut, b.Pad(b.Neg(one), b.i64([0, 0, *(item // 2 for item in far)]), zero))

    Rewrite(build, {"x": X}, Interleave()).gives("Slice", "Neg", "Concat", "Add")


@pytest.mark.parametrize("negative", [False, True])
def test_signs_of_zeros_in_the_gaps(negative: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.Reciprocal(b.Add(even(b, x), odd(b, b.Neg(x) if negative else x)))

    Rewrite(build, {"x": X}, Interleave(), ComposeReshapes()).gives(
        "Concat", "Gather", "Add", "Reciprocal", *["Neg"] * negative
    )


def test_two_elements_three_apart_stay() -> None:
    """Four numbers of which the first and the last are of one tensor."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(spread(b, x, 0, 4, step=3), spread(b, y, 1, 4))

    Rewrite(build, {"x": X[:2], "y": X[1:]}, Interleave()).nothing()

"""Negative indices are Gather's own; loops count in i64."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.gather_indices import (
    BoundsCheck,
    NegativeIndex,
    WidenIndex,
)

T = oir.DataType
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
INDICES = np.array([0, 4, 5, -1, -5, -6, 2**31 - 1, -(2**31)], np.int32)


def from_the_end(b: GraphBuilder, i: oir.Value, count: int, bounds: tuple[int, int]) -> oir.Value:
    shifted = b.Where(b.Less(i, b.scalar_like(0, i)), b.Add(i, b.scalar_like(count, i)), i)
    return b.Clip(shifted, b.scalar_like(bounds[0], i), b.scalar_like(bounds[1], i))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_negative_index(dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, from_the_end(b, i, 5, (0, 4)), axis=0)

    inputs = {"x": TABLE, "i": INDICES.astype(dtype)}
    Rewrite(build, inputs, NegativeIndex()).gives("Clip", "Gather")


def test_negative_index_along_another_axis() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.GatherElements(x, from_the_end(b, i, 3, (0, 2)), axis=1)

    inputs = {"x": TABLE, "i": np.stack([INDICES[:5]] * 2, axis=1)}
    Rewrite(build, inputs, NegativeIndex()).gives("Clip", "GatherElements")


@pytest.mark.parametrize(("count", "bounds"), [(4, (0, 4)), (5, (0, 3)), (5, (1, 4))])
def test_other_numbers_mean_something_else(count: int, bounds: tuple[int, int]) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, from_the_end(b, i, count, bounds), axis=0)

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).nothing()


def test_another_index_in_between() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        other = b.Neg(i)
        shifted = b.Where(b.Less(other, b.scalar(0, T.INT32)), b.Add(i, b.scalar(5, T.INT32)), i)
        return b.Gather(x, b.Clip(shifted, b.scalar(0, T.INT32), b.scalar(4, T.INT32)), axis=0)

    Rewrite(build, {"x": TABLE, "i": INDICES[:5]}, NegativeIndex()).nothing()


def test_indices_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> list[oir.Value]:
        indices = from_the_end(b, i, 5, (0, 4))
        return [b.Gather(x, indices, axis=0), b.Neg(indices)]

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).nothing()


def test_two_gathers_share_their_indices() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> list[oir.Value]:
        indices = from_the_end(b, i, 5, (0, 4))
        return [b.Gather(x, indices, axis=0), b.Gather(b.Neg(x), indices, axis=0)]

    rewrite = Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex())
    rewrite.gives("Clip", "Clip", "Gather", "Gather", "Neg")


def test_negative_index_under_a_reshape() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        indices = b.reshape(from_the_end(b, i, 3, (0, 2)), (5, 1))
        return b.GatherElements(x, indices, axis=1)

    rewrite = Rewrite(build, {"x": TABLE, "i": INDICES[3:8]}, NegativeIndex())
    rewrite.gives("Clip", "Reshape", "GatherElements")


def test_reshaped_indices_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> list[oir.Value]:
        clamped = from_the_end(b, i, 3, (0, 2))
        return [b.GatherElements(x, b.reshape(clamped, (5, 1)), axis=1), b.Neg(clamped)]

    Rewrite(build, {"x": TABLE, "i": INDICES[:5]}, NegativeIndex()).nothing()


def test_an_equal_index_that_is_not_merged_yet_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> list[oir.Value]:
        first, second = (from_the_end(b, i, 5, (0, 4)) for _ in range(2))
        return [b.Gather(x, first, axis=0), b.Neg(second)]

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).nothing()


def inside(b: GraphBuilder, i: oir.Value) -> oir.Value:
    return b.Clip(i, b.scalar(0, T.INT64), b.scalar(4, T.INT64))


def test_wide_index() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        narrow = b.Cast(inside(b, i), to=T.INT32)
        return b.Gather(x, b.Sub(b.scalar(4, T.INT32), narrow), axis=0)

    inputs = {"x": TABLE, "i": np.array(3)}
    Rewrite(build, inputs, WidenIndex()).gives("Clip", "Sub", "Gather")


def test_a_cast_that_may_wrap_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, b.Cast(i, to=T.INT32), axis=0)

    Rewrite(build, {"x": TABLE, "i": np.array(2**32 + 3)}, WidenIndex()).nothing()


def test_a_sum_that_may_wrap_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        far = b.Clip(i, b.scalar(2**31 - 1, T.INT64), b.scalar(2**31 - 1, T.INT64))
        near = b.Add(b.Cast(far, to=T.INT32), b.scalar(2**31 - 1, T.INT32))  # -2
        return b.Gather(x, near, axis=0)

    Rewrite(build, {"x": TABLE, "i": np.array(3)}, WidenIndex()).nothing()


def test_a_narrow_index_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        inner = b.Clip(i, b.scalar(0, T.INT32), b.scalar(3, T.INT32))
        return b.Gather(x, b.Add(inner, b.scalar(1, T.INT32)), axis=0)

    Rewrite(build, {"x": TABLE, "i": INDICES}, WidenIndex()).nothing()


# -- which are inside ---------------------------------------------------------------------------


def at_least(b: GraphBuilder, i: oir.Value, number: int, swapped: bool) -> oir.Value:
    bound = b.scalar_like(number, i)
    return b.LessOrEqual(bound, i) if swapped else b.GreaterOrEqual(i, bound)


def at_most(b: GraphBuilder, i: oir.Value, number: int, swapped: bool) -> oir.Value:
    bound = b.scalar_like(number, i)
    return b.GreaterOrEqual(bound, i) if swapped else b.LessOrEqual(i, bound)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("bounds", [(0, 4), (-3, 3), (5, 5)])
def test_inside(bounds: tuple[int, int], swapped: bool) -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        both = [at_least(b, i, bounds[0], swapped), at_most(b, i, bounds[1], swapped)]
        return b.And(*(both[::-1] if swapped else both))

    Rewrite(build, {"i": INDICES}, BoundsCheck()).gives("Clip", "Equal")


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("bounds", [(-1, 5), (2, 4), (-(2**31), 2**31 - 1)])
def test_inside_of_excluded_bounds(bounds: tuple[int, int], swapped: bool) -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        low, high = (b.scalar_like(bound, i) for bound in bounds)
        return b.And(
            b.Less(low, i) if swapped else b.Greater(i, low),
            b.Greater(high, i) if swapped else b.Less(i, high),
        )

    Rewrite(build, {"i": INDICES}, BoundsCheck()).gives("Clip", "Equal")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_inside_of_what_counts_from_the_end(dtype: type) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> list[oir.Value]:
        w = b.Where(b.Less(i, b.scalar_like(0, i)), b.Add(i, b.scalar_like(5, i)), i)
        column = b.reshape(w, [8, 1])
        inside = b.And(at_least(b, column, 0, False), at_most(b, column, 4, False))
        return [inside, b.Gather(x, b.Clip(w, b.scalar_like(0, w), b.scalar_like(4, w)), axis=0)]

    inputs = {"x": TABLE, "i": INDICES.astype(dtype)}
    rewrite = Rewrite(build, inputs, BoundsCheck(), NegativeIndex())
    rewrite.gives("Clip", "Equal", "Reshape", "Clip", "Gather")  # equal nodes are shared elsewhere


@pytest.mark.parametrize(
    "build",
    [
        lambda b, i: b.And(at_least(b, i, 0, False), at_least(b, i, 4, False)),
        lambda b, i: b.And(at_least(b, i, 5, False), at_most(b, i, 4, False)),
        lambda b, i: b.And(at_least(b, i, 0, False), at_most(b, b.Neg(i), 4, False)),
        lambda b, i: b.And(at_least(b, i, 0, False), b.LessOrEqual(i, b.Neg(i))),
        lambda b, i: b.Or(at_least(b, i, 0, False), at_most(b, i, 4, False)),
        lambda b, i: b.And(
            b.GreaterOrEqual(i, b.const(np.zeros((2, 1), np.int32))), at_most(b, i, 4, False)
        ),
    ],
)
def test_what_is_no_interval(build: object) -> None:
    Rewrite(build, {"i": INDICES}, BoundsCheck()).nothing()  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [4, np.inf, np.nan])
def test_floats_are_not_clipped_to_tell_whether_they_are_inside(most: float) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.And(at_least(b, x, 0, False), b.LessOrEqual(x, b.scalar(most, T.FLOAT)))

    Rewrite(build, {"x": TABLE}, BoundsCheck()).nothing()


def test_long_integers_that_the_target_clips_wrongly() -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        return b.And(at_least(b, i, 0, False), at_most(b, i, 4, False))

    Rewrite(build, {"i": INDICES.astype(np.int64)}, BoundsCheck()).nothing()


# -- comparisons --------------------------------------------------------------------------------

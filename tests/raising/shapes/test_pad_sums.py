"""Sums of padded tensors: what is joined, what is not, and that no bit changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.pad_sums import PadSumToConcat

ROW = np.array([[-0.0, 0.0, np.nan, np.inf, 1.5]], np.float32)
ROWS = np.array([[0.0, -0.0, -0.0, 2.0, -np.inf], [3.0, -0.0, 1e-40, -1.0, 0.0]], np.float32)
MATRIX = np.array([[-0.0, 0.0, -1.5, 7.0, -0.0]] * 4, np.float32)


def rows(b: GraphBuilder, x: oir.Value, above: int, below: int, zero: float = 0.0) -> oir.Value:
    return b.Pad(x, b.i64([above, 0, below, 0]), b.scalar_like(zero, x))


@pytest.mark.parametrize("swapped", [False, True])
def test_neighbours_are_joined(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        terms = [rows(b, x, 1, 2), rows(b, y, 2, 0)]
        return b.Add(*(terms[::-1] if swapped else terms))

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).gives("Concat", "Pad", "Add")


def test_where_nothing_is_left_to_pad() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(rows(b, x, 0, 2), rows(b, y, 1, 0))

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).gives("Concat", "Add")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1)])
def test_three_become_one(order: Sequence[int]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, z: oir.Value) -> oir.Value:
        terms = [rows(b, x, 0, 3), rows(b, y, 1, 1), rows(b, z, 3, 0)]
        first, second, third = (terms[index] for index in order)
        return b.Add(b.Add(first, second), third)

    Rewrite(build, {"x": ROW, "y": ROWS, "z": ROW}, PadSumToConcat()).gives("Concat", "Add")


def test_added_to_a_sum() -> None:
    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.Add(s, rows(b, x, 0, 3)), rows(b, y, 1, 1))

    inputs = {"s": MATRIX, "x": ROW, "y": ROWS}
    Rewrite(build, inputs, PadSumToConcat()).gives("Concat", "Pad", "Add", "Add")


@pytest.mark.parametrize("with_sum", [False, True])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_signs_of_zeros(zero: float, with_sum: bool) -> None:
    """1 / x tells them apart."""

    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        first = rows(b, x, 0, 3, zero)
        total = b.Add(b.Add(s, first) if with_sum else first, rows(b, y, 1, 1, zero))
        return b.Reciprocal(total)

    rewrite = Rewrite(build, {"s": MATRIX, "x": ROW, "y": ROWS}, PadSumToConcat())
    assert rewrite.fired["pad-sum-to-concat"] == 1
    assert rewrite.nodes["Add"] == (zero.hex() == "0x0.0p+0") + with_sum


def test_integers_need_no_zero() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(rows(b, x, 0, 2), rows(b, y, 1, 0))

    inputs = {"x": np.array([[1, 2]], np.int32), "y": np.array([[3, 4], [5, 6]], np.int32)}
    Rewrite(build, inputs, PadSumToConcat()).gives("Concat")


def test_what_others_read_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        padded = rows(b, x, 0, 2)
        return b.Mul(b.Add(padded, rows(b, y, 1, 0)), padded)

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).nothing()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, 3, 0.0), (2, 0, 0.0)),  # a gap between them
        ((1, 2, 0.0), (1, 1, 0.0)),  # overlapping
        ((0, 3, 1.0), (1, 1, 1.0)),  # not zeros
        ((0, 3, 0.0), (1, 1, -0.0)),  # unlike zeros
    ],
)
def test_others_stay(one: tuple[int, int, float], other: tuple[int, int, float]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(rows(b, x, *one), rows(b, y, *other))

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).nothing()


def test_windows_apart_along_two_axes_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        zero = b.scalar_like(0, x)
        return b.Add(b.Pad(x, b.i64([0, 0, 1, 5]), zero), b.Pad(y, b.i64([1, 5, 0, 0]), zero))

    Rewrite(build, {"x": ROW, "y": ROW}, PadSumToConcat()).nothing()


def test_reflected_edges_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        reflected = b.Pad(y, b.i64([1, 0, 0, 0]), b.scalar_like(0, y), mode="reflect")
        return b.Add(rows(b, x, 0, 2), reflected)

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).nothing()


# -- near misses ----------------------------------------------------------------------------------


def pair(b: GraphBuilder, x: oir.Value, y: oir.Value) -> tuple[oir.Value, oir.Value]:
    return rows(b, x, 0, 2), rows(b, y, 1, 0)


NEAR_MISSES: dict[str, Build] = {
    "sum of others": lambda b, x, y, s: b.Add(b.Add(s, b.Neg(s)), rows(b, y, 1, 0)),
    "product": lambda b, x, y, s: b.Add(b.Mul(s, rows(b, x, 0, 2)), rows(b, y, 1, 0)),
    "given": lambda b, x, y, s: b.Add(s, rows(b, y, 1, 0)),
    "a sum that others read": lambda b, x, y, s: (
        lambda total: b.Mul(b.Add(total, rows(b, y, 1, 0)), total)
    )(b.Add(s, rows(b, x, 0, 2))),
    "a sum that is a result": lambda b, x, y, s: (
        lambda total: [total, b.Add(total, rows(b, y, 1, 0))]
    )(b.Add(s, rows(b, x, 0, 2))),
    "one that is a result": lambda b, x, y, s: (lambda one, other: [one, b.Add(one, other)])(
        *pair(b, x, y)
    ),
    "added to a sum, with a gap": lambda b, x, y, s: b.Add(
        b.Add(s, rows(b, x, 0, 2)), rows(b, x, 2, 0)
    ),
    "more axes": lambda b, x, y, s: b.Add(
        rows(b, x, 0, 2), b.Pad(b.reshape(y, (1, 2, 5)), b.i64([0, 1, 0, 0, 0, 0]), zero(b, y))
    ),
    "one is repeated": lambda b, x, y, s: b.Add(rows(b, x, 0, 0), rows(b, y, 1, 0)),
    "plus a zero with an axis": lambda b, x, y, s: b.Add(
        b.Add(rows(b, x, 0, 2), b.const(np.zeros((1, 1, 1), np.float32))),
        b.Pad(b.reshape(y, (1, 2, 5)), b.i64([0, 1, 0, 0, 0, 0]), zero(b, y)),
    ),
    "plus what is computed": lambda b, x, y, s: b.Add(
        b.Mul(b.Add(rows(b, x, 0, 2), s), s), rows(b, y, 1, 0)
    ),
    "no zero named": lambda b, x, y, s: b.Add(
        b.Pad(x, b.i64([0, 0, 2, 0])), b.Pad(y, b.i64([1, 0, 0, 0]))
    ),
    "along named axes": lambda b, x, y, s: b.Add(
        b.op("Pad", x, b.i64([0, 2]), zero(b, x), b.i64([0]), types=[(x.dtype, (3, 5))]),
        b.op("Pad", y, b.i64([1, 0]), zero(b, x), b.i64([0]), types=[(x.dtype, (3, 5))]),
    ),
    "cut": lambda b, x, y, s: b.Add(
        b.Pad(b.Concat(x, x, axis=0), b.i64([0, 0, 2, 0]), zero(b, x)),
        b.Pad(b.Concat(y, y, axis=0), b.i64([2, 0, -2, 0]), zero(b, x)),
    ),
    "free": lambda b, x, y, s: b.Add(
        b.op("Pad", free(b, x, "n", 5), b.i64([0, 0, 2, 0]), zero(b, x), types=[(x.dtype, (3, 5))]),
        rows(b, y, 1, 0),
    ),
    "computed pads": lambda b, x, y, s: b.Add(
        b.op("Pad", x, b.Abs(b.i64([0, 0, 2, 0])), zero(b, x), types=[(x.dtype, (3, 5))]),
        rows(b, y, 1, 0),
    ),
    "a zero that is computed": lambda b, x, y, s: b.Add(
        b.Pad(x, b.i64([0, 0, 2, 0]), b.Neg(zero(b, x))), rows(b, y, 1, 0)
    ),
}


def zero(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.scalar_like(0, x)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    inputs = {"x": ROW, "y": ROWS, "s": MATRIX[:3]}
    Rewrite(NEAR_MISSES[name], inputs, PadSumToConcat()).nothing()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_the_order_of_a_sum(swapped: bool, first: bool) -> None:
    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        one, other = pair(b, x, y)
        inner = b.Add(*(one, s)[:: 1 if first else -1])
        return b.Add(*(inner, other)[:: -1 if swapped else 1])

    inputs = {"s": MATRIX[:3], "x": ROW, "y": ROWS}
    Rewrite(build, inputs, PadSumToConcat()).gives("Concat", "Add", "Add")


@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 5), (1, 1)])
def test_what_is_joined_is_added_to_more_and_to_less(shape: tuple[int, ...]) -> None:
    """The sum has the shape of what it is added to, what is joined that of the Pads."""

    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        column, columns = b.slice(x, [4], [5], axes=[1]), b.slice(y, [3], [4], axes=[1])
        one, other = pair(b, column, columns)
        return b.Add(b.Add(s, one), other)

    inputs = {"s": np.ones(shape, np.float32), "x": ROW, "y": ROWS}
    Rewrite(build, inputs, PadSumToConcat()).gives("Slice", "Slice", "Concat", "Add", "Add")


def test_what_had_its_zero_added() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        one, other = pair(b, x, y)
        return b.Add(b.Add(one, zero(b, x)), other)

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).gives("Concat", "Add")


@pytest.mark.parametrize(
    "added", [np.float32(1), np.zeros(5, np.float32), np.float32([0] * 4 + [3])]
)
def test_what_had_something_else_added(added: np.ndarray) -> None:
    """It is added to what is joined."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        one, other = pair(b, x, y)
        return b.Add(b.Add(one, b.const(added)), other)

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).gives("Concat", "Add", "Add")


@pytest.mark.parametrize(
    ("axis", "reads", "left"),
    [(0, False, ["Concat"]), (1, False, ["Concat", "Concat"]), (0, True, ["Concat", "Concat"])],
)
def test_parts_that_are_joined_already(axis: int, reads: bool, left: list[str]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> list[oir.Value]:
        joined = b.Concat(x, b.Neg(x), axis=axis)
        count = 2 if axis == 0 else 1
        y = y if axis == 0 else b.Concat(y, y, axis=1)
        others = [b.Abs(joined)] if reads else []
        return [b.Add(rows(b, joined, 0, 2), rows(b, y, count, 0)), *others]

    rewrite = Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat())
    assert rewrite.nodes["Concat"] == len(left) + (axis == 1)


def test_columns_with_more_on_both_sides() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        one = b.Pad(x, b.i64([1, 2, 3, 9]), zero(b, x))
        return b.Add(one, b.Pad(b.Neg(x), b.i64([1, 7, 3, 4]), zero(b, x)))

    rewrite = Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat())
    rewrite.gives("Neg", "Concat", "Pad", "Add")


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_pads_at_one_place(zero: float) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Reciprocal(b.Add(rows(b, x, 1, 2, zero), rows(b, y, 1, 2, zero)))

    rewrite = Rewrite(build, {"x": ROW, "y": -ROW}, PadSumToConcat())
    rewrite.gives("Add", "Pad", "Reciprocal")


def test_a_pad_at_one_place_plus_zero() -> None:
    """-0 + 0 + -0 is +0."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        sum_ = b.Add(rows(b, x, 1, 2), b.scalar_like(0.0, x))
        return b.Reciprocal(b.Add(sum_, rows(b, b.Abs(b.Neg(x)), 1, 2)))

    Rewrite(build, {"x": ROW}, PadSumToConcat()).nothing()


def plus(b: GraphBuilder, x: oir.Value, number: float) -> oir.Value:
    return b.Add(x, b.scalar_like(number, x))


def test_zeros_of_both_signs() -> None:
    """A tensor padded with -0 is padded with 0 once 0 is added."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(plus(b, rows(b, x, 0, 2, -0.0), 0.0), rows(b, y, 1, 0, -0.0))

    Rewrite(build, {"x": ROW, "y": ROWS}, PadSumToConcat()).gives("Concat", "Add")

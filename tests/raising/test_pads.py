"""Sums of padded tensors: what is joined, what is not, and that no bit changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.pads import JoinPads

ROW = np.array([[-0.0, 0.0, np.nan, np.inf, 1.5]], np.float32)
ROWS = np.array([[0.0, -0.0, -0.0, 2.0, -np.inf], [3.0, -0.0, 1e-40, -1.0, 0.0]], np.float32)
MATRIX = np.array([[-0.0, 0.0, -1.5, 7.0, -0.0]] * 4, np.float32)


def rows(b: GraphBuilder, x: oir.Value, above: int, below: int, zero: float = 0.0) -> oir.Value:
    padded: oir.Value = b.Pad(x, b.i64([above, 0, below, 0]), b.scalar_like(zero, x))
    return padded


@pytest.mark.parametrize("swapped", [False, True])
def test_neighbours_are_joined(swapped: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        terms = [rows(b, x, 1, 2), rows(b, y, 2, 0)]
        return b.Add(*(terms[::-1] if swapped else terms))

    Rewrite(build, {"x": ROW, "y": ROWS}, JoinPads()).gives("Concat", "Pad", "Add")


def test_where_nothing_is_left_to_pad() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(rows(b, x, 0, 2), rows(b, y, 1, 0))

    Rewrite(build, {"x": ROW, "y": ROWS}, JoinPads()).gives("Concat", "Add")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1)])
def test_three_become_one(order: Sequence[int]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value, z: oir.Value) -> oir.Value:
        terms = [rows(b, x, 0, 3), rows(b, y, 1, 1), rows(b, z, 3, 0)]
        first, second, third = (terms[index] for index in order)
        return b.Add(b.Add(first, second), third)

    Rewrite(build, {"x": ROW, "y": ROWS, "z": ROW}, JoinPads()).gives("Concat", "Add")


def test_added_to_a_sum() -> None:
    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(b.Add(s, rows(b, x, 0, 3)), rows(b, y, 1, 1))

    inputs = {"s": MATRIX, "x": ROW, "y": ROWS}
    Rewrite(build, inputs, JoinPads()).gives("Concat", "Pad", "Add", "Add")


@pytest.mark.parametrize("with_sum", [False, True])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_signs_of_zeros(zero: float, with_sum: bool) -> None:
    """1 / x tells them apart."""

    def build(b: GraphBuilder, s: oir.Value, x: oir.Value, y: oir.Value) -> oir.Value:
        first = rows(b, x, 0, 3, zero)
        total = b.Add(b.Add(s, first) if with_sum else first, rows(b, y, 1, 1, zero))
        return b.Reciprocal(total)

    rewrite = Rewrite(build, {"s": MATRIX, "x": ROW, "y": ROWS}, JoinPads())
    assert rewrite.fired["join-pads"] == 1
    assert rewrite.nodes["Add"] == (zero.hex() == "0x0.0p+0") + with_sum


def test_integers_need_no_zero() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.Add(rows(b, x, 0, 2), rows(b, y, 1, 0))

    inputs = {"x": np.array([[1, 2]], np.int32), "y": np.array([[3, 4], [5, 6]], np.int32)}
    Rewrite(build, inputs, JoinPads()).gives("Concat")


def test_what_others_read_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        padded = rows(b, x, 0, 2)
        return b.Mul(b.Add(padded, rows(b, y, 1, 0)), padded)

    Rewrite(build, {"x": ROW, "y": ROWS}, JoinPads()).nothing()


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

    Rewrite(build, {"x": ROW, "y": ROWS}, JoinPads()).nothing()


def test_windows_apart_along_two_axes_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        zero = b.scalar_like(0, x)
        return b.Add(b.Pad(x, b.i64([0, 0, 1, 5]), zero), b.Pad(y, b.i64([1, 5, 0, 0]), zero))

    Rewrite(build, {"x": ROW, "y": ROW}, JoinPads()).nothing()


def test_reflected_edges_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        reflected = b.Pad(y, b.i64([1, 0, 0, 0]), b.scalar_like(0, y), mode="reflect")
        return b.Add(rows(b, x, 0, 2), reflected)

    Rewrite(build, {"x": ROW, "y": ROWS}, JoinPads()).nothing()

"""What the windows of reduce_window read, against an enumeration of their positions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest

from dialect_handlers.stablehlo.reduce_window import symbolic
from dialect_handlers.stablehlo.reduce_window.geometry import LARGE, SHORT, Axis, Prefix, axes_of
from dialect_handlers.stablehlo.reduce_window.pooling import suits_symbolic

AXES = [
    Axis(extent, window, stride, gap, step, low, high)
    for extent, window, stride, gap, step in product(
        (0, 1, 2, 5), (1, 2, 3), (1, 3), (1, 3), (1, 2)
    )
    for low, high in ((0, 0), (2, 1), (-1, 3), (0, -1), (4, -2))
]
"""A position is an element's index or None, for a hole."""


def positions(axis: Axis) -> list[int | None]:
    """The element that each position holds; None for a hole."""
    spread: list[int | None] = []
    for element in range(axis.extent):
        spread += [element, *[None] * (axis.gap - 1 if element < axis.extent - 1 else 0)]
    spread = [None] * axis.low + spread if axis.low >= 0 else spread[-axis.low :]
    return spread + [None] * axis.high if axis.high >= 0 else spread[: axis.high]


def windows(axis: Axis) -> list[list[int | None]]:
    """What each window reads."""
    held, last = positions(axis), (axis.window - 1) * axis.step
    starts = range(0, len(held) - last, axis.stride)
    return [held[start : start + last + 1 : axis.step] for start in starts]


def uncut(axis: Axis) -> bool:
    """Whether the padding does not take away more than there is."""
    dilated = (axis.extent - 1) * axis.gap + 1 if axis.extent else 0
    return axis.low + dilated >= 0 and dilated + axis.high >= 0 and axis.padded >= 0


@pytest.mark.parametrize("kind", [Axis, symbolic.Window])
def test_positions_and_windows(kind: Any) -> None:
    for axis in filter(uncut, AXES):
        made, held, expected = kind(**vars(axis)), positions(axis), windows(axis)
        if axis.extent or kind is Axis:  # symbolic extents are at least 1 here
            assert made.padded == len(held)
            assert made.count == len(expected), axis
        assert made.span == len(range((axis.window - 1) * axis.step + 1))
        if expected:
            assert axis.reach == len(range((len(expected) - 1) * axis.stride + 1))


def test_elements_of_windows() -> None:
    for axis in filter(uncut, AXES):
        expected = windows(axis)
        if not expected:
            continue
        found = [item is not None for item in positions(axis)]
        np.testing.assert_array_equal(axis.elements, found)
        counts = [sum(item is not None for item in window) for window in expected]
        np.testing.assert_array_equal(axis.held, counts)
        for index in range(axis.window):
            reads = [window[index] is not None for window in expected]
            np.testing.assert_array_equal(axis.reads(index), reads)


def test_an_axis_that_is_cut_away_holds_nothing() -> None:
    assert Axis(3, 2, 1, 1, 1, -4, 0).elements.shape == (0,)
    assert Axis(0, 2, 1, 3, 1, 0, 0).dilated == 0
    assert Axis(0, 1, 1, 1, 1, 0, 0).count == 0


@pytest.mark.parametrize("kind", [Axis, symbolic.Window])
def test_an_axis_goes_through_as_it_is(kind: Any) -> None:
    plain = {"extent": 5, "window": 1, "stride": 1, "gap": 1, "step": 1, "low": 0, "high": 0}
    assert kind(**plain).is_trivial
    assert kind(**{**plain, "step": 2}).is_trivial
    for name, number in (("window", 2), ("stride", 2), ("gap", 2), ("low", 1), ("high", -1)):
        assert not kind(**{**plain, name: number}).is_trivial


FORMS = {
    (4, 0): Prefix(reverse=False, exclusive=False),
    (0, 4): Prefix(reverse=True, exclusive=False),
    (5, -1): Prefix(reverse=False, exclusive=True),
    (-1, 5): Prefix(reverse=True, exclusive=True),
}


@pytest.mark.parametrize("kind", [Axis, symbolic.Window])
def test_cumulative_windows(kind: Any) -> None:
    for low, high in product(range(-1, 6), repeat=2):
        for extent in (4, 5):
            assert kind(extent, 5, 1, 1, 1, low, high).prefix == FORMS.get((low, high))
        assert kind(6, 5, 1, 1, 1, low, high).prefix is None  # too short to hold all
    for stride, gap, step in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        assert kind(5, 5, stride, gap, step, 4, 0).prefix is None


def test_short_cumulative_windows_are_taken_apart() -> None:
    for window, accumulates in ((SHORT, False), (SHORT + 1, True)):
        assert Axis(SHORT, window, 1, 1, 1, window - 1, 0).accumulates is accumulates
    assert not Axis(9, 9, 1, 1, 1, 0, 0).accumulates


def test_axes_of_an_op() -> None:
    columns: list[Any] = [[2, 3], [4, 5], [6, 7], [8, 9]]
    padding = np.array([[1, -2], [-3, 4]])
    assert axes_of([10, 11], *columns, padding) == [
        Axis(10, 2, 4, 6, 8, 1, -2),
        Axis(11, 3, 5, 7, 9, -3, 4),
    ]
    assert axes_of([10, 11], [2, 3], None, None, None, None) == [
        Axis(10, 2, 1, 1, 1, 0, 0),
        Axis(11, 3, 1, 1, 1, 0, 0),
    ]


def test_a_symbolic_extent_stands_as_a_large_number() -> None:
    (axis,) = axes_of([oir.SymbolicDim("n")], [70], None, None, [3], None)
    assert axis.extent == LARGE + 210
    assert axis.count > 1 and axis.prefix is None


def test_what_a_pooling_node_does_along_a_symbolic_axis() -> None:
    plain = {"extent": 99, "window": 3, "stride": 2, "gap": 1, "step": 1, "low": 2, "high": 2}
    assert suits_symbolic(Axis(**plain))
    assert suits_symbolic(Axis(**{**plain, "low": 0, "high": 0}))
    assert suits_symbolic(Axis(**{**plain, "window": 2, "low": 0, "high": 1}))
    for change in (
        {"window": 1, "low": 0, "high": 0},
        {"gap": 2},
        {"step": 2},
        {"low": -1},
        {"high": -1},
        {"low": 3},
        {"high": 3},
    ):
        assert not suits_symbolic(Axis(**{**plain, **change})), change

"""What windows read, against an enumeration of their positions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dialect_handlers.common.windows import SHORT, Prefix, WindowAxis, window_axes
from dialect_handlers.stablehlo.reduce_window.pooling import can_pool
from hlo2onnx.ir.dims import canonical, evaluate, symbol
from hlo2onnx.ir.values import Dim

N = symbol("n", positive=True)
AXES = [
    WindowAxis(extent, window, stride, gap, step, low, high)
    for extent, window, stride, gap, step in product(
        (0, 1, 2, 5), (1, 2, 3), (1, 3), (1, 3), (1, 2)
    )
    for low, high in ((0, 0), (2, 1), (-1, 3), (0, -1), (4, -2))
]
"""A position is an element's index or None, for a hole."""


def positions(axis: WindowAxis) -> list[int | None]:
    """The element that each position holds; None for a hole."""
    spread: list[int | None] = []
    for element in range(axis.extent):
        spread += [element, *[None] * (axis.gap - 1 if element < axis.extent - 1 else 0)]
    spread = [None] * axis.low + spread if axis.low >= 0 else spread[-axis.low :]
    return spread + [None] * axis.high if axis.high >= 0 else spread[: axis.high]


def windows(axis: WindowAxis) -> list[list[int | None]]:
    """What each window reads."""
    held, last = positions(axis), (axis.window - 1) * axis.step
    starts = range(0, len(held) - last, axis.stride)
    return [held[start : start + last + 1 : axis.step] for start in starts]


def uncut(axis: WindowAxis) -> bool:
    """Whether the padding does not take away more than there is."""
    dilated = (axis.extent - 1) * axis.gap + 1 if axis.extent else 0
    return axis.low + dilated >= 0 and dilated + axis.high >= 0 and axis.padded >= 0


def test_positions_and_windows() -> None:
    for axis in filter(uncut, AXES):
        held, expected = positions(axis), windows(axis)
        assert axis.padded == len(held)
        assert axis.count == len(expected), axis
        assert axis.span == len(range((axis.window - 1) * axis.step + 1))
        if expected:
            assert axis.reach == len(range((len(expected) - 1) * axis.stride + 1))


def at(dim: Dim, extent: int) -> int | None:
    """The extent where n is this number."""
    return evaluate(dim, {"n": extent})


def test_symbolic_extents_follow_the_same_formulas() -> None:
    for axis in filter(uncut, AXES):
        if axis.extent and axis.count:
            extent = axis.extent
            wide = replace(axis, extent=N)
            assert at(wide.padded, extent) == axis.padded
            assert at(wide.room, extent) == axis.room
            assert at(wide.count, extent) == axis.count, axis
            assert at(wide.reach, extent) == axis.reach
            assert axis.is_full == wide.is_full or axis.elements.all()
            assert axis.always_holds or not wide.always_holds, axis


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
    assert WindowAxis(3, 2, low=-4).elements.shape == (0,)
    assert WindowAxis(0, 2, gap=3).padded == 0
    assert WindowAxis(0, 1).count == 0
    assert WindowAxis(3, 9, stride=2).count == 0


@pytest.mark.parametrize("extent", [5, N])
def test_an_axis_goes_through_as_it_is(extent: Dim) -> None:
    assert WindowAxis(extent, 1).is_trivial
    assert WindowAxis(extent, 1).count == extent
    assert WindowAxis(extent, 1, step=2).is_trivial
    for name, number in (("window", 2), ("stride", 2), ("gap", 2), ("low", 1), ("high", -1)):
        assert not replace(WindowAxis(extent, 1), **{name: number}).is_trivial


FORMS = {
    (4, 0): Prefix(reverse=False, exclusive=False),
    (0, 4): Prefix(reverse=True, exclusive=False),
    (5, -1): Prefix(reverse=False, exclusive=True),
    (-1, 5): Prefix(reverse=True, exclusive=True),
}


def test_cumulative_windows() -> None:
    for low, high in product(range(-1, 6), repeat=2):
        for extent in (4, 5):
            assert WindowAxis(extent, 5, low=low, high=high).prefix == FORMS.get((low, high))
        assert WindowAxis(6, 5, low=low, high=high).prefix is None  # too short to hold all
    for stride, gap, step in ((2, 1, 1), (1, 2, 1), (1, 1, 2)):
        assert WindowAxis(5, 5, stride, gap, step, 4, 0).prefix is None


def test_cumulative_windows_of_a_symbolic_size() -> None:
    for (low, high), prefix in FORMS.items():
        edges = {"low": canonical(N - 5 + low), "high": canonical(N - 5 + high)}
        edges = {
            name: edge if number > 0 else number
            for (name, edge), number in zip(edges.items(), (low, high), strict=True)
        }
        assert WindowAxis(N, N, **edges).prefix == prefix
        assert WindowAxis(canonical(N + 1), N, **edges).prefix is None
    assert WindowAxis(N, 70, low=69).prefix is None


def test_short_windows() -> None:
    assert WindowAxis(9, SHORT).is_short
    assert not WindowAxis(9, SHORT + 1).is_short
    assert not WindowAxis(9, N).is_short


def test_axes_of_an_op() -> None:
    padding = np.array([[1, -2], [-3, 4]])
    assert window_axes([10, 11], [2, 3], [4, 5], padding, [6, 7], [8, 9]) == [
        WindowAxis(10, 2, 4, 6, 8, 1, -2),
        WindowAxis(11, 3, 5, 7, 9, -3, 4),
    ]
    assert window_axes([10, N], [2, 3], None, None) == [WindowAxis(10, 2), WindowAxis(N, 3)]
    assert window_axes([10], None, None, [(0, N)]) == [WindowAxis(10, 1, high=N)]


@pytest.mark.parametrize(
    ("axis", "full", "holds"),
    [
        (WindowAxis(N, 3, step=2), True, True),
        (WindowAxis(N, 3, low=2, high=2), False, True),
        (WindowAxis(N, 3, low=3), False, False),
        (WindowAxis(N, 3, high=3), False, False),
        (WindowAxis(N, 3, low=-1), True, True),
        (WindowAxis(N, 3, low=-1, high=1), False, False),
        (WindowAxis(N, 3, low=2, step=2), False, False),
        (WindowAxis(N, 3, gap=2), False, False),
        (WindowAxis(symbol("m", positive=False), 3, low=2), False, False),
        (WindowAxis(N, N, low=canonical(N - 1)), False, True),
        (WindowAxis(N, N, low=N), False, False),
    ],
    ids=str,
)
def test_what_is_certain_of_symbolic_windows(axis: WindowAxis, full: bool, holds: bool) -> None:
    assert axis.is_full == full
    assert axis.always_holds == holds


def test_what_a_pooling_node_does_along_a_symbolic_axis() -> None:
    plain = WindowAxis(N, 3, stride=2, low=2, high=2)
    assert can_pool(plain)
    assert can_pool(WindowAxis(N, 1))
    assert can_pool(WindowAxis(N, 2, high=1))
    assert can_pool(WindowAxis(9, 1, stride=2))
    for change in (
        {"window": 1, "low": 0, "high": 0},
        {"window": N},
        {"gap": 2},
        {"step": 2},
        {"low": -1},
        {"high": -1},
        {"low": 3},
        {"high": 3},
        {"low": N},
    ):
        assert not can_pool(replace(plain, **change)), change


@pytest.mark.parametrize(
    ("extent", "low", "high", "dilation", "expected"),
    [
        (3, -3, 0, 1, True),
        (3, -2, 0, 1, False),
        (3, 0, -3, 1, True),
        (3, 5, -2, 1, False),
        (3, -5, 0, 2, True),
        (3, -4, 0, 2, False),
        (1, -1, 0, 4, True),
        (1, 0, 0, 1, False),
        (N, -9, -9, 1, False),
    ],
)
def test_padding_that_cuts_every_element(
    extent: Dim, low: int, high: int, dilation: int, expected: bool
) -> None:
    assert WindowAxis(extent, 2, gap=dilation, low=low, high=high).never_holds == expected

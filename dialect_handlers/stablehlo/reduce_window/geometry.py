"""Windows along one axis of a reduce_window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hlo2onnx.ir.values import Dim

LARGE = 64
"""Stands for extents that are not known."""

SHORT = 4
"""Windows up to this length are combined element by element, whatever else could be done."""


class Prefix(NamedTuple):
    """Windows of which window i holds every element before (after, if reverse) element i, and
    element i itself unless they are exclusive."""

    reverse: bool
    exclusive: bool


@dataclass(frozen=True)
class Axis:
    """The windows along one axis.

    Positions count from the low end of the padded axis. A position holds an element of the
    operand, or it is a hole: padding at the edges or a gap of the base dilation. Holes take no
    part in a window (XLA; the specification fills them with the init values, which is the same
    for those it admits, neutral ones).

    Attributes:
        extent: Extent of the operand.
        window: Elements of a window.
        stride: Positions from one window to the next.
        gap: Positions from one element of the operand to the next (base dilation).
        step: Positions from one element of a window to the next (window dilation).
        low: Padding before the first element; cuts where it is negative.
        high: Padding after the last one.
    """

    extent: int
    window: int
    stride: int
    gap: int
    step: int
    low: int
    high: int

    @property
    def dilated(self) -> int:
        """Extent of the operand with its gaps."""
        return (self.extent - 1) * self.gap + 1 if self.extent else 0

    @property
    def padded(self) -> int:
        """Number of positions."""
        return self.low + self.dilated + self.high

    @property
    def span(self) -> int:
        """Positions from the first element of a window to its last, both counted."""
        return (self.window - 1) * self.step + 1

    @property
    def count(self) -> int:
        """Number of windows."""
        return (self.padded - self.span) // self.stride + 1 if self.padded >= self.span else 0

    @property
    def reach(self) -> int:
        """Positions from where the first window begins to where the last one does, both counted."""
        return (self.count - 1) * self.stride + 1

    @property
    def is_trivial(self) -> bool:
        """Whether the axis goes through as it is."""
        return self.window == self.stride == self.gap == 1 and self.low == self.high == 0

    @property
    def prefix(self) -> Prefix | None:
        """How the windows are cumulative; None if they are not."""
        if self.stride != 1 or self.gap != 1 or self.step != 1 or self.window < self.extent:
            return None
        forms = {
            (self.window - 1, 0): Prefix(reverse=False, exclusive=False),
            (0, self.window - 1): Prefix(reverse=True, exclusive=False),
            (self.window, -1): Prefix(reverse=False, exclusive=True),
            (-1, self.window): Prefix(reverse=True, exclusive=True),
        }
        return forms.get((self.low, self.high))

    @property
    def accumulates(self) -> bool:
        """Whether the windows are a scan's, and not so short that they better are taken apart."""
        return self.prefix is not None and self.window > SHORT

    @cached_property
    def elements(self) -> np.ndarray:
        """Which positions hold an element."""
        held = np.zeros(max(self.padded, 0), bool)
        inside = np.arange(self.extent) * self.gap + self.low
        held[inside[(inside >= 0) & (inside < self.padded)]] = True
        return held

    def reads(self, index: int) -> np.ndarray:
        """Which windows find an element, not a hole, at this index of theirs."""
        start = index * self.step
        return self.elements[start : start + self.reach : self.stride]

    @cached_property
    def held(self) -> np.ndarray:
        """How many elements each window holds: differences of sums over every step-th position."""
        rows = -(-self.elements.size // self.step)
        table = np.zeros((rows + 1, self.step), np.int64)
        table[1:].reshape(-1)[: self.elements.size] = self.elements
        sums = table.cumsum(0).reshape(-1)
        starts = np.arange(self.count) * self.stride
        held: np.ndarray = sums[starts + self.window * self.step] - sums[starts]
        return held


def axes_of(
    dims: Sequence[Dim],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    base_dilations: Sequence[int] | None,
    window_dilations: Sequence[int] | None,
    padding: Any,
) -> list[Axis]:
    """The windows of an op along each axis of its operands.

    A symbolic extent stands as a number, so large that the axis tells nothing else than any large
    one would.
    """
    ones = [1] * len(dims)
    edges = [(0, 0)] * len(dims) if padding is None else np.asarray(padding).tolist()
    columns = (window_strides or ones, base_dilations or ones, window_dilations or ones)
    return [
        Axis(
            extent if isinstance(extent, int) else LARGE + window * step,
            window,
            stride,
            gap,
            step,
            low,
            high,
        )
        for extent, window, stride, gap, step, (low, high) in zip(
            dims, window_dimensions, *columns, edges, strict=True
        )
    ]

"""Gaps between elements, then edges, which cut where they are negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import canonical, difference, is_positive, multiple, not_negative, total
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.lowering.emitter import Emitter


@dataclass(frozen=True)
class Axis:
    """One axis and its padding. Pad adds whole units: an element and its gap.

    Symbolic edges need a gap of 0; Pad cuts where they are negative at run time.
    """

    extent: Dim
    low: Dim
    high: Dim
    gap: int

    @property
    def unit(self) -> int:
        """Length of an element with the gap after it."""
        return 1 + self.gap

    @property
    def before(self) -> Dim:
        """Units of padding that hold the low edge."""
        return -(-max(self.low, 0) // self.unit) if isinstance(self.low, int) else self.low

    @property
    def after(self) -> Dim:
        """Units of padding that hold the high edge, which begins with the gap of the last element,
        if there surely is one."""
        if not isinstance(self.high, int):
            return self.high
        gap = self.gap if is_positive(self.extent) else 0
        return -(-max(self.high - gap, 0) // self.unit)

    @property
    def columns(self) -> list[tuple[Dim, Dim, Dim]]:
        """(extent, low, high) of the axis as Pad sees it, and of the axis of its gaps."""
        units = (self.extent, self.before, self.after)
        return [units, (1, 0, self.gap)] if self.gap else [units]

    @property
    def padded(self) -> Dim:
        """The extent after Pad."""
        return multiple(total(self.before, self.extent, self.after), self.unit)

    @property
    def start(self) -> int:
        """Where the result begins in it."""
        if not isinstance(self.low, int) or not isinstance(self.before, int):
            return 0
        return self.before * self.unit - self.low

    @property
    def result(self) -> Dim:
        """The extent of the result."""
        within = not_negative(total(multiple(difference(self.extent, 1), self.unit), 1))
        return total(self.low, within, self.high)


def pad(
    em: Emitter,
    x: oir.Value,
    fill: oir.Value,
    low: Sequence[Dim],
    high: Sequence[Dim],
    gaps: Sequence[int],
) -> oir.Value:
    """Pad, then Slice for negative edges, around Reshapes for interior gaps.

    An axis with gaps becomes (n, 1) and is padded to (n, 1 + gap), which read in order is every
    element followed by a gap. Edges of such an axis must be numbers.
    """
    dims = shape_of(x)
    if not dims:
        return x
    axes = [
        # A single element has no gap.
        Axis(extent, first, last, 0 if extent == 1 else gap)
        for extent, first, last, gap in zip(dims, low, high, gaps, strict=True)
    ]
    if 0 in dims:
        lengths = [
            total(first, last) if extent == 0 else axis.result
            for extent, first, last, axis in zip(dims, low, high, axes, strict=True)
        ]
        return em.expand(fill, lengths)
    columns = [column for axis in axes for column in axis.columns]
    shape, before, after = (list(column) for column in zip(*columns, strict=True))
    x = em.reshape(x, shape)
    if any(item != 0 for item in before + after):
        pads = em.extents.vector(before + after)
        lengths = [total(a, n, b) for n, a, b in columns]
        x = em.Pad(x, pads, fill, types=[(dtype_of(x), tuple(map(canonical, lengths)))])
    x = em.reshape(x, [axis.padded for axis in axes])
    starts = [axis.start for axis in axes]
    ends = [total(axis.start, axis.result) for axis in axes]
    return em.slice(x, starts, ends)

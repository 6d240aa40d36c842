"""pad: gaps between elements, then edges, which cut where they are negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@dataclass(frozen=True)
class Axis:
    """One axis and its padding, of which Pad makes whole units: an element and its gap."""

    extent: int
    low: int
    high: int
    gap: int

    @property
    def unit(self) -> int:
        """Length of an element with the gap after it."""
        return 1 + self.gap

    @property
    def before(self) -> int:
        """Units of padding that hold the low edge."""
        return -(-max(self.low, 0) // self.unit)

    @property
    def after(self) -> int:
        """Units of padding that hold the high edge, which begins with the last element's gap."""
        return -(-max(self.high - self.gap, 0) // self.unit)

    @property
    def columns(self) -> list[tuple[int, int, int]]:
        """(extent, low, high) of the axis as Pad sees it, and of the axis of its gaps."""
        units = (self.extent, self.before, self.after)
        return [units, (1, 0, self.gap)] if self.gap else [units]

    @property
    def padded(self) -> int:
        """The extent after Pad."""
        return (self.before + self.extent + self.after) * self.unit

    @property
    def start(self) -> int:
        """Where the result begins in it."""
        return self.before * self.unit - self.low


@handles("stablehlo.pad", form="parts")
def pad(
    em: Emitter,
    op: Op,
    *,
    edge_padding_low: Sequence[int],
    edge_padding_high: Sequence[int],
    interior_padding: Sequence[int],
) -> oir.Value:
    """pad(x, fill) -> Pad, then Slice for negative edges, around Reshapes for interior gaps.

    An axis with gaps becomes (n, 1) and is padded to (n, 1 + gap), which read in order is every
    element followed by a gap.
    """
    x, fill = em.operands(op)
    dims, result = em.static_dims(op.operands[0].type), em.result_dims(op)
    if 0 in dims:
        return em.expand(fill, result)
    if not dims:
        return x
    axes = [
        # A single element has nothing to be apart from.
        Axis(extent, low, high, gap if extent > 1 else 0)
        for extent, low, high, gap in zip(
            dims, edge_padding_low, edge_padding_high, interior_padding, strict=True
        )
    ]
    shape, low, high = zip(*(column for axis in axes for column in axis.columns), strict=True)
    x = em.reshape(x, shape)
    if any(low + high):
        x = em.Pad(x, em.i64(low + high), fill)
    x = em.reshape(x, [axis.padded for axis in axes])
    starts = [axis.start for axis in axes]
    return em.slice(x, starts, [a + n for a, n in zip(starts, result, strict=True)])

"""Laying an operand out in the positions of its padded axes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from dialect_handlers.stablehlo.reduce_window.geometry import Axis
from hlo2onnx.lowering.emitter import Emitter


def lay_out(em: Emitter, x: oir.Value, axes: Sequence[Axis], fill: oir.Value) -> oir.Value:
    """x with base dilation and padding: what every position holds, `fill` in the holes.

    Precondition: each axis has a position that holds an element.
    """
    x = _spread(em, x, axes, fill)
    # Spreading leaves a gap behind the last element too.
    high = [axis.high - (axis.gap - 1) for axis in axes]
    starts = [max(-axis.low, 0) for axis in axes]
    limits = [
        axis.extent * axis.gap + min(edge, 0) for axis, edge in zip(axes, high, strict=True)
    ]
    x = em.slice(x, starts, limits)
    pads = [max(edge, 0) for edge in [*(axis.low for axis in axes), *high]]
    if any(pads):
        x = em.Pad(x, em.i64(pads), fill)
    return x


def _spread(em: Emitter, x: oir.Value, axes: Sequence[Axis], fill: oir.Value) -> oir.Value:
    """Each element followed by its gap: (n) -> (n, 1) -> Pad to (n, gap) -> (n · gap)."""
    if all(axis.gap == 1 for axis in axes):
        return x
    pairs = [dim for axis in axes for dim in (axis.extent, 1)]
    pads = [pad for axis in axes for pad in (0, axis.gap - 1)]
    x = em.Pad(em.reshape(x, pairs), em.i64([0] * len(pads) + pads), fill)
    return em.reshape(x, [axis.extent * axis.gap for axis in axes])

"""Laying an operand out in the positions of its padded axes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from dialect_handlers.stablehlo.reduce_window.geometry import Axis
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.emitter import Emitter


def lay_out(em: Emitter, x: oir.Value, axes: Mapping[int, Axis], fill: oir.Value) -> oir.Value:
    """x with base dilation and padding on these axes: what each position holds, `fill` in holes.

    Precondition: each axis has a position that holds an element.
    """
    for number, axis in axes.items():
        if axis.gap > 1:
            x = _spread(em, x, number, axis, fill)
    # Spreading leaves a gap behind the last element too.
    edges = [(axis.low, axis.high - (axis.gap - 1)) for axis in axes.values()]
    starts = [max(-low, 0) for low, _ in edges]
    limits = [
        axis.extent * axis.gap + min(high, 0)
        for axis, (_, high) in zip(axes.values(), edges, strict=True)
    ]
    x = em.slice(x, starts, limits, axes=list(axes))
    grown = [number for number, edge in zip(axes, edges, strict=True) if max(edge) > 0]
    if grown:
        low, high = zip(*(edge for edge in edges if max(edge) > 0), strict=True)
        pads = em.i64([max(edge, 0) for edge in (*low, *high)])
        x = em.Pad(x, pads, fill, em.i64(grown))
    return x


def _spread(em: Emitter, x: oir.Value, number: int, axis: Axis, fill: oir.Value) -> oir.Value:
    """Each element followed by its gap: (n) -> (n, 1) -> Pad to (n, gap) -> (n · gap)."""
    dims = list(shape_of(x))
    x = em.unsqueeze(x, [number + 1])
    x = em.Pad(x, em.i64([0, axis.gap - 1]), fill, em.i64([number + 1]))
    return em.reshape(x, [*dims[:number], axis.extent * axis.gap, *dims[number + 1 :]])

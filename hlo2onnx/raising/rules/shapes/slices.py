"""Slices of Concats and of Slices."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import extent_of, first, maker_of


class SliceOfConcat(Rule):
    """Slice(Concat(x, y)) -> x, or a Slice of x, where it takes nothing but elements of x

    Legal for a Slice in steps of 1 along the axis of the Concat.
    """

    name = "slice-of-concat"
    anchors = frozenset({"Slice"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        concat = needed(maker_of(first(node), "Concat"), "its operand is not a Concat", node)
        ranges, axis = ranges_of(node), concat.attributes["axis"].as_int()
        need(ranges is not None and list(ranges) == [axis], "it slices another axis", node)
        assert ranges is not None
        rows = ranges[axis]
        need(rows.step == 1, "its step is not 1", node)
        begin = 0
        for part in concat.inputs:
            assert part is not None
            extent = needed(extent_of(part, axis), "an extent is dynamic", part)
            if begin <= rows.start and rows.stop <= begin + extent:
                return b.slice(part, [rows.start - begin], [rows.stop - begin], axes=[axis])
            begin += extent
        raise Refusal("it takes elements of several parts", node)


class ComposeSlices(Rule):
    """Slice(Slice(x)) -> Slice(x)

    Legal for known, non-empty ranges in steps forwards.
    """

    name = "compose-slices"
    anchors = frozenset({"Slice"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inner = needed(maker_of(first(node), "Slice"), "its operand is not a Slice", node)
        ranges, taken = ranges_of(inner), ranges_of(node)
        need(ranges and taken, "a range is not known, is empty, or goes backwards", node)
        assert ranges and taken
        for axis, rows in taken.items():
            whole = ranges.get(axis)
            ranges[axis] = rows if whole is None else whole[rows.start : rows.stop : rows.step]
        starts = [rows.start for rows in ranges.values()]
        ends = [rows[-1] + 1 for rows in ranges.values()]
        steps = [rows.step for rows in ranges.values()]
        return b.slice(first(inner), starts, ends, steps, list(ranges))


def ranges_of(node: oir.Node) -> dict[int, range] | None:
    """The range of a Slice along each of its axes; None if one is not known, is empty, or goes
    backwards."""
    known = [item for item in map(const_ints, node.inputs[1:]) if item is not None]
    if len(known) < max(3, len(node.inputs) - 1):
        return None
    steps = known[3] if len(known) > 3 else (1,) * len(known[0])
    dims, ranges = shape_of(first(node)), {}
    for start, end, axis, step in zip(*known[:3], steps, strict=True):
        extent = dims[axis]
        rows = range(extent)[start:end:step] if isinstance(extent, int) and step > 0 else ()
        if not isinstance(rows, range) or not rows:
            return None
        ranges[axis % len(dims)] = rows
    return ranges

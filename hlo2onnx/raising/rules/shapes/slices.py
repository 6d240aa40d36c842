"""Slice among what makes its operand."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import first


class SliceOfConcat(Rule):
    """Slice(Concat(x, y)) -> x, or a Slice of x, where it takes nothing but elements of x

    Legal for one axis, in steps of 1, the one that the Concat joins: rows that were stacked are
    taken apart again.
    """

    name = "slice-of-concat"
    anchors = frozenset({"Slice"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        concat = first(node).producer()
        need(concat is not None and concat.op_type == "Concat", "its operand is no Concat", node)
        assert concat is not None
        ranges, axis = ranges_of(node), concat.attributes["axis"].as_int()
        need(ranges is not None and list(ranges) == [axis], "it cuts along another axis", node)
        assert ranges is not None
        rows = ranges[axis]
        need(rows.step == 1, "it leaves rows out", node)
        begin = 0
        for part in concat.inputs:
            assert part is not None
            extent = shape_of(part)[axis]
            need(isinstance(extent, int), "an extent is dynamic", part)
            assert isinstance(extent, int)
            if begin <= rows.start and rows.stop <= begin + extent:
                return b.slice(part, [rows.start - begin], [rows.stop - begin], axes=[axis])
            begin += extent
        raise Refusal("it takes elements of several parts", node)


class ComposeSlices(Rule):
    """Slice(Slice(x)) -> Slice(x)

    Legal for ranges that are known and not empty, in steps forwards.
    """

    name = "compose-slices"
    anchors = frozenset({"Slice"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inner = first(node).producer()
        need(inner is not None and inner.op_type == "Slice", "its operand is no Slice", node)
        assert inner is not None
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
    """What a Slice takes along each of its axes; None where that is not known, nothing, or turned
    round."""
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

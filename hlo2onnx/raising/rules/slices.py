"""Slice among what makes its operand."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.graph.values import const_ints, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.rules.shape import first


@dataclass(frozen=True)
class _Cut:
    """x[start:end] along one axis."""

    axis: int
    start: int
    end: int


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
        cut = _cut(node)
        axis = concat.attributes.get_int("axis", 0)
        need(cut is not None and cut.axis == axis, "it cuts along another axis", node)
        assert cut is not None
        begin = 0
        for part in concat.inputs:
            assert part is not None
            extent = shape_of(part)[axis]
            need(isinstance(extent, int), "an extent is dynamic", part)
            assert isinstance(extent, int)
            if begin <= cut.start and cut.end <= begin + extent:
                return b.slice(part, [cut.start - begin], [cut.end - begin], axes=[axis])
            begin += extent
        raise Refusal("it takes elements of several parts", node)


def _cut(node: oir.Node) -> _Cut | None:
    """What a Slice with a known, non-empty range in steps of 1 along one axis takes."""
    x = first(node)
    given = [const_ints(item) for item in node.inputs[1:]]
    if len(given) < 3:
        return None
    starts, ends, axes, steps = [*given, (1,)][:4]
    if not (starts and ends and axes) or len(starts) != 1 or steps != (1,):
        return None
    axis = axes[0] % len(shape_of(x))
    extent = shape_of(x)[axis]
    if not isinstance(extent, int):
        return None
    start, end, _ = slice(starts[0], ends[0]).indices(extent)
    return _Cut(axis, start, end) if start < end else None

"""Bodies of loops and branches, in which every node counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.graph.edit import can_replace, replace
from hlo2onnx.graph.values import dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.rules.shape import first
from hlo2onnx.raising.rules.slices import ranges_of

Ranges = dict[int, range]


class SlicesToSplit(Rule):
    """Slice(x, 0:1), Slice(x, 1:2), Slice(x, 2:3) -> Split(x), in the body of a loop or a branch

    Legal for constant ranges that follow each other along one axis in steps of 1 and are the same
    along the others. Where they are not all of x one Slice is left, which must be worth it.
    """

    name = "slices-to-split"
    anchors = frozenset({"Slice"})
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        need(node.graph is not b.main_graph, "it is in no body", node)
        need(b.supports("Split", dtype_of(x)), "the target cannot split this type", node)
        beside = _cuts(x, node.graph)
        need(node in beside, "its ranges are not known", node)
        for axis in beside[node]:
            row = _row(node, axis, beside)
            joint = beside[node] | {axis: _joined([beside[one][axis] for one in row])}
            is_whole = all(len(taken) == shape_of(x)[place] for place, taken in joint.items())
            if len(row) > (1 if is_whole else 2):
                return _split(b, node, axis, {one: len(beside[one][axis]) for one in row}, joint)
        raise Refusal("nothing follows it, or goes before", node)


def _cuts(x: oir.Value, body: oir.Graph | oir.Function | None) -> dict[oir.Node, Ranges]:
    """The Slices of a value in a body, and what they take along each axis they cut."""
    cuts = {}
    for reader in x.consumers():
        if reader.op_type == "Slice" and reader.graph is body and reader.inputs[0] is x:
            ranges = ranges_of(reader)
            if ranges is not None:
                cuts[reader] = ranges
    return cuts


def _row(node: oir.Node, axis: int, cuts: Mapping[oir.Node, Ranges]) -> list[oir.Node]:
    """The cuts that follow each other along an axis, this one among them."""
    others = _others(cuts[node], axis)
    like = {
        one: ranges[axis]
        for one, ranges in cuts.items()
        if axis in ranges and ranges[axis].step == 1 and _others(ranges, axis) == others
    }
    if node not in like:
        return [node]
    row = [node]
    starts = {taken.start: one for one, taken in like.items()}
    stops = {taken.stop: one for one, taken in like.items()}
    while like[row[-1]].stop in starts:
        row.append(starts[like[row[-1]].stop])
    while like[row[0]].start in stops:
        row.insert(0, stops[like[row[0]].start])
    return row


def _others(ranges: Ranges, axis: int) -> Ranges:
    return {place: taken for place, taken in ranges.items() if place != axis}


def _joined(ranges: Sequence[range]) -> range:
    return range(ranges[0].start, ranges[-1].stop, ranges[0].step)


def _split(
    b: Rewriter, node: oir.Node, axis: int, sizes: Mapping[oir.Node, int], joint: Ranges
) -> oir.Value:
    """Splits what the cuts take together; they go, but for the one that is being rewritten."""
    order = [one for one in node.graph or () if one in sizes]
    with b.before(order[0]):
        starts, ends, steps = zip(
            *((taken[0], taken[-1] + 1, taken.step) for taken in joint.values()), strict=True
        )
        whole = b.slice(first(node), starts, ends, steps, list(joint))
        pieces = b.op("Split", whole, b.i64(list(sizes.values())), axis=axis, n_outputs=len(sizes))
    made: dict[oir.Node, oir.Value] = dict(zip(sizes, pieces, strict=True))
    for one, piece in made.items():
        need(can_replace(one.outputs[0], piece), "what it makes leaves the body", one)
    for one, piece in made.items():
        if one is not node:
            replace(one, [piece])
    return made[node]

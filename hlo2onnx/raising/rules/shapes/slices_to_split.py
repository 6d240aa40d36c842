"""Consecutive Slices become a Split, above all in bodies of loops and branches."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import first, ranges_of

FEW_SLICES: Final = 64
"""Of a tensor with more Slices, only the first one is looked at: a limit on compile time."""

Ranges = dict[int, range]
Row = dict[oir.Node, range]
"""Slices along one axis, in order, and their ranges."""


class SlicesToSplit(Rule):
    """Slice(x, 0:1), Slice(x, 1:2), Slice(x, 2:3) -> Split(x)

    Legal for constant ranges in steps of 1 that follow each other along one axis and are equal
    along the others. In the body of a loop or branch they may take a part of x, for one Slice more,
    if that still saves nodes. Elsewhere x is neither a constant nor a shape (a vector of i64), and
    the Slices must be all Slices of x and cover it, or be so small that copying them twice costs
    less than the saved nodes. Three or more Slices may leave out as much of x as they take.
    """

    name = "slices-to-split"
    anchors = frozenset({"Slice"})
    # Many rules match Slices.
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x = first(node)
        in_body = node.graph is not b.main_graph
        need(in_body or _may_be_parted(x), "it is a constant or a shape", x)
        slices = _slices(x)
        is_first, are_few = in_body or slices[0] is node, len(slices) <= FEW_SLICES
        need(is_first or are_few, "it is not the first Slice of a tensor", node)
        need(b.supports("Split", dtype_of(x)), "the target cannot split this type", node)
        beside = _cuts(x, node.graph)
        need(node in beside, "its ranges are not known", node)
        for axis in beside[node]:
            row = _row(node, axis, beside)
            joint = beside[node] | {axis: _joined(row)}
            apart, extent = _apart(node, axis, beside), shape_of(x)[axis]
            taken = sum(map(len, apart.values()))
            if len(apart) > max(2, len(row)) and isinstance(extent, int) and 2 * taken >= extent:
                row, joint = apart, {axis: range(extent)}
            is_whole = all(len(taken) == shape_of(x)[place] for place, taken in joint.items())
            is_all = is_first and is_whole and len(row) == len(slices)
            is_done = in_body or is_all or (are_few and _is_cheap(b, x, row, joint, is_whole))
            if len(row) > (1 if is_whole else 2) and is_done:
                return _split(b, node, axis, row, joint)
        raise Refusal("no other Slice is next to it, or a part is left over", node)


def _may_be_parted(x: oir.Value) -> bool:
    """Whether a value may be split in the main graph."""
    is_shape = rank_of(x) == 1 and dtype_of(x) == oir.DataType.INT64
    return x.const_value is None and not is_shape


def _is_cheap(b: Rewriter, x: oir.Value, row: Row, joint: Ranges, is_whole: bool) -> bool:
    """Whether copying all parts once more takes less time than the nodes that a Split saves."""
    elements, saved = 1, len(row) - (1 if is_whole else 2)
    for axis, extent in enumerate(shape_of(x)):
        taken = len(joint[axis]) if axis in joint else extent
        if not isinstance(taken, int):
            return False
        elements *= taken
    return elements <= saved * b.costs.copied_elements_per_node


def _slices(x: oir.Value) -> list[oir.Node]:
    """The Slices of a value, in all graphs."""
    return [one for one in x.consumers() if one.op_type == "Slice" and one.inputs[0] is x]


def _cuts(x: oir.Value, body: oir.Graph | oir.Function | None) -> dict[oir.Node, Ranges]:
    """The Slices of a value in a body, and their range along each sliced axis."""
    cuts = {}
    for reader in _slices(x):
        ranges = ranges_of(reader) if reader.graph is body else None
        if ranges is not None:
            cuts[reader] = ranges
    return cuts


def _row(node: oir.Node, axis: int, cuts: Mapping[oir.Node, Ranges]) -> Row:
    """The Slices that follow each other along an axis, including this one."""
    others = _others(cuts[node], axis)
    like = {
        one: ranges[axis]
        for one, ranges in cuts.items()
        if axis in ranges and ranges[axis].step == 1 and _others(ranges, axis) == others
    }
    if node not in like:
        return {node: cuts[node][axis]}
    row = [node]
    starts = {taken.start: one for one, taken in like.items()}
    stops = {taken.stop: one for one, taken in like.items()}
    while like[row[-1]].stop in starts:
        row.append(starts[like[row[-1]].stop])
    while like[row[0]].start in stops:
        row.insert(0, stops[like[row[0]].start])
    return {one: like[one] for one in row}


def _apart(node: oir.Node, axis: int, cuts: Mapping[oir.Node, Ranges]) -> Row:
    """The Slices along this axis only, in order, if this is one of them and no two overlap."""
    row = {one: ranges[axis] for one, ranges in cuts.items() if list(ranges) == [axis]}
    row = dict(sorted(row.items(), key=lambda item: item[1].start))
    simple = all(taken.step == 1 and taken for taken in row.values())
    overlap = any(left.stop > right.start for left, right in pairwise(row.values()))
    return row if node in row and simple and not overlap else {}


def _joined(row: Row) -> range:
    return range(min(r.start for r in row.values()), max(r.stop for r in row.values()))


def _others(ranges: Ranges, axis: int) -> Ranges:
    return {place: taken for place, taken in ranges.items() if place != axis}


def _split(b: Rewriter, node: oir.Node, axis: int, row: Row, joint: Ranges) -> oir.Value:
    """Splits the range of the Slices and replaces all of them except the node being rewritten."""
    x = first(node)
    ends_of_pieces = ((taken.start, taken.stop) for taken in (joint[axis], *row.values()))
    places = sorted({place for ends in ends_of_pieces for place in ends})
    sizes = [stop - start for start, stop in pairwise(places)]
    with _after(x, node, b):
        b.scope, b.metadata = node.name or "", node.metadata_props
        starts, ends, steps = zip(
            *((taken[0], taken[-1] + 1, taken.step) for taken in joint.values()), strict=True
        )
        whole = b.slice(x, starts, ends, steps, list(joint))
        pieces = b.outputs("Split", whole, b.i64(sizes), axis=axis, n_outputs=len(sizes))
    made = {one: pieces[places.index(taken.start)] for one, taken in row.items()}
    for one, piece in made.items():
        need(can_replace(one.outputs[0], piece), "its result leaves the body", one)
    for one, piece in made.items():
        if one is not node:
            replace(one, [piece])
    return made[node]


def _after(x: oir.Value, node: oir.Node, b: Rewriter) -> AbstractContextManager[None]:
    """The first place in a graph where a value exists."""
    maker, graph = x.producer(), node.graph
    assert graph is not None
    if maker is not None and maker.graph is graph:
        return b.after(maker)
    return b.before(graph[0])

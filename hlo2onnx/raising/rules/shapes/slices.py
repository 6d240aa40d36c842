"""Slices of Concats and of Slices, Concats of Concats, and stacks that are Concats."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.dims import is_known, product
from hlo2onnx.ir.op_families import ELEMENTWISE
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import Shape, const_ints, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    extent_of,
    first,
    is_private,
    maker_of,
    operands,
    ranges_of,
    source_of,
)


class SliceOfConcat(Rule):
    """Slice(Concat(x, y)) -> x, or a Slice of x, where it takes nothing but elements of x; likewise
    for Gather

    Legal for a Slice of known ranges, in steps of 1 along the axis of the Concat, and for a Gather
    of one known row. With free extents, the first rows are x if they are as many.
    """

    name = "slice-of-concat"
    anchors = frozenset({"Gather", "Slice"})
    sources = frozenset({"Concat"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        concat = needed(maker_of(first(node), "Concat"), "its operand is not a Concat", node)
        axis = concat.attributes["axis"].as_int() % rank_of(first(node))
        is_row = node.op_type == "Gather"
        if not is_row and _is_first(node, first(concat), axis):
            return first(concat)
        ranges = _row_of(node) if is_row else ranges_of(node)
        need(ranges is not None and list(ranges) == [axis], "it slices another axis", node)
        assert ranges is not None
        rows = ranges[axis]
        need(rows.step == 1, "its step is not 1", node)
        begin = 0
        for part in operands(concat):
            extent = needed(extent_of(part, axis), "an extent is dynamic", part)
            if begin <= rows.start and rows.stop <= begin + extent:
                if is_row:
                    return _row(b, part, rows.start - begin, axis)
                return b.slice(part, [rows.start - begin], [rows.stop - begin], axes=[axis])
            begin += extent
        raise Refusal("it takes elements of several parts", node)


def _is_first(node: oir.Node, x: oir.Value, axis: int) -> bool:
    """Whether a Slice takes as many rows as x has, from the first one on."""
    starts, _, *others = map(const_ints, node.inputs[1:])
    is_along = starts == (0,) and others in ([(axis,)], [(axis,), (1,)])
    rows = shape_of(x)[axis]
    return is_along and is_known([rows]) and shape_of(node.outputs[0])[axis] == rows


def _row_of(node: oir.Node) -> dict[int, range] | None:
    """The row that a Gather takes, by its axis; None if it is not known or not one."""
    table, place = operands(node)
    axis, index = node.attributes.get_int("axis", 0) % rank_of(table), const_ints(place)
    extent = extent_of(table, axis)
    if rank_of(place) or index is None or extent is None:
        return None
    return {axis: range(index[0] % extent, index[0] % extent + 1)}


def _row(b: Rewriter, x: oir.Value, number: int, axis: int) -> oir.Value:
    is_whole = shape_of(x)[axis] == 1
    return b.squeeze(x, [axis]) if is_whole else b.Gather(x, b.i64(number), axis=axis)


class ComposeSlices(Rule):
    """Slice(Slice(x)) -> Slice(x)

    Legal for known, non-empty ranges in steps forwards, and for Slices that both reverse axes:
    those that only one of them reverses stay reversed.
    """

    name = "compose-slices"
    anchors = frozenset({"Slice"})
    sources = frozenset({"Slice"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inner = needed(maker_of(first(node), "Slice"), "its operand is not a Slice", node)
        turned, again = flipped_axes(inner), flipped_axes(node)
        if turned is not None and again is not None:
            return _flipped(first(inner), sorted({*turned} ^ {*again}), b)
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


class SliceOfOuter(Rule):
    """Slice(LessOrEqual(x, y)) -> LessOrEqual(Slice(x), y), likewise for elementwise operators

    Legal along an axis of which an operand has one element, or as many as the result. Done for
    operands with fewer elements than the result, such as a row and a column, and for results of
    such operators, if nothing else reads what is sliced: a mask of all positions that a step takes
    its rows from has a row for each new token then. With attention="gqa" only: else a step of
    Gemma 2 takes 0.96 of the time, with more operators.
    """

    name = "slice-of-outer"
    anchors = frozenset({"Slice"})
    sources = ELEMENTWISE

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        whole, result = first(node), node.outputs[0]
        axes = const_ints(node.inputs[3]) if len(node.inputs) > 3 else None
        need(axes is not None and len(axes) == 1, "it slices several axes", node)
        assert axes
        axis = axes[0] % rank_of(result) - rank_of(result)
        maker = needed(maker_of(whole, *ELEMENTWISE), "its operand is not elementwise", node)
        need(_is_outer(whole, axis), "it takes some of what is computed, or others do", node)

        def cut(x: oir.Value) -> oir.Value:
            if not _varies(x, axis):
                return x
            place = rank_of(x) + axis
            dims = (*shape_of(x)[:place], shape_of(result)[axis], *shape_of(x)[place + 1 :])
            along = b.axes_beside(node.inputs[1], [place])
            inputs = [x, *node.inputs[1:3], along, *node.inputs[4:]]
            return b.like(node, inputs, [(dtype_of(x), dims)])

        parts = [None if x is None else cut(x) for x in maker.inputs]
        return b.like(maker, parts, [(dtype_of(result), shape_of(result))])


def _varies(x: oir.Value, axis: int) -> bool:
    """Whether x has several elements along an axis, counted from the last one."""
    return rank_of(x) >= -axis and shape_of(x)[axis] != 1


def _is_outer(x: oir.Value, axis: int) -> bool:
    """Whether one node reads x, and operands that vary along an axis have fewer elements or are
    such values."""
    node = maker_of(x, *ELEMENTWISE)
    if node is None or not is_private(x) or not is_known(shape_of(x)):
        return False
    varying = [y for y in operands(node) if _varies(y, axis)]
    same = all(shape_of(y)[axis] == shape_of(x)[axis] for y in varying)
    whole = product(shape_of(x))
    is_less = (product(shape_of(y)) != whole or _is_outer(y, axis) for y in varying)
    return bool(varying) and same and all(is_less)


class ComposeConcats(Rule):
    """Concat(Concat(x, y), z) -> Concat(x, y, z)

    Legal along the same axis. Done if nothing else reads the inner Concat. The last Concat of a
    chain takes the operands of all, in linear time.
    """

    name = "compose-concats"
    anchors = frozenset({"Concat"})
    sources = frozenset({"Concat"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        result = node.outputs[0]
        axis = _axis(node)
        assert axis is not None
        is_last = not is_private(result) or _axis(result.consumers()[0]) != axis
        need(is_last, "its reader is a Concat along this axis, too", node)
        parts: list[oir.Value] = []
        pending = operands(node)[::-1]
        while pending:
            x = pending.pop()
            inner = maker_of(x, "Concat")
            if inner is not None and is_private(x) and _axis(inner) == axis:
                pending += operands(inner)[::-1]
            else:
                parts.append(x)
        need(len(parts) > len(node.inputs), "no operand is a Concat of its own", node)
        return b.concat(parts, axis)


class StackToConcat(Rule):
    """Reshape(Concat(Reshape(x), Reshape(y))) -> Concat(x, y)

    Legal where the last Reshape merges the axis of the Concat with the next one, and x and y have
    the extents that it gives to each part. Keras joins two halves so: it stacks and flattens them.
    Not for the first axis: rules that batch operators look for stacks of rows.
    """

    name = "stack-to-concat"
    anchors = RESHAPES
    sources = frozenset({"Concat"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        whole = first(node)
        stack = needed(maker_of(whole, "Concat"), "its operand is not a Concat", node)
        axis = _axis(stack)
        assert axis is not None
        merges = 0 < axis < rank_of(whole) - 1
        merges = merges and shape_of(node.outputs[0]) == _merged(whole, axis)
        need(merges, "it does not merge the axis of the Concat with the next one", node)
        is_alone = all(set(x.consumers()) == {stack} for x in operands(stack))
        need(is_alone, "others read the parts", stack)
        views = [source_of(x, *RESHAPES) for x in operands(stack)]
        parts = [x for x in views if x is not None]
        same = [*map(shape_of, parts)] == [_merged(x, axis) for x in operands(stack)]
        need(same, "a part is not reshaped, or had another shape", stack)
        return b.concat(parts, axis)


def _merged(x: oir.Value, axis: int) -> Shape:
    """The shape of x with an axis and the next one as one axis."""
    dims = shape_of(x)
    return (*dims[:axis], product(dims[axis : axis + 2]), *dims[axis + 2 :])


def _axis(node: oir.Node) -> int | None:
    """The axis of a Concat; None for other nodes."""
    if node.op_type != "Concat" or node.domain:
        return None
    return node.attributes["axis"].as_int() % rank_of(node.outputs[0])


def flipped_axes(node: oir.Node) -> tuple[int, ...] | None:
    """The axes that a Slice reverses, sorted, if it does nothing else; None if it does."""
    if len(node.inputs) <= 4:  # as most have: no steps
        return None
    x, (*places, axes, steps) = first(node), map(const_ints, node.inputs[1:])
    if axes is None or steps is None or set(steps) != {-1} or None in places:
        return None
    if shape_of(x) != shape_of(node.outputs[0]):
        return None
    return tuple(sorted(axis % len(shape_of(x)) for axis in axes))


def _flipped(x: oir.Value, axes: Sequence[int], b: Rewriter) -> oir.Value:
    """x with these axes reversed."""
    count = len(axes)
    if not count:
        return x
    return b.slice(x, [-1] * count, [INT64_MIN] * count, [-1] * count, axes)

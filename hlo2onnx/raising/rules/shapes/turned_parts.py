"""Parts of a tensor that are updated and turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import multiple, product
from hlo2onnx.ir.values import Dim, const_ints, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    is_private,
    maker_of,
    operands,
    ranges_of,
)


class _Part(NamedTuple):
    """One part of a tensor, along an axis or along several in a row.

    Attributes:
        axis: The first of these axes.
        number: The number of the part, in the order of these axes.
    """

    x: oir.Value
    axis: int
    number: int


class TurnedPart(Rule):
    """Transpose(TensorScatter(Gather(x, i), u, starts)) ->
    TensorScatter(Gather(Reshape(x), rows), Transpose(u), starts)

    Legal for one known part i along an axis of x, if the Transpose keeps the axes before it. Rows
    of the last axis are gathered in their new order; if the Transpose swaps the last two axes as
    well, it does only that afterwards. Done for long rows, if nothing else reads the part: it is
    copied once instead of twice. Models of keras-hub hold the caches of all layers in one array.
    """

    name = "turned-part"
    anchors = frozenset({"Transpose"})
    sources = frozenset({"TensorScatter"})
    # After the rules that update the whole array and find attention.
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        write = needed(maker_of(first(node), "TensorScatter"), "nothing is updated", node)
        part, update, starts = (*operands(write), None)[:3]
        assert part is not None and update is not None
        need(is_private(part) and is_private(first(node)), "others read the part", write)
        found, last = _part(part), rank_of(part) - 1
        axis = found.axis
        need(axis and "mode" not in write.attributes, "it updates batches, or wraps around", write)
        order = list(node.attributes["perm"].as_ints())
        swaps = order[-1] != last
        if swaps:
            order[-2:] = order[:-3:-1]
        need(order[-1] == last and order[:axis] == [*range(axis)], "rows change places", node)
        need(order != sorted(order), "the rows stay in order", node)
        dims = shape_of(part)
        row = dims[last]
        need(isinstance(row, int) and row >= b.costs.scattered_row, "the rows are short", part)
        flat = (*dims[:axis], product(shape_of(found.x)[axis:-1]), dims[last])
        need(b.reshapes_at_once(found.x, flat), "its shape is computed at run time", found.x)
        rows = _rows(b, dims[axis:last], [k - axis for k in order[axis:last]], found.number)
        turned = b.Gather(b.reshape(found.x, flat), rows, axis=axis)
        along = order.index(write.attributes.get_int("axis", -2) % (last + 1))
        made = b.op("TensorScatter", turned, b.transpose(update, order), starts, axis=along)
        return b.transpose(made, [*range(last - 1), last, last - 1]) if swaps else made


def _part(x: oir.Value) -> _Part:
    """The tensor of which x is a part, of all extents along the other axes."""
    node = needed(maker_of(x, "Gather", *RESHAPES), "it updates no part", x)
    if node.op_type == "Gather":
        whole, place = operands(node)
        index, axis = const_ints(place), node.attributes.get_int("axis", 0) % rank_of(whole)
        need(index and rank_of(place) == 0 and index[0] >= 0, "it is no known part", node)
        assert index
        return _within(_Part(whole, axis, index[0]), shape_of(whole)[axis])
    cut = needed(maker_of(first(node), "Slice", "Split"), "it updates no part", node)
    dims = shape_of(first(cut))
    if cut.op_type == "Split":
        axis = cut.attributes.get_int("axis", 0) % len(dims)
        number = cut.outputs.index(first(node))
        need(dims[axis] == len(cut.outputs), "the parts have several elements", cut)
    else:
        ranges = ranges_of(cut) or {}
        need([*map(len, ranges.values())] == [1], "it cuts no element along one axis", cut)
        ((axis, (number,)),) = ranges.items()
    need(shape_of(x) == dims[:axis] + dims[axis + 1 :], "it updates no part", node)
    return _within(_Part(first(cut), axis, number), dims[axis])


def _within(part: _Part, count: Dim) -> _Part:
    """The same part; that of a part of a larger tensor along the axis before, of the larger one.

    Args:
        count: The parts of which it is one.
    """
    if not isinstance(count, int) or maker_of(part.x, "Gather", *RESHAPES) is None:
        return part
    try:
        outer = _part(part.x)
    except Refusal:
        return part
    if outer.axis != part.axis:
        return part
    return _Part(outer.x, outer.axis, outer.number * count + part.number)


def _rows(b: Rewriter, dims: Sequence[Dim], order: Sequence[int], part: int) -> oir.Value:
    """The numbers of the rows of a part, whose axes are in another order."""
    numbers: oir.Value | None = None
    for axis, dim in enumerate(dims):
        column = [1] * (len(dims) - 1 - order.index(axis))
        counted = b.Mul(_count(b, dim), b.extents.scalar(product(dims[axis + 1 :])))
        counted = b.unsqueeze(counted, range(1, 1 + len(column))) if column else counted
        numbers = counted if numbers is None else b.Add(numbers, counted)
    assert numbers is not None
    if not part:
        return numbers
    return b.Add(numbers, b.extents.value(multiple(product(dims), part)))


def _count(b: Rewriter, dim: Dim) -> oir.Value:
    """0, 1, 2, ..., dim - 1"""
    if isinstance(dim, int):
        return b.const(np.arange(dim))
    types = [(oir.DataType.INT64, (dim,))]
    return b.op("Range", b.i64(0), b.extents.scalar(dim), b.i64(1), types=types)

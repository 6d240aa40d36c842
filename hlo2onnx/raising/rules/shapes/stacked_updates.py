"""Stacks of all parts of a tensor, each of which is updated at the same places."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import const_ints, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands, ranges_of


class StackedUpdates(Rule):
    """Concat(ScatterND(x[0], places, u), ScatterND(x[1], places, v)) -> ScatterND(x, places of
    both, Concat(u, v)), likewise for TensorScatter

    Along any axis of x, for its parts in order, none left out. Legal for equal places in all parts,
    as each is in one part. Programs that hold the caches of all layers in one array take it apart
    and stack it again, which copies all of them.
    """

    name = "stacked-updates"
    anchors = frozenset({"Concat"})
    sources = RESHAPES
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        whole, axis = node.outputs[0], node.attributes["axis"].as_int() % rank_of(node.outputs[0])
        scatters = [_update(x, axis) for x in operands(node)]
        parts = [_part(first(each), axis) for each in scatters]
        (x, _), (places, _) = parts[0], _written(scatters[0])
        in_order = all(part == (x, index) for index, part in enumerate(parts))
        need(in_order and shape_of(x) == shape_of(whole), "it stacks no parts of one tensor", node)
        kinds = {(each.op_type, each.attributes.get_int("axis", 0)) for each in scatters}
        is_same = len(kinds) == 1 and all(_written(each)[0] is places for each in scatters)
        need(is_same, "the parts are updated at different places", node)
        updates = [_written(each)[1] for each in scatters]
        ((kind, along),) = kinds
        if kind == "TensorScatter":
            need(axis, "it stacks batches", node)
            joined = b.concat([b.unsqueeze(u, [axis]) for u in updates], axis)
            return b.TensorScatter(x, joined, places, axis=along + (axis <= along))
        *rows, count = shape_of(places)
        need(rows, "it updates one place", places)
        assert isinstance(count, int)
        if axis >= count:
            at = axis - count + len(rows)
            joined = b.concat([b.unsqueeze(u, [at]) for u in updates], at)
            return b.ScatterND(x, places, joined)
        axis_there, n = len(rows) - 1, len(parts)
        columns = np.insert(np.arange(count), axis, 0)
        places = b.Gather(places, b.i64(columns.tolist()), axis=len(rows))
        index = np.arange(n, dtype=dtype_of(places).numpy()).reshape(n, 1, 1)
        is_index = b.const(np.arange(count + 1) == axis)
        places = b.Where(is_index, b.const(index), b.unsqueeze(places, [axis_there]))
        dims = (*rows[:-1], product([n, rows[-1]]), count + 1)
        need(b.reshapes_at_once(places, dims), "its shape is computed at run time", places)
        return b.ScatterND(x, b.reshape(places, dims), b.concat(updates, axis_there))


def _update(x: oir.Value, axis: int) -> oir.Node:
    """The ScatterND whose result is a part of a stack along an axis."""
    view = needed(maker_of(x, *RESHAPES), "its operands are no parts", x)
    dims = shape_of(x)
    is_part = dims[axis] == 1 and shape_of(first(view)) == dims[:axis] + dims[axis + 1 :]
    need(is_part, "its operands have other axes", x)
    scatter = maker_of(first(view), "ScatterND", "TensorScatter")
    scatter = needed(scatter, "nothing updates a part", x)
    is_plain = scatter.attributes.keys().isdisjoint({"mode", "reduction"})
    need(is_plain, "it combines elements, or wraps around", scatter)
    return scatter


def _written(scatter: oir.Node) -> tuple[oir.Value, oir.Value]:
    """The places that an update is written to, and the update."""
    _, *both = operands(scatter)
    one, other = both if scatter.op_type == "ScatterND" else both[::-1]
    return one, other


def _part(x: oir.Value, axis: int) -> tuple[oir.Value, int]:
    """The tensor of which x is a part along an axis, and its number."""
    node = needed(maker_of(x, "Gather", *RESHAPES), "it updates no part", x)
    if node.op_type == "Gather":
        places = operands(node)[1]
        index = const_ints(places)
        is_one = rank_of(places) == 0 and node.attributes.get_int("axis", 0) == axis
        need(index and is_one, "it updates no part along the axis", node)
        assert index
        return first(node), index[0]
    cut = needed(maker_of(first(node), "Slice"), "it updates no part", node)
    rows = (ranges_of(cut) or {}).get(axis, range(0))
    dims = shape_of(cut.outputs[0])
    is_part = shape_of(x) == dims[:axis] + dims[axis + 1 :] and list(ranges_of(cut) or {}) == [axis]
    need(is_part and len(rows) == 1, "it updates no part along the axis", node)
    return first(cut), rows.start

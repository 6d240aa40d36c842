"""ScatterElements and ScatterND that keep the largest or smallest, for opsets without them."""

from __future__ import annotations

from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import is_static, product
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of

T = oir.DataType


def decompose_scatter_extreme(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """The node's output, from a Loop over updates: those of one trip have different targets.

    A trip takes what is there, the maximum or minimum of that and the updates, and writes it. NaN
    stays, as in Max and Min.
    """
    data, index, updates = (x for x in node.inputs if x is not None)
    if node.op_type == "ScatterND":
        axis, take = 0, "GatherND"
        put: dict[str, Any] = {}
        before = rank_of(index) - 1
        index = _rows(b, index, None, 1)
        updates = _rows(b, updates, b.Shape(index, end=1), rank_of(updates) - before)
    else:
        axis = node.attributes.get_int("axis", 0) % rank_of(data)
        take, put = "GatherElements", {"axis": axis}
    extreme = "Max" if node.attributes.get_string("reduction", "") == "max" else "Min"
    types = [(dtype_of(data), shape_of(data))]
    trip, going = b.value("trip", T.INT64, []), b.value("going", T.BOOL, [])
    state = b.value("scattered", *types[0])
    with b.subgraph([trip, going, state], "scatter") as body:
        at = b.unsqueeze(trip, [0])
        places, new = (b.Gather(x, at, axis=axis) for x in (index, updates))
        old = b.op(take, state, places, types=[(dtype_of(new), shape_of(new))], **put)
        written = b.op(node.op_type, state, places, b.op(extreme, old, new), types=types, **put)
        body.outputs.extend([b.Identity(going), written])
    trips = b.squeeze(b.Shape(index, start=axis, end=axis + 1), [0])
    return b.op("Loop", trips, None, data, types=types, body=body)


def _rows(b: GraphBuilder, x: oir.Value, count: oir.Value | None, rank: int) -> oir.Value:
    """x with all axes before those of a row of this rank made one; `count` gives its extent."""
    before, row = shape_of(x)[: rank_of(x) - rank], shape_of(x)[rank_of(x) - rank :]
    dims = (product(before), *row)
    if len(before) == 1 or is_static(dims):
        return b.reshape(x, dims)
    types = [(dtype_of(x), dims)]
    if count is None:
        return b.op("Flatten", x, axis=len(before), types=types)
    shape = b.concat([count, b.Shape(x, start=len(before))], 0) if rank else count
    return b.op("Reshape", x, shape, allowzero=1, types=types)

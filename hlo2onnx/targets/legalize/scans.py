"""Scans become Loops where the target, or any other runtime, may not run them right."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import attributes_of, dtype_of, rank_of, shape_of
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.target import Target


def write_scans_as_loops(graph: oir.Graph, target: Target, builder: GraphBuilder) -> None:
    """Scan(states, x) -> Loop(trips, states), in place, whose body gathers its rows of x.

    Where the target reads no values of the outer graph in a Scan, all become Loops: constants and
    invariant values may move out of a body later. For every target those become Loops whose body
    does not read its rows: OpenVINO 2026.4 makes a wrong number of trips, without an error. Scans
    along other axes of their outputs than the first stay; hlo2onnx makes none.
    """
    for node in list(all_nodes(graph)):
        if node.op_type == "Scan" and not node.domain and _is_wrong(node, target.flags):
            _write_as_loop(node, builder)


def _is_wrong(scan: oir.Node, flags: Flags) -> bool:
    given = attributes_of(scan)
    if any(given.get("scan_output_axes", ())):
        return False
    rows = list(given["body"].inputs)[-given["num_scan_inputs"] :]
    is_unread = not all(row.uses() or row.is_graph_output() for row in rows)
    return flags.no_scan or flags.no_outer_values_in_scans or is_unread


def _write_as_loop(scan: oir.Node, b: GraphBuilder) -> None:
    given = attributes_of(scan)
    body, count = given["body"], given["num_scan_inputs"]
    axes = given.get("scan_input_axes") or [0] * count
    backwards = given.get("scan_input_directions") or [0] * count
    states = len(scan.inputs) - count
    xs = [x for x in scan.inputs[states:] if x is not None]
    reversed_outputs = given.get("scan_output_directions") or [0] * (len(scan.outputs) - states)
    extent = shape_of(xs[0])[axes[0]]
    with b.before(scan):
        trips = b.extents.scalar(extent)
        last = b.Sub(trips, b.i64(1)) if any(backwards) else trips
    trip = b.value("trip", oir.DataType.INT64, [])
    going = b.value("going", oir.DataType.BOOL, [])
    with b.before(body[0]) if len(body) else b.at_end(body):
        places = (trip, b.Sub(last, trip) if any(backwards) else trip)
        rows = list(body.inputs)[states:]
        for x, axis, backward, row in zip(xs, axes, backwards, rows, strict=True):
            _read(row, b.Gather(x, places[bool(backward)], axis=axis % rank_of(x)), body)
    del body.inputs[states:]
    body.inputs.insert(0, going)
    body.inputs.insert(0, trip)
    with b.at_end(body):
        body.outputs.insert(0, b.Identity(going))
    types = [(dtype_of(x), shape_of(x)) for x in scan.outputs]
    with b.before(scan):
        made = b.node("Loop", [trips, None, *scan.inputs[:states]], {"body": body}, types)
        stacks = [
            b.slice(x, [-1], [INT64_MIN], [-1], axes=[0]) if backward else x
            for x, backward in zip(made[states:], reversed_outputs, strict=True)
        ]
    replace(scan, [*made[:states], *stacks])


def _read(row: oir.Value, gathered: oir.Value, body: oir.Graph) -> None:
    """Puts a gathered row in the place of an input of the body."""
    for user, position in list(row.uses()):
        user.replace_input_with(position, gathered)
    for index, output in enumerate(body.outputs):
        if output is row:
            body.outputs[index] = gathered

"""Control flow: what a target does not run, Scans as Loops, and the element types of states."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.traversal import all_nodes, replace_input, replace_uses, subgraphs
from hlo2onnx.ir.values import (
    attributes_of,
    const_number,
    dtype_of,
    present,
    rank_of,
    shape_of,
)
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.legalize.carriers import carriers_of
from hlo2onnx.targets.target import Target

NEXT = "use jnp.where or a loop of few constant trips, or translate for another target"


def control_flow_fault(node: oir.Node, flags: Flags) -> str:
    """The control flow operator of a node that the target does not run; "" if it runs it."""
    # Scans that may read outer values are Loops by now.
    no_scan = flags.no_scan or flags.no_outer_values_in_scans
    lacks = {"If": flags.no_if, "Loop": flags.no_loop, "Scan": no_scan}
    return node.op_type if not node.domain and lacks.get(node.op_type) else ""


# -- scans -----------------------------------------------------------------------------------------

# Scans become Loops where the target, or any other runtime, may not run them right.


def write_scans_as_loops(graph: oir.Graph, target: Target, builder: GraphBuilder) -> None:
    """Scan(states, x) -> Loop(trips, states), in place, whose body gathers its rows of x.

    Where the target reads no values of the outer graph in a Scan, all become Loops: constants and
    invariant values may move out of a body later. For every target those become Loops whose body
    does not read its rows: OpenVINO 2026.4 has a wrong trip count, without an error. Scans along
    other axes of their outputs than the first stay; hlo2onnx makes none. For a target without Loop,
    a body reads rows in a condition that is always false.
    """
    # Next to a device without control flow, Scans run on the fallback.
    flags = Flags() if target.flags.shares_memory else target.flags
    for node in list(all_nodes(graph)):
        if node.op_type == "Scan" and not node.domain and _is_wrong(node, flags):
            if flags.no_loop and not flags.no_scan:
                _read_rows(node, builder)
            else:
                _write_as_loop(node, builder)


def _is_wrong(scan: oir.Node, flags: Flags) -> bool:
    given = attributes_of(scan)
    if any(given.get("scan_output_axes", ())):
        return False
    rows = list(given["body"].inputs)[-given["num_scan_inputs"] :]
    is_unread = not all(row.uses() or row.is_graph_output() for row in rows)
    return flags.no_scan or flags.no_outer_values_in_scans or is_unread


def _read_rows(scan: oir.Node, b: GraphBuilder) -> None:
    """Makes a result of the body depend on trip numbers that it does not read: Where(number < 0, 0,
    result). tract removes rows that nothing needs, and then knows no trip count.
    """
    given = attributes_of(scan)
    body = given["body"]
    for row in list(body.inputs)[-given["num_scan_inputs"] :]:
        if row.uses() or row.is_graph_output():
            continue
        read = [k for k, x in enumerate(scan.outputs) if x.uses() or x.is_graph_output()]
        place = min(read, key=lambda k: _size(body.outputs[k]))
        with b.at_end(body):
            after = body.outputs[place]
            zero = b.scalar(0, dtype_of(after))
            body.outputs[place] = b.Where(b.Less(row, b.i64(0)), zero, after)


def _size(x: oir.Value) -> int:
    return math.prod(extent for extent in shape_of(x) if isinstance(extent, int))


def _write_as_loop(scan: oir.Node, b: GraphBuilder) -> None:
    given = attributes_of(scan)
    body, count = given["body"], given["num_scan_inputs"]
    axes = given.get("scan_input_axes") or [0] * count
    backwards = given.get("scan_input_directions") or [0] * count
    states = len(scan.inputs) - count
    xs = present(scan.inputs[states:])
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
            replace_uses(row, b.Gather(x, places[bool(backward)], axis=axis % rank_of(x)))
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


# -- loops -----------------------------------------------------------------------------------------

# For targets that run Scan and If, and no Loop.

_MOST_TRIPS = 1 << 16


def write_loops_as_scans(graph: oir.Graph, target: Target, builder: GraphBuilder) -> None:
    """Loop(n, p, s) -> Scan(p, s, 0 to n - 1), in place, of If(p, body, (p, s)): the trips after
    the last one keep the states.

    Loops without a known limit of trips, and those that stack rows, stay.
    """
    flags = target.flags
    if not flags.no_loop or flags.no_scan or flags.no_if:
        return
    for node in list(all_nodes(graph)):
        if node.op_type == "Loop" and not node.domain:
            _write_as_scan(node, builder)


def _write_as_scan(loop: oir.Node, b: GraphBuilder) -> None:
    limit, start, *initial = loop.inputs
    body: oir.Graph = attributes_of(loop)["body"]
    count, stacks = const_number(limit), len(body.outputs) - len(body.inputs) + 1
    if count is None or not 0 < count <= _MOST_TRIPS or stacks:
        return
    number, *states = (b.value(x.name or "state", dtype_of(x), shape_of(x)) for x in body.inputs)
    for old, new in zip(body.inputs, (number, *states), strict=True):
        replace_uses(old, new)
    del body.inputs[:]
    with b.at_end(body):
        body.outputs[:] = [b.Identity(x) for x in body.outputs]
    types = [(dtype_of(x), shape_of(x)) for x in states]
    with b.subgraph([*states, number], f"{b.scope}/trips") as trips:
        with b.subgraph([], f"{b.scope}/rest") as rest:
            rest.outputs.extend(b.Identity(x) for x in states)
        branches = {"then_branch": body, "else_branch": rest}
        trips.outputs.extend(b.node("If", [states[0]], branches, types))
    with b.before(loop):
        first = b.const(np.array(True)) if start is None else start
        given = [first, *initial, b.i64(range(int(count)))]
        made = b.node("Scan", given, {"body": trips, "num_scan_inputs": 1}, types)
    replace(loop, made[1:])


# -- subgraph types --------------------------------------------------------------------------------

# Element types of the inputs and outputs of subgraphs: Loop and If carry those of Identity.


def carry_states(graph: oir.Graph, target: Target, builder: GraphBuilder) -> None:
    """Loop(x: i4) -> Cast(Loop(Cast(x, i8)), i4), and the same for If, in place, for element types
    that the target cannot carry. Subgraphs cast their inputs back where they read them.

    Values captured by subgraphs may have any type. An element type without a carrier stays.
    """
    for node in all_nodes(graph):
        if node.op_type not in ("If", "Loop"):
            continue
        for index, output in enumerate(node.outputs):
            dtype = dtype_of(output)
            if target.supports("Identity", dtype, builder.opset):
                continue
            for carrier in carriers_of("Identity", dtype):
                if target.supports("Identity", carrier, builder.opset):
                    _carry(node, index, carrier, builder)
                    break


def _carry(node: oir.Node, index: int, carrier: oir.DataType, builder: GraphBuilder) -> None:
    first_output, first_state = (1, 2) if node.op_type == "Loop" else (0, 0)
    for inner in subgraphs(node):
        with builder.at_end(inner):
            inner.outputs[index + first_output] = builder.cast(
                inner.outputs[index + first_output], carrier
            )
        if index < len(node.inputs) - first_state and first_state:
            with builder.before(node):
                given = builder.cast(present(node.inputs[2:])[index], carrier)
                replace_input(node, index + first_state, given)
            with builder.before(inner[0]):
                _retype(inner.inputs[index + first_state], carrier, builder)
    with builder.after(node):
        _retype(node.outputs[index], carrier, builder)


def _retype(value: oir.Value, carrier: oir.DataType, builder: GraphBuilder) -> None:
    """Gives a value the carrier's type, and its readers a cast back."""
    dtype, was_output = dtype_of(value), value.is_graph_output()
    value.type = oir.TensorType(carrier)
    cast = builder.cast(value, dtype)
    replace_uses(value, cast)
    maker = cast.producer()
    assert maker is not None
    replace_input(maker, 0, value)
    if was_output:
        value.name, cast.name = cast.name, value.name

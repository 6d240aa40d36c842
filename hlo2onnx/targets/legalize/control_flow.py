"""Control flow: what a target does not run, Scans as Loops, and the element types of states."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.traversal import all_nodes, replace_input, replace_uses, subgraphs
from hlo2onnx.ir.values import attributes_of, dtype_of, present, rank_of, shape_of
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
    other axes of their outputs than the first stay; hlo2onnx makes none.
    """
    # Next to a device without control flow, Scans run on the fallback.
    flags = Flags() if target.flags.shares_memory else target.flags
    for node in list(all_nodes(graph)):
        if node.op_type == "Scan" and not node.domain and _is_wrong(node, flags):
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

"""Control flow: what a target does not run, Scans as Loops, and the element types of states."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import attributes_of, dtype_of, rank_of, shape_of
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.legalize.carriers import carriers_of
from hlo2onnx.targets.target import Target

# -- control flow ----------------------------------------------------------------------------------

# Control flow that a target does not run, or runs wrongly, by the flags of its table.


_OPERATORS = ("If", "Loop", "Scan")
NEXT = "use jnp.where or a loop of few constant trips, or translate for another target"


_FLAGS = (
    "no_loop", "no_scan", "no_if", "no_nested_loops", "no_zero_trips", "no_unknown_stacks",
    "no_outer_values_in_scans", "no_outer_values_in_loops", "no_outer_values_in_branches",
    "no_unlike_branches", "drops_unread_states",
)  # fmt: skip


def control_flow_fault(node: oir.Node, flags: Flags, facts: Facts) -> str:
    """What the target does not run of an If, Loop or Scan; "" if it runs it."""
    if node.domain or node.op_type not in _OPERATORS:
        return ""
    if not any(getattr(flags, name) for name in _FLAGS):
        return ""
    reads_outer = bool(_outer_values(node))
    if node.op_type == "If":
        branches = [[value.shape for value in branch.outputs] for branch in subgraphs(node)]
        faults = {
            "If": flags.no_if,
            "branch that reads values of the graph around it": flags.no_outer_values_in_branches
            and reads_outer,
            "If whose branches give different shapes": flags.no_unlike_branches
            and branches[0] != branches[1],
        }
    elif node.op_type == "Scan":
        faults = {
            "Scan": flags.no_scan or flags.no_outer_values_in_scans,  # the others are Loops now
            "control flow in a Scan": flags.no_nested_loops and _has_control_flow(node),
        }
    else:
        faults = _faults_of_loop(node, flags, facts, reads_outer)
    return next((what for what, is_there in faults.items() if is_there), "")


def _faults_of_loop(
    loop: oir.Node, flags: Flags, facts: Facts, reads_outer: bool
) -> dict[str, bool]:
    (body,) = subgraphs(loop)
    states = len(loop.inputs) - 2
    trips = None if loop.inputs[0] is None else facts.int_range(loop.inputs[0])
    is_counted = trips is not None and trips.low == trips.high and loop.inputs[1] is None
    has_stacks = len(loop.outputs) > states
    given = (body.inputs[0], *body.inputs[2:])
    reads = any(value.uses() or value.is_graph_output() for value in given)
    return {
        "Loop": flags.no_loop,
        "control flow in a Loop": flags.no_nested_loops and _has_control_flow(loop),
        "Loop that may have no trips": flags.no_zero_trips and (trips is None or trips.low < 1),
        "Loop whose state decides how many rows it gives": flags.no_unknown_stacks
        and has_stacks
        and not is_counted,
        "Loop that reads values of the graph around it": flags.no_outer_values_in_loops
        and reads_outer,
        "Loop that reads neither its state nor the trip": flags.drops_unread_states and not reads,
    }


def _has_control_flow(node: oir.Node) -> bool:
    (body,) = subgraphs(node)
    return any(not each.domain and each.op_type in _OPERATORS for each in all_nodes(body))


def _outer_values(node: oir.Node) -> set[oir.Value]:
    """The values that the bodies of a node read from the graphs around them."""
    inside: set[oir.Value] = set()
    read: set[oir.Value] = set()
    for body in subgraphs(node):
        inside.update(body.inputs)
        read.update(body.outputs)
        for each in all_nodes(body):
            inside.update(each.outputs)
            read.update(value for value in each.inputs if value is not None)
            for inner in subgraphs(each):
                inside.update(inner.inputs)
                read.update(inner.outputs)
    return read - inside


# -- scans -----------------------------------------------------------------------------------------

# Scans become Loops where the target, or any other runtime, may not run them right.


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
            given = node.inputs[index + first_state]
            assert given is not None
            with builder.before(node):
                node.replace_input_with(index + first_state, builder.cast(given, carrier))
            with builder.before(inner[0]):
                _retype(inner.inputs[index + first_state], carrier, builder)
    with builder.after(node):
        _retype(node.outputs[index], carrier, builder)


def _retype(value: oir.Value, carrier: oir.DataType, builder: GraphBuilder) -> None:
    """Gives a value the carrier's type, and its readers a cast back."""
    dtype, readers = dtype_of(value), list(value.uses())
    value.type = oir.TensorType(carrier)
    cast = builder.cast(value, dtype)
    for reader, position in readers:
        reader.replace_input_with(position, cast)
    owner = value.producer()
    if value.is_graph_output() and owner is not None and owner.graph is not None:
        outputs = owner.graph.outputs
        outputs[outputs.index(value)] = cast
        value.name, cast.name = cast.name, value.name

"""Control flow that a target does not run, or runs wrongly, by the flags of its table."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.targets.costs import Flags

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

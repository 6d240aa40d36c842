"""Loops over small tensors that say nothing of shapes, which ONNX Runtime runs faster.

Where it knows that two values are of one shape it lets them share a buffer, and keeps them until
the trip ends; after a trip of many nodes their memory takes longer to give back than some of the
nodes take to run. In the body of a Loop whose states have no shape it knows none, and lets go of
each value after its last use. Measured for a Runge-Kutta step of 46 nodes, the fluxes of a tube
(72) and of a plane (134): 0.88, 0.93 and 0.82 of the time that a Scan takes; below 40 nodes, or
where the nodes have more to do, a Scan takes less.
"""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.graph.edit import all_nodes
from hlo2onnx.graph.ops import ELEMENTWISE
from hlo2onnx.graph.values import static_shape
from hlo2onnx.targets.target import Target

LEAST_NODES = 40

MOST_ELEMENTS = 1 << 12
"""Of a value: with more, running the nodes takes longer than making their values."""

_MOVES = frozenset({"Concat", "Expand", "Gather", "Identity", "Pad", "Reshape", "Slice", "Split"})


def is_unshaped(body: oir.Graph, target: Target, least_nodes: int = LEAST_NODES) -> bool:
    """Whether the body of a Loop is one that the target runs faster without shapes."""
    return (
        target.keeps_shared_values
        and len(body) >= least_nodes
        and all(node.op_type in ELEMENTWISE | _MOVES and not node.domain for node in body)
        and all(_is_small(x) for node in body for x in node.outputs)
    )


def _is_small(x: oir.Value) -> bool:
    shape = static_shape(x)
    return shape is not None and math.prod(shape) <= MOST_ELEMENTS


def leave_out_shapes(graph: oir.Graph, target: Target) -> None:
    """Takes the shapes of states, and of what is made of them, out of such bodies.

    Rules make bodies smaller after they were left Loops, so fewer nodes do here.
    """
    for node in all_nodes(graph):
        if node.op_type != "Loop":
            continue
        body = node.attributes["body"].as_graph()
        if is_unshaped(body, target, LEAST_NODES // 2):
            outputs = set(body.outputs)
            for x in (*body.inputs[2:], *(x for one in body for x in one.outputs)):
                if x not in outputs:
                    x.shape = None

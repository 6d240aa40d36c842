"""How long a call of a model takes on one core, estimated from the costs of its target."""

from __future__ import annotations

import math
from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.ir.loop_facts import exact_trips
from hlo2onnx.ir.op_families import LOOPS, RESHAPES
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.targets.costs import Costs
from hlo2onnx.targets.work import RUNTIME_DOMAINS, elements, extents, multiplications

_ABSENT = frozenset({"Constant", "Identity"})
"""Nodes that runtimes remove."""

_VIEWS = RESHAPES | LOOPS | {"If", "Shape", "Size"}
"""No work for each element, or nodes in a body, which are counted on their own."""

_FUNCTIONS = frozenset(
    {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "Celu", "Cos",
     "Cosh", "Div", "Elu", "Erf", "Exp", "Gelu", "GroupNormalization", "InstanceNormalization",
     "LayerNormalization", "Log", "LogSoftmax", "Mish", "Mod", "Pow", "RMSNormalization",
     "ReduceLogSumExp", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax", "Softplus", "Sqrt", "Swish",
     "Tan", "Tanh"}
)  # fmt: skip
"""More than an addition for each element."""

_MOVES = frozenset(
    {"ArgMax", "ArgMin", "CumSum", "Gather", "GatherElements", "GatherND", "NonZero", "OneHot",
     "Pad", "Resize", "ScatterElements", "ScatterND", "Tile", "TopK", "Transpose", "Trilu",
     "Unique", "Where"}
)  # fmt: skip
"""Elements are chosen or moved one by one."""

_SORTS = frozenset({"DFT", "TopK"})
"""The time of an element grows with the logarithm of the extent."""


_CALL_NODES = 6
"""A call takes as long as the start of so many nodes, besides those of the model."""

_RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
"""Each step of each direction takes as long as the start of a node, besides its products."""


class Work(NamedTuple):
    """What a run of a graph does.

    Attributes:
        nodes: Nodes that run, with one trip of each loop whose trip count is unknown.
        nanoseconds: The time that they take on one core, without those of unknown size.
        has_known_trips: Whether all trip counts are known.
        has_known_sizes: Whether all sizes are known.
    """

    nodes: int = 0
    nanoseconds: float = 0
    has_known_trips: bool = True
    has_known_sizes: bool = True

    def then(self, other: Work, trips: int = 1) -> Work:
        """This work, and another one so many times."""
        return Work(
            self.nodes + other.nodes * trips,
            self.nanoseconds + other.nanoseconds * trips,
            self.has_known_trips and other.has_known_trips,
            self.has_known_sizes and other.has_known_sizes,
        )


def call_seconds(graph: oir.Graph, costs: Costs) -> float | None:
    """The time of a call on one core of the machine on which the costs were measured, within a
    factor of two for nine models of ten.

    Returns:
        Seconds; None if a trip count or a size is unknown, or the target gives no costs.
    """
    work = work_of(graph, costs)
    is_known = work.has_known_trips and work.has_known_sizes and costs.node_nanoseconds
    start = _CALL_NODES * costs.node_nanoseconds
    return (start + work.nanoseconds) * 1e-9 if is_known else None


def work_of(graph: oir.Graph, costs: Costs) -> Work:
    """The work of a graph, with all trips of its loops.

    Of branches, the nodes of the longest one count, and the mean of the times: half of a long
    branch is within a factor of two if it runs, and less wrong than all of it if it does not.
    """
    total = Work()
    for node in nodes_in(graph):
        if node.op_type in _ABSENT:
            continue
        time = _nanoseconds(node, costs)
        trips = exact_trips(node) if node.op_type in LOOPS else 1
        has_time, has_trips = time is not None, trips is not None
        total = total.then(Work(1, costs.node_nanoseconds + (time or 0), has_trips, has_time))
        if bodies := [work_of(body, costs) for body in subgraphs(node)]:
            longest = max(bodies, key=lambda each: each.nanoseconds or each.nodes)
            mean = sum(each.nanoseconds for each in bodies) / len(bodies)
            runs = longest._replace(nanoseconds=mean)
            total = total.then(runs, 1 if trips is None else trips)
    return total


def _nanoseconds(node: oir.Node, costs: Costs) -> float | None:
    """The time of what a node does for its elements; None if it, or their number, is unknown."""
    if node.domain not in RUNTIME_DOMAINS:
        return None
    if node.op_type in _VIEWS:
        return 0
    count = multiplications(node)
    if count is not None:
        time = count * costs.product_picoseconds
        if node.op_type in _RECURRENT and math.isfinite(count):
            steps = math.prod(extents(value)[0] for value in node.inputs[:2])
            time += steps * costs.node_nanoseconds * 1e3
    elif node.op_type in _FUNCTIONS:
        time = elements(node) * costs.function_picoseconds
    elif node.op_type in _MOVES:
        time = elements(node) * costs.moved_picoseconds
    else:
        time = elements(node) * costs.element_picoseconds
    if node.op_type in _SORTS:
        time *= math.log2(2 + max(extents(node.inputs[0]), default=1))
    return time * 1e-3 if math.isfinite(time) else None

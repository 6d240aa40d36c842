"""What may be slow in a model: long loops, copies in loops, ops that become many nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.loop_facts import exact_trips
from hlo2onnx.ir.op_families import LOOPS
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.lowering.context import Expansion
from hlo2onnx.report import duration
from hlo2onnx.targets.costs import Costs
from hlo2onnx.targets.estimate import Work, work_of
from hlo2onnx.targets.legalize.changes import label_of
from hlo2onnx.targets.placement import is_in_loop, placed
from hlo2onnx.targets.target import Target

_LOOP_NODES = 20_000
"""Nodes that a loop runs, over all trips, from which it is reported. They take 10 ms to start."""
_TRIP_BYTES = 1 << 28
"""Bytes that one operator copies in a loop, over all trips, from which it is reported."""
_SCATTERS = ("ScatterElements", "ScatterND", "TensorScatter")
_SHORTER = (
    "use fewer trips, or compute with whole arrays: jax.vmap instead of jax.lax.scan. Some runtimes"
    " run small loops faster: see docs/speed.md"
)


@dataclass(frozen=True)
class SlowPart:
    """A part of a program that may be slow.

    Attributes:
        what: The part: "loop", "copy in a loop", or the name of an op.
        why: What it costs.
        where: Source line and JAX scope.
        next: What the user can do about it.
        trips: Trips of the loop; None if they are not known before it runs, or there is no loop.
        nodes: Nodes that run, over all trips; in one trip if their number is not known.
    """

    what: str
    why: str
    where: str
    next: str
    trips: int | None = None
    nodes: int = 0

    def __str__(self) -> str:
        return f"{self.what}: {self.why}\n  where  {self.where}\n  next   {self.next}"


def slow_parts(model: oir.Model, target: Target, expansions: Sequence[Expansion]) -> list[SlowPart]:
    """The slow parts of a model, the slowest first.

    Args:
        target: Its costs say what is reported.
        expansions: Ops that became many nodes. Loops in them are not reported on their own.
    """
    found = [_of_expansion(each) for each in expansions]
    scopes = tuple(each.scope for each in expansions)
    for graph in each_graph(model):
        for node in graph:
            found += _loops(node, target.costs, scopes)
            found += _copies(node, 1)
    found += _elsewhere(model, target)
    unique = {(part.what, part.why, part.where): part for part in found}
    return sorted(unique.values(), key=lambda part: -part.nodes)


def _of_expansion(expansion: Expansion) -> SlowPart:
    return SlowPart(
        expansion.op,
        f"it becomes {expansion.nodes:,} nodes: {expansion.types}",
        expansion.where,
        "compute it before the model runs, or use smaller operands",
        nodes=expansion.nodes,
    )


def _elsewhere(model: oir.Model, target: Target) -> Iterator[SlowPart]:
    """The nodes that do not run on the target's device."""
    for node, where in placed(each_graph(model), target).nodes:
        why = f"{target.name} has no kernel: ONNX Runtime runs it on the CPU, and copies"
        why += f", in each trip of a loop ({where})" if is_in_loop(where) else ""
        next = "compute it in another element type; placement='strict' refuses it"
        yield SlowPart(label_of(node), why, _where(node), next, nodes=1)


# -- loops ----------------------------------------------------------------------------------------


def _loops(node: oir.Node, costs: Costs, scopes: tuple[str, ...]) -> Iterator[SlowPart]:
    """The long loops in a node, the outermost ones only."""
    if scopes and (node.name or "").startswith(scopes):
        return
    if node.op_type not in LOOPS:
        for body in subgraphs(node):
            for inner in body:
                yield from _loops(inner, costs, scopes)
        return
    (body,) = subgraphs(node)
    trips, trip = exact_trips(node), work_of(body, costs)
    total = Work().then(trip, 1 if trips is None else trips)
    is_known = trips is not None and trip.has_known_trips
    if is_known and total.nodes < _LOOP_NODES:
        return
    if trips is None:
        why = f"the count of its trips depends on data; {trip.nodes:,} nodes run in each"
    elif trip.has_known_trips:
        why = f"{trips:,} trips of {trip.nodes:,} nodes: {total.nodes:,} nodes run"
    else:
        why = f"{trips:,} trips of {trip.nodes:,} nodes and an inner loop that depends on data"
    if is_known and total.has_known_sizes and costs.node_nanoseconds:
        why += f", about {duration(total.nanoseconds * 1e-9)} on one core"
    yield SlowPart("loop", why, _where(node), _SHORTER, trips, total.nodes)


# -- copies ---------------------------------------------------------------------------------------


def _copies(node: oir.Node, trips: int) -> Iterator[SlowPart]:
    """The scatters that copy a large tensor in each trip of a loop."""
    count = exact_trips(node) if node.op_type in LOOPS else 1
    for body in subgraphs(node):
        for inner in body:
            yield from _copies(inner, trips * (1 if count is None else count))
    if trips == 1 or node.op_type not in _SCATTERS:
        return
    size = _bytes(node.outputs[0])
    if size * trips >= _TRIP_BYTES:
        yield SlowPart(
            "copy in a loop",
            f"{node.op_type} copies {size / 1e6:,.3g} MB in each of {trips:,} trips",
            _where(node),
            "collect the rows as the outputs of jax.lax.scan instead of updating an array",
            trips,
            trips,
        )


def _bytes(value: oir.Value) -> int:
    shape, dtype = value.shape, value.dtype
    if shape is None or dtype is None or not all(isinstance(dim, int) for dim in shape):
        return 0
    return math.prod(dim for dim in shape if isinstance(dim, int)) * dtype.bitwidth // 8


def _where(node: oir.Node) -> str:
    source = node.metadata_props.get("jax.source", "")
    return "  ".join(filter(None, (source, node.name)))

"""Loops of few trips and little work are unrolled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.notes import hold_trip
from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import Shape, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.counted_loop import Trips, counted, has_one_shape, release, separate

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_COPIES = frozenset({"Identity", "Gather"})
MOST_WITHOUT_LOOP = 20_000
"""Nodes of an unrolled loop for a target that runs neither Loop nor Scan."""


class LoopUnroll(Rule):
    """Loop(f) of three trips -> f(f(f(x)))

    Legal for a known trip count, not 0, without a condition, and a body without loops, branches and
    random numbers. Done for one trip, for few nodes, or if the trips are layers of a network: each
    multiplies by its own rows of constant weights. For a target without Loop and Scan, up to 20,000
    nodes are few.
    """

    name = "loop-unroll"
    formerly = ("unroll-loop",)
    anchors = frozenset({"Loop"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        body = nodes_in(trips.body)
        plain = all(is_repeatable(inner) and not subgraphs(inner) for inner in body)
        need(plain, "its body has a loop, a branch, or random numbers", node)
        size = trips.count * sum(map(_nodes, body))
        size += trips.count * len(trips.rows)
        layers = any(_has_own_matrix(trips, inner) for inner in body)
        most = b.costs.unrolled_layer_nodes if layers else b.costs.unrolled_nodes
        if b.target.flags.no_loop and b.target.flags.no_scan:
            most = max(most, MOST_WITHOUT_LOOP)
        need(trips.count == 1 or size <= most, "the unrolled loop would have too many nodes", node)
        states = trips.initial
        stacks: list[list[oir.Value]] = [[] for _ in trips.rows]
        for trip in range(trips.count):
            states, rows = _trip(b, trips, trip, states)
            for stack, row in zip(stacks, rows, strict=True):
                stack.append(b.unsqueeze(row, [0]))
        results = [*states, *(b.concat(stack, 0) for stack in stacks)]
        release(trips.body)
        return [separate(b, old, new) for old, new in zip(node.outputs, results, strict=True)]


def _nodes(node: oir.Node) -> int:
    """How many nodes a node of the body counts as."""
    if node.op_type == THREEFRY:
        return WRITTEN_NODES
    return int(node.op_type not in _COPIES)


def _has_own_matrix(trips: Trips, node: oir.Node) -> bool:
    """Whether a product takes a matrix that is constant in each trip."""
    for x in node.inputs[:2] if node.op_type in _PRODUCTS else ():
        maker = x.producer() if x is not None else None
        if maker is not None and trips.reads_row(maker) and _is_stored(maker.inputs[0]):
            return True
    return False


def _is_stored(x: oir.Value | None) -> bool:
    """Whether a value is constant, in its own type or a narrower one."""
    node = None if x is None else x.producer()
    if x is not None and node is not None and node.op_type == "Cast":
        x = node.inputs[0]
    return x is not None and x.const_value is not None


def _trip(
    b: Rewriter, trips: Trips, trip: int, states: Sequence[oir.Value]
) -> tuple[list[oir.Value], list[oir.Value]]:
    """The states after a trip, and the rows it stacks."""
    values: dict[oir.Value, oir.Value] = dict(zip(trips.states, states, strict=True))
    values[trips.number] = b.i64(trip)
    for old, new in zip(trips.states, states, strict=True):
        hold_trip(trips.number, trip, old, new)
    for node in list(trips.body):
        if trips.reads_row(node):
            values[node.outputs[0]] = _row(b, node.inputs[0], trip)
            hold_trip(trips.number, trip, node.outputs[0], values[node.outputs[0]])
            continue
        inputs = [None if x is None else values.get(x, x) for x in node.inputs]
        if node.op_type == "Identity" and inputs[0] is not None:
            values[node.outputs[0]] = inputs[0]
            continue
        types = [(dtype_of(x), _shape(b, x)) for x in node.outputs]
        b.scope, b.metadata = node.name or "", node.metadata_props
        made = b.copy_of(node, inputs, types)
        values.update(zip(node.outputs, made, strict=True))
        for old, new in zip(node.outputs, made, strict=True):
            hold_trip(trips.number, trip, old, new)
    results = [values.get(x, x) for x in (*trips.after, *trips.rows)]
    return results[: len(states)], results[len(states) :]


def _shape(b: Rewriter, value: oir.Value) -> Shape:
    """The shape of a value in any trip. Runtimes treat extents of the same name as equal."""
    dims = shape_of(value)
    if has_one_shape(b, value):
        return dims
    return tuple(dim if isinstance(dim, int) else oir.SymbolicDim(None) for dim in dims)


def _row(b: Rewriter, x: oir.Value | None, trip: int) -> oir.Value:
    """A row of a tensor; of a constant without a copy."""
    assert x is not None
    if x.const_value is not None:
        return b.derived(lambda array: np.asarray(array[trip]), x, note=f"row {trip}")
    return b.squeeze(b.slice(x, [trip], [trip + 1], axes=[0]), [0])

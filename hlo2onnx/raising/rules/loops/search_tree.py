"""Loops that search a table by halving ranges walk through a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.evaluator import (
    ELEMENTWISE,
    MAX_INDEX_ELEMENTS,
    Unknown,
    evaluate,
)
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import INTEGERS, const_of, dtype_of, present, rank_of, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.copies import copy_nodes, makers_within
from hlo2onnx.raising.match.counted_loop import Trips, counted, release, separate
from hlo2onnx.raising.match.views import RESHAPES, first

_GATHERS = frozenset({"Gather", "GatherElements"})
_COMPUTED = frozenset({*ELEMENTWISE, "BitShift", "Cast", "Mod", "Where"})
INT32 = oir.DataType.INT32
_COPIES = frozenset({*RESHAPES, "Identity"})
_NODES_PER_STATE = 8
"""Elements of a large table that may be computed for each element that a trip reads."""
_WALK_NODES = 4
"""Nodes of a step: the Gather, the double of k, the condition as a number, and their sum."""
Arrays = dict[oir.Value, np.ndarray]


class SearchTree(Rule):
    """Loop(low, high: c = f(x[(low + high) / 2]); low, high = c ? ... : ...) -> y = x[...];
    Loop(k: c = f(y[k]); k = 2 k + c); low[k], high[k]

    Legal if every state is an integer that starts from one constant in all elements, and a trip
    changes it, element by element, by constants and one condition alone. The condition depends on
    the states only by one element of a vector, whose place follows from the states. So the states
    follow from the conditions of the trips before. Their bits are k, the node of a binary tree: y
    is x in the order of the nodes, and the last states are constants for each leaf. x need not be
    sorted. Done for a known trip count, if that saves nodes in the body, and if the tree has few
    elements, or few for each element that is searched.
    """

    name = "search-tree"
    anchors = frozenset({"Loop"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        trips = counted(node)
        count = trips.count
        size = size_of(trips.states[0]) if trips.states else None
        need(size, "it has no states, or their extents are unknown", node)
        assert size is not None
        most = max(b.costs.small_elements, _NODES_PER_STATE * size)
        small = count < MAX_INDEX_ELEMENTS.bit_length() and 1 << count <= most
        need(small, "the tree would be too large", node)
        search = _search(trips, size)
        kept = _kept(search)
        before = sum(one.op_type != "Identity" for one in trips.body)
        need(len(kept) + _WALK_NODES < before, "it would save no nodes", node)
        try:
            places, ends = _tree(search, _starts(b, trips))
        except Unknown as error:
            raise Refusal(f"the states are not known: {error}", node) from error
        tree = b.Gather(first(search.gather), b.const(places.astype(np.int32)), axis=0)
        path = _walk(b, search, kept, tree)
        release(trips.body)
        found = [
            b.reshape(b.Gather(b.const(end), path, axis=0), shape_of(x))
            for end, x in zip(ends, node.outputs, strict=True)
        ]
        return [separate(b, old, new) for old, new in zip(node.outputs, found, strict=True)]


@dataclass(frozen=True)
class _Search:
    """The parts of a loop that searches a table.

    Attributes:
        gather: Takes an element of the table for each element of the states.
        condition: Depends on the taken element, and the next states depend on it.
        place: The nodes from the states to the place in the table, in order.
        update: The nodes from the states and the condition to the next states, in order.
    """

    trips: Trips
    gather: oir.Node
    condition: oir.Value
    place: list[oir.Node]
    update: list[oir.Node]


def _search(trips: Trips, size: int) -> _Search:
    """The parts of a loop with states of this many elements.

    Raises:
        Refusal: It is not a search in a table.
    """
    loop, states = trips.loop, trips.states
    integers = all(dtype_of(x) in INTEGERS and size_of(x) == size for x in states)
    need(integers and not trips.rows, "not all states are integers of one size", loop)
    gathers = [node for node in makers_within(trips.body, trips.after) if _takes(trips, node)]
    need(len(gathers) == 1, "it does not take elements of one vector", loop)
    (gather,) = gathers
    place, read = _slice(trips, size, [gather.inputs[1]], set())
    need(place, "a state is the index itself", gather)
    update, conditions = _slice(trips, size, trips.after, _readers(trips.body, gather.outputs[0]))
    need(
        len(conditions) == 1 and not read,
        "the next states do not depend on exactly one condition",
        loop,
    )
    (condition,) = conditions
    need(size_of(condition) == size, "the condition is not elementwise", loop)
    return _Search(trips, gather, condition, place, update)


def _takes(trips: Trips, node: oir.Node) -> bool:
    """Whether a node takes elements of a vector from before the loop."""
    table = node.inputs[0]
    return node.op_type in _GATHERS and trips.is_outer(table) and rank_of(first(node)) == 1


def _readers(body: oir.Graph, value: oir.Value) -> set[oir.Value]:
    """What depends on a value of the body, including itself."""
    found = {value}
    for node in body:
        if not found.isdisjoint(present(node.inputs)):
            found.update(node.outputs)
    return found


def _slice(
    trips: Trips, size: int, ends: Iterable[oir.Value | None], taken: set[oir.Value]
) -> tuple[list[oir.Node], set[oir.Value]]:
    """The nodes from the states to these values, and the conditions that they read.

    Args:
        taken: The values that depend on an element of the table.

    Raises:
        Refusal: A node does not work on each element, or reads another value of this kind.
    """
    found: set[oir.Node] = set()
    conditions: set[oir.Value] = set()
    pending = [x for x in ends if x is not None]
    while pending:
        x = pending.pop()
        known = const_of(x)
        if x in trips.states or (known is not None and known.size == 1):
            continue
        if x in taken and dtype_of(x) == oir.DataType.BOOL:
            conditions.add(x)
            continue
        node = x.producer()
        need(node is not None and node.graph is trips.body, "it reads a value of an outer graph", x)
        assert node is not None
        plain = node.op_type in _COMPUTED | _COPIES and not node.domain and size_of(x) == size
        need(plain, "a state is not computed element by element", node)
        if node not in found:
            found.add(node)
            pending += [first(node)] if node.op_type in _COPIES else present(node.inputs)
    return [node for node in trips.body if node in found], conditions


def _kept(search: _Search) -> list[oir.Node]:
    """The nodes from the taken element to the condition, in order.

    Raises:
        Refusal: They read a value that changes from trip to trip.
    """
    found: set[oir.Node] = set()
    pending = [search.condition]
    while pending:
        x = pending.pop()
        need(x not in search.trips.body.inputs, "the condition depends on a state itself", x)
        node = x.producer()
        if node is not None and node.graph is search.trips.body and node not in found:
            plain = is_repeatable(node) and not subgraphs(node)
            need(plain, "its body has a loop, a branch, or random numbers", node)
            found.add(node)
            pending += [] if node is search.gather else present(node.inputs)
    return [node for node in search.trips.body if node in found - {search.gather}]


def _starts(b: Rewriter, trips: Trips) -> list[np.ndarray]:
    """Each state at the start, as an array of one element."""
    found = [b.facts.constant(x) for x in trips.initial]
    known = [x.reshape(-1)[:1] for x in found if x is not None and (x == x.flat[0]).all()]
    need(len(known) == len(found), "a state does not start from one constant", trips.loop)
    return known


def _tree(search: _Search, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The place in the table for each node of the tree, and each state at the end of each path.

    The root has number 1, and the nodes after node k have the numbers 2 k, if the condition does
    not hold, and 2 k + 1. Number 0 is not a node.

    Raises:
        Unknown: A state or a place is not known, or the place is not in the table.
    """
    trips, index = search.trips, search.gather.inputs[1]
    rows = shape_of(first(search.gather))[0]
    places = [np.zeros(1, np.int64)]
    for trip in range(trips.count):
        known = dict(zip(trips.states, states, strict=True))
        found = _evaluated(search.place, known, index).astype(np.int64)
        found = np.broadcast_to(found, 1 << trip)
        if not isinstance(rows, int) or found.min() < -rows or found.max() >= rows:
            raise Unknown("an index may be out of range")
        places.append(found)
        known = {x: np.repeat(array, 2) for x, array in known.items()}
        known[search.condition] = np.tile([False, True], 1 << trip)
        states = [
            np.broadcast_to(_evaluated(search.update, known, x), 2 << trip) for x in trips.after
        ]
    return np.concatenate(places), states


def _evaluated(nodes: Iterable[oir.Node], known: Arrays, value: oir.Value | None) -> np.ndarray:
    """A value, computed by these nodes from known ones; of no axes if it is constant."""
    arrays = dict(known)

    def array_of(x: oir.Value) -> np.ndarray:
        array = const_of(x)
        return arrays[x] if array is None else array.reshape(())

    for node in nodes:
        if node.op_type in _COPIES:
            arrays[node.outputs[0]] = array_of(first(node))
        else:
            arrays[node.outputs[0]] = evaluate(node, [array_of(x) for x in present(node.inputs)])
    assert value is not None
    return array_of(value)


def _walk(b: Rewriter, search: _Search, kept: list[oir.Node], tree: oir.Value) -> oir.Value:
    """The number of the path that each element takes, from 0."""
    trips, gather = search.trips, search.gather
    dims, leaves = shape_of(gather.outputs[0]), 1 << trips.count
    trip, going = b.value("trip", oir.DataType.INT64, []), b.value("going", oir.DataType.BOOL, [])
    state = b.value("node", INT32, dims)
    with b.subgraph([trip, going, state], "search") as body:
        values = {gather.outputs[0]: b.like(gather, [tree, state])}
        copy_nodes(b, kept, values)
        bit = b.cast(b.reshape(values[search.condition], dims), INT32)
        body.outputs.extend([b.Identity(going), b.Add(b.Add(state, state), bit)])
    root = b.expand(b.scalar_like(1, state), dims)
    last = b.op("Loop", trips.loop.inputs[0], None, root, types=[(INT32, dims)], body=body)
    return b.Sub(last, b.scalar_like(leaves, last))

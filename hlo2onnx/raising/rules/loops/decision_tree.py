"""Loops that take one decision in each trip look up what all decisions together lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import dtype_of, present, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within, output_of
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    counted,
    has_condition,
    release,
    replace_value,
)
from hlo2onnx.raising.match.decisions import Tree, tree_of
from hlo2onnx.raising.match.nested_loops import copied
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.rewrite.large_graphs import replace_input, replace_uses
from hlo2onnx.rewrite.licm import hoist_out_of
from hlo2onnx.rewrite.replace import remove_makers

_MOST_TRIPS = 8
"""Trips of a tree, whose leaves are 2 to this power. The square of their number is stored: a limit
on the model's size."""
_FEWEST_NODES = 8
"""Nodes of a trip. Fewer take no longer than the lookup."""


class DecisionTree(Rule):
    """Loop(while p: Loop(s: c = h(s) < x, s = c ? f(s) : g(s))) ->
    t, ends = Loop(h(s), f(s), g(s) on all paths); Loop(while p: ends[leaf(t < x)])

    Legal if the states of the inner loop start from values that no trip of the outer loop changes,
    and one condition in each trip is all that they learn from it. So the conditions of the trips
    before, a path in a binary tree, say what the states are. They are computed for all paths
    before the outer loop, on tensors with a row for each leaf, by nodes that work on each row and
    do not fail on any numbers. Then the condition is computed for all inner nodes of the tree at
    once. The leaf is the one whose path agrees with it everywhere.

    Done for few trips, which have enough nodes, or for the first of twice as many, if the number of
    trips of the outer loop is not known. What the outer loop computes from the last states alone is
    computed for all leaves, too.
    """

    name = "decision-tree"
    anchors = frozenset({"Loop"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(node.graph is not b.main_graph, "it is in no loop", node)
        trips = counted(node)
        need(trips.states and not trips.rows, "it stacks values, or has no states", node)
        few = 1 < trips.count <= 2 * _MOST_TRIPS
        need(few, "it makes one trip, or the tree would have many leaves", node)
        weight = sum(map(_weight, trips.body))
        need(weight >= _FEWEST_NODES, "its trips have few nodes", node)
        loop = needed(_loop_around(node, b), "it is not in the body of a loop", node)
        need(has_condition(loop), "the number of trips of the outer loop is known", loop)
        outer = Trips(loop, 0, loop.attributes["body"].as_graph())
        if trips.count <= _MOST_TRIPS:
            return _looked_up(b, outer, tree_of(b, outer, trips))
        first = _first_trips(b, trips)
        try:
            states = _looked_up(b, outer, tree_of(b, outer, first))
        except Refusal:
            release(first.body)
            raise
        return _other_trips(b, trips, states)


def _first_trips(b: Rewriter, trips: Trips) -> Trips:
    """A copy of a loop that makes its first trips."""
    body, _ = copied(b, trips.body)
    types = [(dtype_of(x), shape_of(x)) for x in trips.states]
    made = b.node("Loop", [b.i64(_MOST_TRIPS), None, *trips.initial], {"body": body}, types)
    loop = made[0].producer()
    assert loop is not None
    return Trips(loop, _MOST_TRIPS, body)


def _other_trips(b: Rewriter, trips: Trips, states: Sequence[oir.Value]) -> list[oir.Value]:
    """The last states after the other trips, which start from these states."""
    number = b.value("trip", oir.DataType.INT64, [])
    with b.before(next(iter(trips.body))):
        replace_uses(trips.number, b.Add(number, b.i64(_MOST_TRIPS)))
    trips.body.inputs[0] = number
    types = [(dtype_of(x), shape_of(x)) for x in states]
    inputs = [b.i64(trips.count - _MOST_TRIPS), None, *states]
    return b.node("Loop", inputs, {"body": trips.body}, types)


def _loop_around(node: oir.Node, b: Rewriter) -> oir.Node | None:
    """The Loop whose body has a node."""
    loops = (one for one in all_nodes(b.main_graph) if one.op_type == "Loop")
    return next((one for one in loops if node.graph in subgraphs(one)), None)


def _weight(node: oir.Node) -> int:
    """How many nodes it becomes."""
    if node.op_type == THREEFRY and not node.domain:
        return WRITTEN_NODES
    return int(node.op_type != "Identity")


def _looked_up(b: Rewriter, outer: Trips, tree: Tree) -> list[oir.Value]:
    """The last states of the inner loop, from tables that are made before the outer one.

    Raises:
        Refusal: A node does not work on rows.
    """
    loop, graph = tree.trips.loop, outer.loop.graph
    assert isinstance(graph, oir.Graph)
    with b.before(outer.loop):
        ends, stacks = _tables(b, outer, tree)
        places = b.const(_places(tree.trips.count))
        nodes = [b.Gather(_flat(b, x), places, axis=0) for x in stacks]
    leaf = _leaf(b, tree, nodes)
    rows = _batcher(b, loop, tree.leaves, dict(zip(loop.outputs, ends, strict=True)))
    hoist_out_of(outer.loop, outer.body, graph)
    with b.before(outer.loop):
        for node in outer.body:
            known = all(x in rows.rows or outer.is_outer(x) for x in present(node.inputs))
            if known and is_speculatable(node):
                batchable(rows, node)
    for x in _ends(rows.rows):
        if x.producer() is not loop:
            replace_value(x, _row(b, x, rows.rows[x], leaf))
    release(tree.trips.body)
    return [_row(b, x, rows.rows[x], leaf) for x in loop.outputs]


def _row(b: Rewriter, x: oir.Value, rows: oir.Value, leaf: oir.Value) -> oir.Value:
    """The row of a leaf, in place of a value."""
    return b.op("Gather", rows, leaf, axis=0, types=[(dtype_of(x), shape_of(x))])


def _batcher(b: Rewriter, loop: oir.Node, count: int, rows: dict[oir.Value, oir.Value]) -> Batcher:
    """Makes values for all leaves. What is not in the rows counts as made before."""
    return Batcher(b, Trips(loop, count, oir.Graph([], [], nodes=[])), rows, is_numbered=False)


def _tables(b: Rewriter, outer: Trips, tree: Tree) -> tuple[list[oir.Value], list[oir.Value]]:
    """The last states for each leaf, and what the conditions read: for each trip a row for each
    leaf.

    Raises:
        Refusal: A node does not work on rows.
    """
    trips = tree.trips
    values = _copies_before(b, outer, tree)
    body, pairs = copied(b, trips.body)
    for node in body:
        for place, given in enumerate(node.inputs):
            if given in values:
                replace_input(node, place, values[given])
    states = [b.value(x.name or "state", dtype_of(x), tree.rows(x)) for x in trips.states]
    rows = {pairs[old]: new for old, new in zip(trips.states, states, strict=True)}
    body.inputs[2:] = states
    try:
        with b.at_end(body):
            found = _batched(b, tree, body, rows, pairs | values)
            body.outputs[1:] = []
            for x in found:
                body.outputs.append(output_of(b, body, x))
    except Refusal:
        release(body)
        raise
    remove_makers([x for node in body for x in node.outputs], within=body)
    starts = [values.get(x, x) for x in trips.initial]
    starts = [b.expand(b.unsqueeze(x, [0]), tree.rows(x)) for x in starts]
    types = [(dtype_of(x), tree.rows(x)) for x in trips.states]
    types += [(dtype_of(x), (trips.count, *tree.rows(x))) for x in tree.cut]
    made = b.node("Loop", [trips.loop.inputs[0], None, *starts], {"body": body}, types)
    return made[: len(states)], made[len(states) :]


def _copies_before(b: Rewriter, outer: Trips, tree: Tree) -> dict[oir.Value, oir.Value]:
    """Copies of the values of the outer body that no trip of it changes."""
    trips, values = tree.trips, dict[oir.Value, oir.Value]()
    read = [x for node in tree.update for x in present(node.inputs)]
    needs = [x for x in (*trips.initial, *trips.after, *read) if x in tree.fixed]
    copy_nodes(b, makers_within(outer.body, needs), values)
    return values


def _batched(
    b: Rewriter,
    tree: Tree,
    body: oir.Graph,
    rows: dict[oir.Value, oir.Value],
    copies: Mapping[oir.Value, oir.Value],
) -> list[oir.Value]:
    """The next states and what the condition reads, for all leaves, in a copy of the body."""
    update = {copies[x] for node in tree.update for x in node.outputs}
    rows[copies[tree.condition]] = _decisions(b, tree, body.inputs[0])
    batcher = _batcher(b, tree.trips.loop, tree.leaves, rows)
    for node in list(body):
        if node.outputs[0] in update and not batcher.rows.keys().isdisjoint(node.inputs):
            batcher.batch(node)
    found = [copies.get(x, x) for x in (*tree.trips.after, *tree.cut)]
    return [
        batcher.rows[x] if x in batcher.rows else b.expand(b.unsqueeze(x, [0]), tree.rows(x))
        for x in found
    ]


def _decisions(b: Rewriter, tree: Tree, trip: oir.Value) -> oir.Value:
    """What the condition of a trip is on the path to each leaf."""
    ones = [1] * len(shape_of(tree.condition))
    table = _bits(tree.trips.count).reshape(tree.trips.count, tree.leaves, *ones)
    return b.Gather(b.const(table), trip, axis=0)


def _ends(rows: Mapping[oir.Value, oir.Value]) -> list[oir.Value]:
    """The values with rows that other nodes read."""
    return [
        x
        for x in rows
        if x.is_graph_output()
        or any(y not in rows for reader in x.consumers() for y in reader.outputs)
    ]


# -- the leaf -------------------------------------------------------------------------------------


# Equal nodes need the same constants. The same array is stored once, and these are large.


@cache
def _bits(count: int) -> np.ndarray:
    """The conditions on the path to each leaf, by trip: the bits of its number."""
    bits: np.ndarray = np.arange(1 << count) >> np.arange(count - 1, -1, -1)[:, None] & 1
    return bits.astype(np.bool_)


def _paths(count: int) -> np.ndarray:
    """The inner nodes on the path to each leaf, by trip. Node 1 is the root, and the nodes after
    node k are 2 k, if the condition does not hold, and 2 k + 1."""
    trips = np.arange(count)[:, None]
    paths: np.ndarray = (1 << trips) + (np.arange(1 << count) >> (count - trips))
    return paths


@cache
def _sides(count: int) -> np.ndarray:
    """1 for an inner node and a leaf on the side where the condition holds, -1 for one on the other
    side, and 0 for others."""
    sides = np.zeros((1 << count, 1 << count), np.float32)
    for path, bits in zip(_paths(count), _bits(count), strict=True):
        sides[path, np.arange(1 << count)] = np.where(bits, 1, -1)
    return sides


@cache
def _places(count: int) -> np.ndarray:
    """Where the rows of all trips have each inner node: at any leaf below. Node 0 is none."""
    places, leaves = np.zeros(1 << count, np.int64), np.arange(1 << count)
    for trip, path in enumerate(_paths(count)):
        places[path] = (trip << count) + leaves
    return places


def _flat(b: Rewriter, x: oir.Value) -> oir.Value:
    """The rows of all trips, one after the other."""
    trips, leaves, *dims = shape_of(x)
    assert isinstance(trips, int) and isinstance(leaves, int)
    return b.reshape(x, (trips * leaves, *dims))


def _leaf(b: Rewriter, tree: Tree, nodes: Sequence[oir.Value]) -> oir.Value:
    """The number of the leaf that the conditions lead to.

    Each condition counts 1 for the leaves on its side and -1 for those on the other. One leaf alone
    has the sides of all conditions on its path.

    Raises:
        Refusal: A node does not work on rows.
    """
    rows = dict(zip(tree.cut, nodes, strict=True))
    batcher = _batcher(b, tree.trips.loop, tree.leaves, rows)
    for node in tree.kept:
        batcher.batch(node)
    holds = b.reshape(batcher.rows[tree.condition], (tree.leaves,))
    one = np.ones((1, 1), np.float32)
    side = b.Where(holds, b.const(one), b.const(-one))
    votes = b.MatMul(side, b.const(_sides(tree.trips.count)))
    return b.reshape(b.ArgMax(votes, axis=1, keepdims=0), ())

"""Loops that take one decision in each trip look up what all decisions together lead to."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.values import const_of, dtype_of, present, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within
from hlo2onnx.raising.match.counted_loop import (
    Trips,
    counted,
    has_condition,
    loop_around,
    release,
    replace_value,
)
from hlo2onnx.raising.match.decisions import Tree, tree_of
from hlo2onnx.raising.match.nested_loops import copied
from hlo2onnx.raising.vectorize.batching import batchable
from hlo2onnx.raising.vectorize.tree_levels import Dependences, Levels, row_batcher, shared
from hlo2onnx.rewrite.large_graphs import replace_input, replace_uses
from hlo2onnx.rewrite.licm import hoist_out_of

_MOST_TRIPS = 10
"""Trips of a tree, whose leaves are 2 to this power: a limit on memory."""
_MOST_AT_ONCE = 7
"""Trips that are decided at once. A matrix with the square of the number of leaves is stored and
multiplied."""
_MOST_NODES = 4096
"""Nodes of all trips, which are written level by level: a limit on the model's size."""
_FEWEST_NODES = 8
"""Nodes of a trip. Fewer take no longer than the lookup."""
_IS_ABOVE = {"Greater": True, "GreaterOrEqual": True, "Less": False, "LessOrEqual": False}
"""Whether comparisons hold where the first operand is large."""


class DecisionTree(Rule):
    """Loop(while p: Loop(s: c = h(s) < x, s = c ? f(s) : g(s))) ->
    t, ends = Loop(h(s), f(s), g(s) on all paths); Loop(while p: ends[leaf(t < x)])

    Legal if the states of the inner loop start from values that no trip of the outer loop changes,
    and one condition in each trip is all that they learn from it. So the conditions of the trips
    before, a path in a binary tree, say what the states are. They are computed for all paths
    before the outer loop, level by level, on tensors with a row for each node of a level, by nodes
    that work on each row and do not fail on any numbers. Then the condition is computed for all
    inner nodes of the tree at once. The leaf is the one whose path agrees with it everywhere. In a
    large tree, the upper half of the levels is decided first, and then the part below. Conditions
    that compare one number with constants in the order of the leaves are counted.

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
        loop = needed(loop_around(b, node), "it is not in the body of a loop", node)
        need(has_condition(loop), "the number of trips of the outer loop is known", loop)
        outer = Trips(loop, 0, loop.attributes["body"].as_graph())
        count = min(trips.count, _MOST_TRIPS)
        need(weight * count <= _MOST_NODES, "its trips have many nodes", node)
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
        ends, tables = _tables(b, outer, tree)
    leaf = _counted(b, tree, tables)
    if leaf is None:
        with b.before(outer.loop):
            parts = _parts(b, tree, tables)
        leaf = _leaf(b, tree, parts)
    rows = row_batcher(b, loop, tree.leaves)
    rows.rows.update(zip(loop.outputs, ends, strict=True))
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


def _tables(b: Rewriter, outer: Trips, tree: Tree) -> tuple[list[oir.Value], list[oir.Value]]:
    """The last states for each leaf, and what the conditions read for each inner node.

    Raises:
        Refusal: A node does not work on rows.
    """
    trips = tree.trips
    values = _copies_before(b, outer, tree)
    body, pairs = copied(b, trips.body)
    copy = Trips(trips.loop, trips.count, body)
    condition = pairs[tree.condition]
    made = {pairs[x] for node in tree.update for x in node.outputs}
    try:
        update = _changing(b, copy, condition, made, values)
        of = Dependences(copy, condition, update)
        levels = Levels(b, of, [values.get(x, x) for x in trips.initial])
        tables = [levels.table(pairs[x]) for x in tree.cut]
    finally:
        release(body)
    return levels.leaves, tables


def _copies_before(b: Rewriter, outer: Trips, tree: Tree) -> dict[oir.Value, oir.Value]:
    """Copies of the values of the outer body that no trip of it changes."""
    trips, values = tree.trips, dict[oir.Value, oir.Value]()
    read = [x for node in tree.update for x in present(node.inputs)]
    needs = [x for x in (*trips.initial, *trips.after, *read) if x in tree.fixed]
    copy_nodes(b, makers_within(outer.body, needs), values)
    return values


def _changing(
    b: Rewriter,
    trips: Trips,
    condition: oir.Value,
    made: Container[oir.Value],
    values: dict[oir.Value, oir.Value],
) -> list[oir.Node]:
    """The nodes of a body that make some values, and that change from trip to trip.

    The others are made before the outer loop. The body reads those, and other values instead of
    some.
    """
    changing, found = {*trips.body.inputs, condition}, list[oir.Node]()
    for node in trips.body:
        for place, given in enumerate(node.inputs):
            if given in values:
                replace_input(node, place, values[given])
        if node.outputs[0] in made:
            if changing.isdisjoint(node.inputs):
                copy_nodes(b, [node], values)
            else:
                found.append(node)
                changing.update(node.outputs)
    for place, x in enumerate(trips.body.outputs):
        trips.body.outputs[place] = values.get(x, x)
    return found


def _ends(rows: Mapping[oir.Value, oir.Value]) -> list[oir.Value]:
    """The values with rows that other nodes read."""
    return [
        x
        for x in rows
        if x.is_graph_output()
        or any(y not in rows for reader in x.consumers() for y in reader.outputs)
    ]


# -- the leaf -------------------------------------------------------------------------------------


@cache
def _sides(count: int) -> np.ndarray:
    """1 for an inner node and a leaf on the side where the condition holds, -1 for one on the other
    side, and 0 for others.

    Node 0 is the root. The nodes after node k are 2 k + 1, if the condition does not hold, and
    2 k + 2. Equal nodes need the same constants: the same array is stored once.
    """
    leaves, trips = np.arange(1 << count), np.arange(count)[:, None]
    paths = (1 << trips) - 1 + (leaves >> count - trips)
    sides = np.zeros((len(leaves) - 1, len(leaves)), np.float32)
    sides[paths, leaves] = np.where(leaves >> count - 1 - trips & 1, 1, -1)
    return sides


@cache
def _below(above: int, below: int) -> np.ndarray:
    """The nodes of each tree with so many trips that starts after the trips above."""
    roots, inner = np.arange(1 << above)[:, None], np.arange((1 << below) - 1) + 1
    starts = 1 << np.floor(np.log2(inner)).astype(np.int64)
    nodes: np.ndarray = (roots + (1 << above)) * starts + inner - starts - 1
    return nodes


def _halves(count: int) -> tuple[int, int]:
    """The trips that are decided at once at the root of the tree, and then below."""
    above = count if count <= _MOST_AT_ONCE else count // 2
    return above, count - above


def _parts(
    b: Rewriter, tree: Tree, tables: Sequence[oir.Value]
) -> tuple[list[oir.Value], list[oir.Value]]:
    """What the conditions read: for the inner nodes at the root, and for the nodes in each tree
    below."""
    above, below = _halves(tree.trips.count)
    if not below:
        return list(tables), []
    last, nodes = (1 << above) - 1, b.const(_below(above, below))
    roots = [b.slice(x, [0], [last], axes=[0]) for x in tables]
    return roots, [b.Gather(x, nodes, axis=0) for x in tables]


def _counted(b: Rewriter, tree: Tree, tables: Sequence[oir.Value]) -> oir.Value | None:
    """The number of the leaf where conditions compare one number with constants that are in order
    from leaf to leaf: as many as hold. None for other conditions."""
    known, (node, *others) = const_of(tables[0]), tree.kept
    if known is None or len(tables) > 1 or others or node.op_type not in _IS_ABOVE:
        return None
    if known.size != len(known) or size_of(tree.condition) != 1:
        return None
    (cut,), limits = tree.cut, known.reshape(-1)[_in_order(tree.trips.count)]
    is_left = node.inputs[0] is cut
    x = node.inputs[1] if is_left else node.inputs[0]
    rises = _IS_ABOVE[node.op_type] is not is_left
    in_order = limits[1:] >= limits[:-1] if rises else limits[1:] <= limits[:-1]
    if x is None or x is cut or not in_order.all():
        return None
    sides = [b.reshape(x, ()), b.const(shared(limits))]
    holds = b.op(node.op_type, *(sides[::-1] if is_left else sides))
    return b.ReduceSum(b.cast(holds, oir.DataType.INT64), b.i64([0]), keepdims=0)


@cache
def _in_order(count: int) -> np.ndarray:
    """The inner nodes in the order of the leaves between which they decide."""
    places = np.arange(1, 1 << count)
    below = places & -places
    nodes: np.ndarray = (1 << count - 1) // below - 1 + (places // below >> 1)
    return nodes


def _leaf(b: Rewriter, tree: Tree, parts: tuple[list[oir.Value], list[oir.Value]]) -> oir.Value:
    """The number of the leaf that the conditions lead to.

    Raises:
        Refusal: A node does not work on rows.
    """
    above, below = _halves(tree.trips.count)
    first = _reached(b, tree, above, parts[0])
    if not below:
        return first
    second = _reached(b, tree, below, [b.Gather(x, first, axis=0) for x in parts[1]])
    return b.Add(b.Mul(first, b.i64(1 << below)), second)


def _reached(b: Rewriter, tree: Tree, count: int, nodes: Sequence[oir.Value]) -> oir.Value:
    """The number of the place after some trips.

    Each condition counts 1 for the places on its side and -1 for those on the other. One place
    alone has the sides of all conditions on its path.

    Args:
        nodes: What the conditions read, for each inner node.

    Raises:
        Refusal: A node does not work on rows.
    """
    size = (1 << count) - 1
    batcher = row_batcher(b, tree.trips.loop, size)
    batcher.rows.update(zip(tree.cut, nodes, strict=True))
    for node in tree.kept:
        batcher.batch(node)
    holds = b.reshape(batcher.rows[tree.condition], (size,))
    one = np.ones((1, 1), np.float32)
    side = b.Where(holds, b.const(one), b.const(-one))
    votes = b.MatMul(side, b.const(_sides(count)))
    return b.reshape(b.ArgMax(votes, axis=1, keepdims=0), ())

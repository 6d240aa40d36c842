"""What the trips of a Loop compute by their number is computed before it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.replace import remove_makers
from hlo2onnx.ir.threefry import THREEFRY, WRITTEN_NODES
from hlo2onnx.ir.traversal import nodes_in, replace_uses, subgraphs
from hlo2onnx.ir.values import INTEGERS, const_of, dtype_of, origin, present, shape_of, size_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within
from hlo2onnx.raising.match.counted_loop import Trips, has_condition
from hlo2onnx.raising.match.threefry import is_fallback
from hlo2onnx.raising.match.trip_bounds import counts_up, most_trips
from hlo2onnx.raising.match.views import source_of
from hlo2onnx.raising.vectorize.batching import Batcher, batchable
from hlo2onnx.raising.vectorize.trip_rows import MOST_TRIPS

_FEWEST_SAVED = 8
"""Nodes that a trip must be spared, besides the reads."""
_MOST_NODES = 128
"""Nodes that may move in front of the loop: a limit on the model's size, no cost."""

_LITTLE = "little is computed by the number of the trip"


class TripTable(Rule):
    """Loop(while c: f(i, x)) -> t = f([0, ..., n - 1], x); Loop(while c: t[i])

    Legal if the loop makes at most n trips, and a value of the body depends only on the number of
    the trip, on states that count trips and on values made before the loop, by nodes that work on
    each row and do not fail on any numbers: a trip that the loop does not make is computed, too.
    `loop-vectorize` does this where the number of trips is known.

    Done if a trip is spared many nodes, as for random numbers of folded keys, and if the table
    takes no longer to compute than a row of it. A table of constants becomes a constant.
    """

    name = "trip-table"
    anchors = frozenset({"Loop"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(has_condition(node), "loop-vectorize takes it", node)
        most = needed(most_trips(node, b.facts), "it may make any number of trips", node)
        need(0 < most <= min(b.costs.small_elements, MOST_TRIPS), "it may make many trips", node)
        need(_may_pay(node), _LITTLE, node)
        for is_constant in (True, False):
            tables = _Tables(b, node, most, is_constant)
            if tables.pay():
                with tables.at_start():
                    tables.replace_by(tables.read())
                return _again(b, node)
        raise Refusal(_LITTLE, node)


def _may_pay(loop: oir.Node) -> bool:
    """Whether enough is computed by the number of the trip: a bound that takes little time."""
    trips = Trips(loop, 0, loop.attributes["body"].as_graph())
    known, total = {trips.number, *_counters(trips)}, 0
    for node in nodes_in(trips.body):
        changes = not known.isdisjoint(node.inputs)
        if changes and all(x in known or trips.is_outer(x) for x in present(node.inputs)):
            known.update(node.outputs)
            total += _weight(node)
        for graph in subgraphs(node):
            total += sum(_weight(each) for each in nodes_in(graph) if _draws(each))
    return total >= _FEWEST_SAVED


def _again(b: Rewriter, loop: oir.Node) -> Sequence[oir.Value]:
    """The Loop with its changed body."""
    body = loop.attributes["body"].as_graph()
    types = [(dtype_of(x), shape_of(x)) for x in loop.outputs]
    return b.node("Loop", loop.inputs, {"body": body}, types)


class _Tables:
    """What a body computes by the number of the trip, for all trips that the loop may make.

    Attributes:
        cut: The values of the body that are worth a table each.
    """

    def __init__(self, b: Rewriter, loop: oir.Node, count: int, is_constant: bool = False) -> None:
        self._b, self._is_constant = b, is_constant
        self._trips = trips = Trips(loop, count, loop.attributes["body"].as_graph())
        rows = _numbered(b, trips, is_constant)
        nothing = Trips(loop, count, oir.Graph([], [], nodes=[]))
        self._batcher = Batcher(b, nothing, rows, is_numbered=False)
        self._lifted: dict[oir.Value, oir.Value] = {}
        """Copies, in the body, of what branches draw."""
        for node in nodes_in(trips.body):
            if node.op_type == "If" and not is_constant and not is_fallback(node):
                for branch in subgraphs(node):
                    self._lift(node, branch)
            self._batch(node)
        self.cut = self._worth_reading(self._ends())

    def pay(self) -> bool:
        """Whether a trip is spared more nodes than it needs to read the tables."""
        made = makers_within(self._trips.body, self.cut)
        stay = self._staying(self.cut)
        saved = sum(_weight(node) for node in made if node not in stay)
        return len(made) <= _MOST_NODES and saved >= len(self.cut) + _FEWEST_SAVED

    def at_start(self) -> AbstractContextManager[None]:
        """Within the block nodes go to the start of the body."""
        return self._b.before(next(iter(self._trips.body)))

    def read(self) -> list[oir.Value]:
        """The rows of this trip."""
        rows, types = self._batcher.rows, [[(dtype_of(x), shape_of(x))] for x in self.cut]
        return [
            self._b.op("Gather", rows[x], self._trips.number, axis=0, types=each)
            for x, each in zip(self.cut, types, strict=True)
        ]

    def replace_by(self, values: Sequence[oir.Value]) -> None:
        """Makes the body read these values in place of those it computes."""
        lifted = [old for old, new in self._lifted.items() if new in self._batcher.rows]
        for old in lifted:
            maker, new = old.producer(), self._lifted[old]
            if old.is_graph_output() and maker is not None and isinstance(maker.graph, oir.Graph):
                with self._b.before(next(iter(maker.graph))):  # other nodes of it read it, too
                    new = self._b.Identity(new)
            replace_uses(old, new)
        remove_makers(lifted)
        for old, new in zip(self.cut, values, strict=True):
            replace_uses(old, new)
        remove_makers(self.cut, within=self._trips.body)

    # -- what is known by the number of the trip --------------------------------------------------

    def _batch(self, node: oir.Node) -> None:
        """Adds the results of a node to the rows, if they can be computed for all trips."""
        rows = self._batcher.rows
        if rows.keys().isdisjoint(node.inputs):  # as of most nodes
            return
        known = all(x in rows or self._is_given(x) for x in present(node.inputs))
        if known and self._is_cheap(node) and self._is_safe(node):
            batchable(self._batcher, node)

    def _is_given(self, x: oir.Value) -> bool:
        """Whether a value was made before the loop."""
        return const_of(x) is not None if self._is_constant else self._trips.is_outer(x)

    def _is_cheap(self, node: oir.Node) -> bool:
        """Whether a table of its results takes no longer to compute than a row."""
        costs = self._b.costs
        most = costs.threefry_written_elements if _draws(node) else costs.small_elements
        sizes = [size_of(x) for x in node.outputs]
        return all(size is not None and size * self._trips.count <= most for size in sizes)

    def _is_safe(self, node: oir.Node) -> bool:
        """Whether a node may run for trips that the loop does not make."""
        if is_speculatable(node):
            return True
        if not self._trips.reads_row(node) or node.inputs[0] is None:
            return False
        extent = shape_of(node.inputs[0])[0]
        return isinstance(extent, int) and extent >= self._trips.count

    def _lift(self, branching: oir.Node, branch: oir.Graph) -> None:
        """Copies what a branch draws by the number of the trip in front of the branch."""
        rows, own = self._batcher.rows, set[oir.Value]()
        fit: list[oir.Node] = []
        for node in branch:
            known = all(
                x in own or x in rows or (_is_around(x, branch) and self._is_given(x))
                for x in present(node.inputs)
            )
            if known and is_speculatable(node):
                fit.append(node)
                own.update(node.outputs)
        drawn = {x for node in fit if _draws(node) for x in node.outputs}
        for node in fit:
            if not drawn.isdisjoint(node.inputs):
                drawn.update(node.outputs)
        chosen = set(makers_within(branch, drawn))
        for node in fit:
            if node in chosen:
                self._copy(node, branching)

    def _copy(self, node: oir.Node, branching: oir.Node) -> None:
        """Copies a node of a branch in front of it, or of the loop if no trip changes it."""
        b = self._b
        inputs = [self._lifted.get(x, x) for x in present(node.inputs)]
        if all(map(self._is_given, inputs)):
            copy_nodes(b, [node], self._lifted)
            return
        with b.before(branching):
            copy_nodes(b, [node], self._lifted)
            copy = b.made[-1]
        self._batch(copy)

    # -- what is worth a table --------------------------------------------------------------------

    def _ends(self) -> set[oir.Value]:
        """The values in the tables that other nodes of the body read."""
        rows, body = self._batcher.rows, self._trips.body
        found = {x for x in _made_in(body) if x in rows and self._is_read(x)}
        return found | {x for old, x in self._lifted.items() if x in rows and self._is_read(old)}

    def _is_read(self, x: oir.Value) -> bool:
        known = (self._batcher.rows, self._lifted)
        return x.is_graph_output() or any(
            not any(y in each for each in known) for reader in x.consumers() for y in reader.outputs
        )

    def _worth_reading(self, ends: set[oir.Value]) -> list[oir.Value]:
        """The values that take more nodes to compute than to read."""
        body, whole = self._trips.body, dict[oir.Value, oir.Value]()
        for x in ends:
            joined = source_of(x, "Split")
            if joined is not None and joined in self._batcher.rows:
                whole[x] = joined
        parts = list(whole.values())
        ends = {whole[x] if x in whole and parts.count(whole[x]) > 1 else x for x in ends}
        self._all = ends
        kept = set(ends)
        while True:
            stay = self._staying(kept)
            short = {
                x
                for x in kept
                if sum(_weight(n) for n in makers_within(body, [x]) if n not in stay) < 2
            }
            if not short:
                return [x for x in _made_in(body) if x in kept]
            kept -= short

    def _staying(self, cut: Collection[oir.Value]) -> set[oir.Node]:
        """The nodes that the body needs even if it reads these values from tables."""
        return set(makers_within(self._trips.body, [x for x in self._all if x not in cut]))


def _made_in(body: oir.Graph) -> Iterator[oir.Value]:
    return (x for node in nodes_in(body) for x in node.outputs)


def _draws(node: oir.Node) -> bool:
    return node.op_type == THREEFRY and not node.domain


def _weight(node: oir.Node) -> int:
    """How many nodes it becomes."""
    return WRITTEN_NODES if _draws(node) else 1


def _is_around(x: oir.Value, branch: oir.Graph) -> bool:
    """Whether a value is made outside of a branch."""
    producer = x.producer()
    return producer is None or producer.graph is not branch


def _counters(trips: Trips) -> dict[oir.Value, oir.Value]:
    """The states that count trips, with their first values. Floats would round in each trip."""
    states = zip(trips.states, trips.after, trips.initial, strict=True)
    return {
        state: start
        for state, after, start in states
        if dtype_of(state) in INTEGERS
        and dtype_of(state).bitwidth >= 8
        and shape_of(state) == ()
        and counts_up(state, origin(after))
    }


def _numbered(b: Rewriter, trips: Trips, is_constant: bool) -> dict[oir.Value, oir.Value]:
    """The number of the trip and the states that count trips, in each trip."""
    numbers = np.arange(trips.count)
    rows = {trips.number: b.i64(numbers.tolist())}
    for state, start in _counters(trips).items():
        if const_of(start) is not None or not is_constant:
            rows[state] = b.Add(start, b.const(numbers.astype(dtype_of(state).numpy())))
    return rows

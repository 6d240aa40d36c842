"""Values of a loop's body at all nodes of a binary tree, where a trip decides between two branches.

A value that does not depend on the decision has a row for each node of a level. Another one has a
row for each edge, first where the condition does not hold and then where it does. The levels follow
one another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.evaluator import OPERATORS, Unknown, evaluate
from hlo2onnx.ir.values import const_of, present, shape_of
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.match.counted_loop import Trips
from hlo2onnx.raising.vectorize.batching import Batcher

_MOST_BYTES = 1 << 16
"""Larger constants are computed at run time: a limit on the model's size."""
Read = Callable[[oir.Value], oir.Value]


def row_batcher(b: Rewriter, loop: oir.Node, count: int) -> Batcher:
    """Makes values with this many rows. What is not in the rows counts as made before."""
    return Batcher(b, Trips(loop, count, oir.Graph([], [], nodes=[])), {}, is_numbered=False)


class Dependences:
    """What the values of a body depend on.

    Args:
        update: The nodes of the body from the states and the condition to the next states and to
            other values, in order. All of them depend on states, the condition or the trip.

    Attributes:
        reads: The states that a value follows from, in the same trip and not by the condition.
        decided: The values that follow from the condition.
    """

    def __init__(self, trips: Trips, condition: oir.Value, update: Sequence[oir.Node]) -> None:
        self.trips, self.condition, self.update = trips, condition, update
        self.after = dict(zip(trips.states, trips.after, strict=True))
        self.decided = {condition}
        self.reads = {
            x: frozenset({x} & self.after.keys()) for x in (*trips.body.inputs, condition)
        }
        for node in update:
            given = [x for x in present(node.inputs) if x in self.reads]
            reads = frozenset[oir.Value]().union(*(self.reads[x] for x in given))
            self.reads.update(dict.fromkeys(node.outputs, reads))
            if not self.decided.isdisjoint(given):
                self.decided.update(node.outputs)

    def groups(self) -> list[list[oir.Value]]:
        """The states that depend on one another. A group follows those that it depends on."""
        reach = {x: {x, *self.reads.get(after, ())} for x, after in self.after.items()}
        for _ in reach:
            for found in reach.values():
                found.update(*[reach[x] for x in found])
        groups: dict[frozenset[oir.Value], list[oir.Value]] = {}
        for x in sorted(reach, key=lambda x: len(reach[x])):
            groups.setdefault(frozenset(reach[x]), []).append(x)
        return list(groups.values())

    def between(self, group: Sequence[oir.Value]) -> list[oir.Node]:
        """The nodes from a group of states to the same states after the trip, in order."""
        needed = {self.after[x] for x in group}
        found = []
        for node in reversed(self.update):
            reads = self.reads[node.outputs[0]]
            if not (needed.isdisjoint(node.outputs) or reads.isdisjoint(group)):
                found.append(node)
                needed.update(present(node.inputs))
        return found[::-1]


class Levels:
    """The states, and what follows from them, at all nodes of the tree.

    Only nodes from a state to the same state after the trip are computed level by level. Those
    between one state and another are computed for all levels at once.

    Raises:
        Refusal: A node does not work on rows.
    """

    def __init__(self, b: Rewriter, of: Dependences, starts: Sequence[oir.Value]) -> None:
        self._b, self._of, self._count = b, of, of.trips.count
        self._whole = {of.trips.number: b.const(_numbers(self._count))}
        self._parts: dict[oir.Value, list[oir.Value]] = {}
        for x, start in zip(of.trips.states, starts, strict=True):
            self._parts[x] = [b.unsqueeze(start, [0])]
        self._complete()
        for group in of.groups():
            self._grow(group)
            self._complete()

    @property
    def leaves(self) -> list[oir.Value]:
        """The states after the last trip, with a row for each leaf."""
        return [self._parts[x][-1] for x in self._of.trips.states]

    def table(self, x: oir.Value) -> oir.Value:
        """The rows of a value at all nodes, or edges, of all levels."""
        if x not in self._whole:
            whole = self._b.Concat(*self._parts[x][: self._count], axis=0)
            self._whole[x] = folded(self._b, whole)
        return self._whole[x]

    def _part(self, level: int, x: oir.Value) -> oir.Value:
        """The rows of a value in a level."""
        if x not in self._parts:
            width = 1 + (x in self._of.decided)
            ends = [width * ((1 << k) - 1) for k in range(self._count + 1)]
            cut = partial(self._b.slice, self._whole[x], axes=[0])
            parts = (cut([low], [high]) for low, high in pairwise(ends))
            self._parts[x] = [folded(self._b, part) for part in parts]
        return self._parts[x][level]

    def _grow(self, group: Sequence[oir.Value]) -> None:
        """Makes a group of states, and the nodes between them, level by level."""
        nodes = self._of.between(group)
        for level in range(self._count):
            rows = _Rows(self._b, self._of, 1 << level, partial(self._part, level))
            for node in nodes:
                rows.batch(node)
                for x in node.outputs:
                    self._parts.setdefault(x, []).append(rows.at(x))
            after = [rows.at_edges(self._of.after[x]) for x in group]
            for x, value in zip(group, after, strict=True):
                self._parts[x].append(value)

    def _complete(self) -> None:
        """Makes the values that follow from those that are made, for all levels at once."""
        rows = _Rows(self._b, self._of, (1 << self._count) - 1, self.table)
        for node in self._of.update:
            if not self._is_made(node.outputs[0]) and all(map(self._is_made, present(node.inputs))):
                rows.batch(node)
                for x in node.outputs:
                    self._whole[x] = rows.at(x)

    def _is_made(self, x: oir.Value) -> bool:
        if x not in self._of.reads or x is self._of.condition or x in self._whole:
            return True
        return len(self._parts.get(x, ())) >= self._count


class _Rows:
    """Rows of values at some nodes of the tree, or at both edges below each of them.

    Args:
        given: The rows of a value that is made before.
    """

    def __init__(self, b: Rewriter, of: Dependences, count: int, given: Read) -> None:
        self._b, self._of, self._count, self._given = b, of, count, given
        loop, condition = of.trips.loop, of.condition
        self._nodes, self._edges = row_batcher(b, loop, count), row_batcher(b, loop, 2 * count)
        self._edges.rows[condition] = b.const(_sides(count, len(shape_of(condition))))

    def batch(self, node: oir.Node) -> None:
        """Makes the results of a node.

        Raises:
            Refusal: It does not work on rows.
        """
        is_decided = node.outputs[0] in self._of.decided
        if self._is_choice(node):
            no, yes = (self._whole(x) for x in node.inputs[:0:-1])
            pairs = self._b.Concat(no, yes, axis=1)
            dims = (2 * self._count, *shape_of(node.outputs[0]))
            self._edges.rows[node.outputs[0]] = self._b.reshape(pairs, dims)
            return
        for x in present(node.inputs):
            if x in self._of.reads:
                (self.at_edges if is_decided else self.at)(x)
        batcher = self._edges if is_decided else self._nodes
        batcher.batch(node)
        for x in node.outputs:
            batcher.rows[x] = folded(self._b, batcher.rows[x])

    def _is_choice(self, node: oir.Node) -> bool:
        """Whether a Where takes one of two values of a tensor's shape, by the condition alone."""
        if node.op_type != "Where" or node.inputs[0] is not self._of.condition:
            return False
        dims = shape_of(node.outputs[0])
        given = present(node.inputs[1:])
        alike = all(shape_of(x) == dims and x not in self._of.decided for x in given)
        return bool(dims) and alike and any(x in self._of.reads for x in given)

    def _whole(self, x: oir.Value | None) -> oir.Value:
        """A row for each node."""
        assert x is not None
        if x in self._of.reads:
            return self.at(x)
        return self._b.expand(self._b.unsqueeze(x, [0]), (self._count, *shape_of(x)))

    def at(self, x: oir.Value) -> oir.Value:
        """The rows of a value."""
        rows = (self._edges if x in self._of.decided else self._nodes).rows
        if x not in rows:
            rows[x] = self._given(x)
        return rows[x]

    def at_edges(self, x: oir.Value) -> oir.Value:
        """A row for each edge. Both edges below a node have the rows of the node."""
        if x not in self._of.reads:  # the same in all trips
            return self._b.expand(self._b.unsqueeze(x, [0]), (2 * self._count, *shape_of(x)))
        if x not in self._edges.rows:
            value = self.at(x)
            if x not in self._of.decided:
                value = self._b.Gather(value, self._b.const(_twice(self._count)), axis=0)
                value = folded(self._b, value)
            self._edges.rows[x] = value
        return self._edges.rows[x]


# -- constants ------------------------------------------------------------------------------------

# Equal nodes need the same constants. The same array is stored once, and these may be large.


def folded(b: Rewriter, value: oir.Value) -> oir.Value:
    """The constant that a value is, or the value. Equal constants are one array."""
    array = _known(value)
    if array is None or const_of(value) is not None or array.nbytes > _MOST_BYTES:
        return value
    return b.const(shared(array))


def _known(value: oir.Value, depth: int = 8) -> np.ndarray | None:
    """The content of a constant, or of what a few nodes compute from constants."""
    node = value.producer()
    if node is None:
        return const_of(value)
    if node.op_type not in OPERATORS or len(node.outputs) > 1 or not depth:
        return None
    arrays = []
    for x in node.inputs:
        array = None if x is None else _known(x, depth - 1)
        if array is None:
            return None
        arrays.append(array)
    try:
        return evaluate(node, arrays)
    except Unknown:
        return None


def shared(array: np.ndarray) -> np.ndarray:
    """The first array with this content."""
    return _shared(array.dtype, array.shape, array.tobytes())


@lru_cache(64)
def _shared(dtype: np.dtype, shape: tuple[int, ...], content: bytes) -> np.ndarray:
    """One array for each content."""
    return np.frombuffer(content, dtype).reshape(shape)


@cache
def _numbers(count: int) -> np.ndarray:
    """The level of each node."""
    return np.repeat(np.arange(count), 1 << np.arange(count))


@cache
def _sides(count: int, rank: int) -> np.ndarray:
    """The condition for each edge."""
    return np.tile([False, True], count).reshape(-1, *[1] * rank)


@cache
def _twice(count: int) -> np.ndarray:
    """The node above each edge."""
    return np.repeat(np.arange(count), 2)

"""Elements of small tensors that several nodes move."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.traversal import is_read, replace_uses
from hlo2onnx.ir.values import dtype_of, rank_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.moves import (
    SMALL_MOVES,
    Places,
    group_of,
    is_small_move,
    places_of,
    private_group_of,
)

_MOST_ELEMENTS = 256
"""Elements that one node may move: of more, a Gather takes longer than the nodes it replaces."""


class MovesToGather(Rule):
    """Split(Reshape(Concat(x, y))) -> Gather(Concat(x, y), i), in the body of a loop or a branch

    Legal if the elements go to places that are known: through Concat, Expand, Gather, Reshape,
    Slice, Split, Squeeze, Transpose and Unsqueeze with constants. All connected nodes of the kind
    are replaced, or those that lead to one of them and to nothing else. What is taken from one
    tensor is one Gather, a Split or a Reshape, and that from several is gathered from their Concat.
    Done for small tensors, if fewer nodes remain. Random keys, which are pairs of words, are
    stacked, split and stacked again.
    """

    name = "moves-to-gather"
    anchors = SMALL_MOVES
    # Other rules look for single moves.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        need(node.graph is not b.main_graph, "it is not in a loop or branch", node)
        most = min(_MOST_ELEMENTS, b.costs.joined_elements_per_node)
        need(is_small_move(node, most), "it moves many elements, or the places are unknown", node)
        readers = [reader for x in node.outputs for reader in x.consumers()]
        is_last = not any(x.graph is node.graph and is_small_move(x, most) for x in readers)
        dtype = dtype_of(node.outputs[0])
        moves = all(b.supports(op_type, dtype) for op_type in ("Concat", "Gather", "Split"))
        need(moves, "the target cannot gather these numbers", node)
        graph = node.graph
        assert isinstance(graph, oir.Graph)
        private = private_group_of(node, most)
        connected = _connected(b, node, most) if is_last else []
        if connected and connected[-1] is node and (made := _gathered(b, connected)):
            return made
        if len(private) > 1 and private != set(connected):  # its last node is this one
            group = [each for each in b.nodes_of(graph) if each in private]
            if made := _gathered(b, group):
                return made
        raise Refusal("it would save no nodes", node)


def _connected(b: Rewriter, node: oir.Node, most: float) -> list[oir.Node]:
    """The moves connected with a node, in order; none if there are too many, or only this one."""
    key = (MovesToGather.name, node)
    if key not in b.kept:
        group, graph = group_of(node, most), node.graph
        assert isinstance(graph, oir.Graph)
        nodes = [each for each in b.nodes_of(graph) if each in group] if len(group) > 1 else []
        b.kept.update(((MovesToGather.name, each), nodes) for each in group or {node})
    found: list[oir.Node] = b.kept[key]
    return found


def _gathered(b: Rewriter, group: Sequence[oir.Node]) -> list[oir.Value]:
    """Replaces all of a group but its last node; returns the values that replace its outputs.

    Returns:
        Nothing if that saves no nodes, or nobody reads one of them.
    """
    if not all(map(is_read, group)):
        return []
    ends = {x: node for node in group for x in node.outputs if _is_end(x, group)}
    if any(x.is_graph_output() and len(node.outputs) > 1 for x, node in ends.items()):
        return []
    first, taken = len(b.made), _Taken(b, places_of(group))
    if taken.fewest(ends) >= len(group):
        return []
    new: dict[oir.Value, oir.Value] = {}
    for x, node in ends.items():
        if x not in new:
            with b.before(node):
                new.update(taken.together(x, ends))
        if len(b.made) - first >= len(group):
            return []
    if not all(can_replace(x, y) for x, y in new.items()):
        return []
    *others, last = group
    for node in others:
        if all(x in new for x in node.outputs):
            replace(node, [new[x] for x in node.outputs])
        else:
            for x in ends.keys() & set(node.outputs):
                replace_uses(x, new[x])
    return [new.get(x, x) for x in last.outputs]


def _is_end(x: oir.Value, group: Collection[oir.Node]) -> bool:
    """Whether other nodes than those of a group read a value."""
    return x.is_graph_output() or any(reader not in group for reader in x.consumers())


class _Taken:
    """Makes values from the sources of a group."""

    def __init__(self, b: Rewriter, places: Places) -> None:
        self._b, self._places = b, places
        self._flat: dict[tuple[oir.Value, ...], oir.Value] = {}

    def fewest(self, ends: Collection[oir.Value]) -> int:
        """The least nodes that make these values. Vectors may be parts of one Split."""
        count, wholes, of = 0, set(), self._places.of
        for x in ends:
            numbers, sources = of[x], self._sources(x)
            if len(sources) > 1:
                wholes.add(sources)
            is_row = (np.diff(numbers.reshape(-1)) == 1).all()
            count += not (is_row and (numbers.ndim == 1 or numbers.shape == of[sources[0]].shape))
        return count + len(wholes | {x for row in wholes for x in row if of[x].ndim != 1})

    def together(self, x: oir.Value, ends: Collection[oir.Value]) -> dict[oir.Value, oir.Value]:
        """A value, and others that are parts of the same tensor."""
        sources, numbers = self._sources(x), self._places.of[x]
        if len(sources) == 1 and (parts := self._parts(sources[0], ends)) and x in parts:
            made = self._b.outputs(
                "Split",
                self._whole(sources),
                self._b.i64([(static_shape(part) or ())[0] for part in parts]),
                axis=0,
                n_outputs=len(parts),
            )
            return dict(zip(parts, made, strict=True))
        return {x: self._one(sources, numbers)}

    def _sources(self, x: oir.Value) -> tuple[oir.Value, ...]:
        starts = list(self._places.starts.values())
        used = np.searchsorted(starts, self._places.of[x].reshape(-1), "right") - 1
        return tuple(self._places.sources[k] for k in dict.fromkeys(used.tolist()))

    def _parts(self, source: oir.Value, ends: Collection[oir.Value]) -> list[oir.Value]:
        """Vectors that are the source, one after the other; none if something is left out."""
        start, size = self._places.starts[source], product(static_shape(source) or ())
        parts = {
            int(numbers[0]): x
            for x in ends
            if (numbers := self._places.of[x]).ndim == 1
            and start <= numbers[0] < start + size
            and np.array_equal(numbers, np.arange(numbers[0], numbers[0] + len(numbers)))
        }
        place, row = start, list[oir.Value]()
        while place in parts:
            row.append(parts[place])
            place += len(self._places.of[parts[place]])
        return row if place == start + size and len(row) > 1 else []

    def _whole(self, sources: tuple[oir.Value, ...]) -> oir.Value:
        """The elements of the sources as one vector."""
        if sources not in self._flat:
            if len(sources) == 1:
                self._flat[sources] = self._b.reshape(
                    sources[0], [self._places.of[sources[0]].size]
                )
            else:
                parts = [self._whole((source,)) for source in sources]
                self._flat[sources] = self._b.concat(parts, 0)
        return self._flat[sources]

    def _one(self, sources: tuple[oir.Value, ...], numbers: np.ndarray) -> oir.Value:
        if len(sources) == 1:
            source = self._places.of[sources[0]]
            if np.array_equal(source.reshape(-1), numbers.reshape(-1)):
                return self._b.reshape(sources[0], numbers.shape)
            for axis in range(rank_of(sources[0])):
                index = _index(source, numbers, axis)
                if index is not None:
                    return self._gather(sources[0], index, axis)
        order = np.concatenate([self._places.of[source].reshape(-1) for source in sources])
        whole = self._whole(sources)
        if np.array_equal(order, numbers.reshape(-1)):
            return self._b.reshape(whole, numbers.shape)
        position = np.zeros(order.max() + 1, np.int64)
        position[order] = np.arange(len(order))
        return self._gather(whole, position[numbers], 0)

    def _gather(self, x: oir.Value, index: np.ndarray, axis: int) -> oir.Value:
        made: oir.Value = self._b.Gather(x, self._b.const(index), axis=axis)
        return made


def _index(source: np.ndarray, numbers: np.ndarray, axis: int) -> np.ndarray | None:
    """The index that takes numbers along an axis; None if there is none."""
    after = source.ndim - axis - 1
    middle = numbers.ndim - after
    dims = (numbers.shape[:axis], numbers.shape[middle:])
    if middle < axis or dims != (source.shape[:axis], source.shape[axis + 1 :]):
        return None
    row = source[(0,) * axis + (slice(None),) + (0,) * after]
    wanted = numbers[(0,) * axis + (...,) + (0,) * after]
    places = {number: place for place, number in enumerate(row.tolist())}
    if not places.keys() >= set(wanted.reshape(-1).tolist()):
        return None
    index = np.array([places[n] for n in wanted.reshape(-1).tolist()], np.int64)
    index = index.reshape(wanted.shape)
    return index if np.array_equal(np.take(source, index, axis), numbers) else None

"""Which nodes a rule may take that it refused before: those near a change of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.rewrite.large_graphs import use_count

HOPS = 2
"""How far from a change a node is near. Rules that look farther find their nodes in the last visit,
which is everywhere."""

FEW_READERS = 16
"""With more readers, a value does not make these near each other."""


class Changes:
    """When the nodes of a graph changed.

    Attributes:
        time: Count of the updates.
        shared: The time at which no nodes could be shared or hoisted; -1 if there is none yet.
    """

    def __init__(self, graph: oir.Graph) -> None:
        self._graph = graph
        self._known: dict[oir.Node, tuple[object, int]] = {}
        """The state of each node and the time since when it has it, in the order of the graph."""
        self._owners: dict[oir.Graph, oir.Node] = {}
        self.time = 0
        self.shared = -1
        self.update()

    def update(self) -> None:
        """Finds the nodes that have changed since the last update."""
        self.time += 1
        before, self._known, self._owners = self._known, {}, {}
        for node in all_nodes(self._graph):
            bodies = subgraphs(node) if node.attributes.data else ()
            state, known = _state(node, bodies), before.get(node)
            if known is None or known[0] != state:
                known = (state, self.time)
            self._known[node] = known
            for graph in bodies:
                self._owners[graph] = node

    def near(self, time: int) -> list[oir.Node]:
        """The nodes near those that have changed after this time, in the order of the graph.

        After 0, all nodes have changed.
        """
        if time == self.time:
            return []
        changed = [node for node, (_, since) in self._known.items() if since > time]
        if len(changed) == len(self._known):
            return changed
        near = _around(changed, self._owners)
        return [node for node in self._known if node in near]


def _state(node: oir.Node, bodies: Sequence[oir.Graph]) -> object:
    """What rules ask of a node itself: its operands, its readers, and what its bodies return."""
    outputs = node.outputs
    readers = use_count(outputs[0]) if len(outputs) == 1 else tuple(map(use_count, outputs))
    if not node.attributes.data:
        return (node.inputs, readers)
    return (node.inputs, readers, node.graph, [tuple(graph.outputs) for graph in bodies])


def _around(changed: Iterable[oir.Node], owners: Mapping[oir.Graph, oir.Node]) -> set[oir.Node]:
    """The nodes within `HOPS` of these, in both directions and through bodies of loops."""
    found = set(changed)
    frontier = list(found)
    for _ in range(HOPS):
        following = {other for node in frontier for other in _neighbours(node, owners)}
        frontier = [node for node in following if node not in found]
        found.update(frontier)
    return found


def _neighbours(node: oir.Node, owners: Mapping[oir.Graph, oir.Node]) -> Iterator[oir.Node]:
    for value in node.inputs:
        maker = None if value is None else value.producer()
        if maker is not None:
            yield maker
    read = [*node.outputs, *(value for graph in subgraphs(node) for value in graph.inputs)]
    for value in read:
        if use_count(value) <= FEW_READERS:
            yield from value.consumers()
    if isinstance(node.graph, oir.Graph) and node.graph in owners:
        yield owners[node.graph]

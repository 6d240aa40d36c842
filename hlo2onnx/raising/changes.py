"""Which nodes a rule may take that it refused before: those near a change of the graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, subgraphs

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
        self._states: dict[oir.Node, Hashable] = {}
        self._changed: dict[oir.Node, int] = {}
        self._owners: Mapping[oir.Graph, oir.Node] = {}
        self.time = 0
        self.shared = -1
        self.update()

    def update(self) -> None:
        """Finds the nodes that have changed since the last update."""
        self.time += 1
        states = {node: _state(node) for node in all_nodes(self._graph)}
        self._changed = {
            node: self._changed[node] if state == self._states.get(node) else self.time
            for node, state in states.items()
        }
        self._states = states
        self._owners = {graph: node for node in states for graph in subgraphs(node)}

    def near(self, time: int) -> list[oir.Node]:
        """The nodes near those that have changed after this time, in the order of the graph.

        After 0, all nodes have changed.
        """
        if time == self.time:
            return []
        changed = [node for node, changed in self._changed.items() if changed > time]
        if len(changed) == len(self._changed):
            return changed
        near = _around(changed, self._owners)
        return [node for node in self._changed if node in near]


def _state(node: oir.Node) -> Hashable:
    """What rules ask of a node itself: its operands, its readers, and what its bodies return."""
    readers = tuple([len(output.uses()) for output in node.outputs])
    if not node.attributes.data:
        return (node.inputs, readers)
    bodies = tuple([tuple(graph.outputs) for graph in subgraphs(node)])
    return (node.inputs, readers, node.graph, bodies)


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
        if len(value.uses()) <= FEW_READERS:
            yield from value.consumers()
    if isinstance(node.graph, oir.Graph) and node.graph in owners:
        yield owners[node.graph]

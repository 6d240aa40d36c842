"""What has changed in a graph since it was last looked at.

Rules may take a node that they refused before if something near it has changed. Likewise nodes can
be removed only where something has changed. So a few changes in a large graph cost little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.ir.code_motion import eliminate_common_subexpressions, hoist_invariants
from hlo2onnx.ir.replace import live_outputs, remove_unread_initializers, remove_unused
from hlo2onnx.ir.traversal import all_nodes, is_read, nodes_in, subgraphs, use_count

HOPS = 1
"""Nodes within this distance of a change are near it. Rules that look farther find their nodes in
the last visit, which covers all nodes."""

FEW_READERS = 16
"""A value with more readers does not make them near each other."""


_State = tuple[object, object, object, object]
"""What rules ask of a node itself: its operands, its readers, its graph (if it has attributes), and
what its bodies return."""


class _Snapshot(NamedTuple):
    """The nodes of a graph at one time, and how they differ from those of the time before.

    Attributes:
        states: What rules ask of each node itself, and its graph, in the order of the graph.
        owners: The node of each body.
        outputs: What the graph returns.
        changed: The nodes that are new or have another state.
        has_unread: Whether these differences left a node without readers.
    """

    states: Mapping[oir.Node, _State]
    owners: Mapping[oir.Graph, oir.Node]
    outputs: Sequence[oir.Value]
    changed: Sequence[oir.Node] = ()
    has_unread: bool = False


class Changes:
    """When the nodes of a graph changed.

    Attributes:
        time: Count of the updates.
    """

    def __init__(self, graph: oir.Graph) -> None:
        self._graph = graph
        self._now = _Snapshot({}, {}, ())
        self._history: list[_Snapshot] = []
        """The differences at each update."""
        self._searched = 0
        """The time at which no nodes could be hoisted or merged."""
        self.time = 0
        self.update()

    def update(self) -> None:
        """Finds the nodes that have changed since the last update."""
        self._keep(_snapshot(self._graph, self._now))

    def tidy(self) -> None:
        """Removes what nobody reads, and finds the nodes that have changed since the last update.

        Rules remove most of it themselves. So all nodes are searched only if there is something.
        """
        found = _snapshot(self._graph, self._now)
        loops = _around(found.changed, found.owners)
        if found.has_unread or any(map(_has_dead_outputs, loops)):
            remove_unused(self._graph)
            found = _snapshot(self._graph, self._now)
        else:
            remove_unread_initializers(self._graph)
        self._keep(found)

    def share(self) -> bool:
        """Hoists nodes out of loops and merges equal ones; returns whether there were any."""
        if self.time == self._searched:
            return False
        hoisted = hoist_invariants(self._graph)
        merged = eliminate_common_subexpressions(self._graph)
        if hoisted or merged:
            remove_unused(self._graph)
            self.update()
            return True
        self._searched = self.time
        return False

    def near(self, time: int) -> list[oir.Node]:
        """The nodes near those that have changed after this time, in the order of the graph.

        After 0, all nodes have changed.
        """
        nodes = self._now.states
        if time == 0:
            return list(nodes)
        changed = {node for one in self._history[time:] for node in one.changed if node in nodes}
        near = _within_hops(changed, self._now.owners) if changed else changed
        return [node for node in nodes if node in near] if near else []

    @property
    def owners(self) -> Mapping[oir.Graph, oir.Node]:
        """The node of each body."""
        return self._now.owners

    def _keep(self, found: _Snapshot) -> None:
        self._now = found
        self._history.append(found._replace(states={}, owners={}))
        self.time += 1


def _snapshot(graph: oir.Graph, before: _Snapshot) -> _Snapshot:
    """The nodes of a graph, and how they differ from those before."""
    states: dict[oir.Node, _State] = {}
    owners: dict[oir.Graph, oir.Node] = {}
    changed = list[oir.Node]()
    results = tuple(graph.outputs)
    has_unread = results != before.outputs and not _all_read(graph)
    for node in all_nodes(graph):
        known, inputs, made, place = before.states.get(node), node.inputs, node.outputs, node.graph
        readers = use_count(made[0]) if len(made) == 1 else tuple(map(use_count, made))
        bodies = subgraphs(node) if node.attributes.data else ()
        if (
            known is not None
            and known[0] is inputs
            and known[1:3] == (readers, place)
            and not bodies
        ):
            states[node] = known
            continue
        state = states[node] = (inputs, readers, place, [tuple(body.outputs) for body in bodies])
        for body in bodies:
            owners[body] = node
        if known == state:
            continue
        if known is not None and known[:2] == state[:2] and not node.attributes.data:
            continue  # it is in another graph
        changed.append(node)
        has_unread = has_unread or not is_read(node)
        if bodies and (known is None or known[2:] != state[2:]):
            # What they no longer return may be read by nobody.
            has_unread = has_unread or not all(map(_all_read, bodies))
    return _Snapshot(states, owners, results, changed, has_unread)


def _all_read(graph: oir.Graph) -> bool:
    """Whether something reads each node of a graph, those in its bodies left out."""
    return all(map(is_read, nodes_in(graph)))


def _has_dead_outputs(node: oir.Node) -> bool:
    """Whether an output of a Loop, Scan or If is not needed."""
    return len(live_outputs(node)) < len(node.outputs)


def _around(
    nodes: Iterable[oir.Node], owners: Mapping[oir.Graph, oir.Node]
) -> dict[oir.Node, None]:
    """Those of the nodes that have bodies, and the nodes in whose bodies the others are."""
    found: dict[oir.Node, None] = {}
    for node in nodes:
        if node.attributes.data and subgraphs(node):
            found[node] = None
        owner = _owner(node, owners)
        while owner is not None and owner not in found:
            found[owner] = None
            owner = _owner(owner, owners)
    return found


def _owner(node: oir.Node, owners: Mapping[oir.Graph, oir.Node]) -> oir.Node | None:
    """The node in whose body a node is."""
    return owners.get(node.graph) if isinstance(node.graph, oir.Graph) else None


def _within_hops(changed: set[oir.Node], owners: Mapping[oir.Graph, oir.Node]) -> set[oir.Node]:
    """The nodes within `HOPS` of these, in both directions and through bodies of loops."""
    found = set(changed)
    frontier = list(changed)
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
    read: Sequence[oir.Value] = node.outputs
    if node.attributes.data:
        read = [*read, *(value for graph in subgraphs(node) for value in graph.inputs)]
    for value in read:
        if 0 < use_count(value) <= FEW_READERS:
            yield from value.consumers()
    owner = _owner(node, owners)
    if owner is not None:
        yield owner

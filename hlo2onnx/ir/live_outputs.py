"""Which outputs of a Loop, Scan or If are needed.

A state of a loop is needed if something after the loop reads it, or if another needed output of
the body depends on it. A counter that only counts itself is not, nor a state that one branch sets
and the other one keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import cast

import onnx_ir as oir

from hlo2onnx.ir.traversal import nodes_in, reads, subgraphs, use_count

_MOST_AHEAD = 256
"""Nodes after a state that are looked at one by one: a limit on translation time."""


def live_outputs(node: oir.Node) -> list[int]:
    """The positions of the needed outputs of a Loop, Scan or If."""
    read = {k for k, x in enumerate(node.outputs) if use_count(x) or x.is_graph_output()}
    count = len(node.outputs)
    if node.op_type == "If" or len(read) == count:
        return sorted(read)
    (body,) = subgraphs(node)
    first = int(node.op_type == "Loop")
    outputs = list(body.outputs)
    after = dict(zip(list(body.inputs)[2 * first :], range(state_count(node)), strict=False))
    _add_read_ahead(body, after, outputs[:first], outputs[first:], read)
    pending: list[oir.Value | None] = [*outputs[:first], *(outputs[first + k] for k in read)]
    inside, visited = {body}, set[oir.Node | oir.Value | None]()
    inner: list[oir.Node] = []  # what loops read takes long to find, and is mostly read elsewhere
    while (pending or inner) and len(read) < count:
        if not pending:
            pending += reads(inner.pop())
            continue
        value = pending.pop()
        if value is None or value in visited:
            continue
        visited.add(value)
        maker = value.producer()
        if maker is None:
            if value in after and after[value] not in read:
                read.add(after[value])
                pending.append(outputs[first + after[value]])
        # What is around the loop reads no state, and `reads` has what its inner bodies read.
        elif maker.graph in inside and maker not in visited:
            if maker.op_type == "If":
                inside.update(subgraphs(maker))
            else:
                visited.add(maker)
            if maker.op_type in ("Loop", "Scan"):
                inner.append(maker)
            else:
                pending += _operands_of(maker, value)
    return sorted(read)


def _add_read_ahead(
    body: oir.Graph,
    states: Mapping[oir.Value, int],
    conditions: Iterable[oir.Value],
    outputs: Sequence[oir.Value],
    read: set[int],
) -> None:
    """Adds the states from which few nodes compute a needed output.

    That finds most of them without a look at all nodes of the body.
    """
    needed, inner = {*conditions, *(outputs[k] for k in read)}, _Body(body)
    for state, k in states.items():
        pending, visited, is_needed = [state], set[oir.Node](), k in read or state in needed
        while pending and not is_needed and len(visited) < _MOST_AHEAD:
            found = inner.computed_from(pending.pop(), visited)
            pending += found
            is_needed = not needed.isdisjoint(found)
        if is_needed:
            read.add(k)
            needed.add(outputs[k])


class _Body:
    """A body, and the graphs in it."""

    def __init__(self, graph: oir.Graph) -> None:
        self._graph = graph

    @cached_property
    def _inside(self) -> dict[oir.Graph, tuple[oir.Node, bool]]:
        """For each graph in the body, the If that it is a branch of, or the outermost loop around
        it; whether it is such a branch."""
        found: dict[oir.Graph, tuple[oir.Node, bool]] = {}
        pending = [self._graph]
        while pending:
            graph = pending.pop()
            loop = None if graph is self._graph or found[graph][1] else found[graph][0]
            for node in nodes_in(graph):
                for inner in subgraphs(node) if node.attributes.data else ():
                    found[inner] = (loop or node, loop is None and node.op_type == "If")
                    pending.append(inner)
        return found

    def computed_from(self, value: oir.Value, visited: set[oir.Node]) -> list[oir.Value]:
        """The results for which a value is needed, of the body and of branches in it.

        An If needs its condition for each of them, and a loop all that it reads.

        Args:
            visited: Nodes whose results are left out. Those of the found results are added.
        """
        found: list[oir.Value] = []
        for user in value.consumers():
            if user.graph is not self._graph:
                node, is_branch = self._inside[cast(oir.Graph, user.graph)]
                user = user if is_branch else node
            if user not in visited:
                visited.add(user)
                found += user.outputs
        maker = value.producer()
        if maker is not None and maker.graph is not self._graph and value.is_graph_output():
            branch = cast(oir.Graph, maker.graph)
            found.append(self._inside[branch][0].outputs[branch.outputs.index(value)])
        return found


def _operands_of(node: oir.Node, value: oir.Value) -> Iterable[oir.Value | None]:
    """What a result of a node is computed from: that of an If from one result of each branch."""
    if node.op_type != "If":
        return reads(node) if node.attributes.data else node.inputs
    place = value.index()
    assert place is not None
    return [node.inputs[0], *(branch.outputs[place] for branch in subgraphs(node))]


def state_count(node: oir.Node) -> int:
    """The number of states of a Loop or Scan."""
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    return len(node.inputs) - node.attributes["num_scan_inputs"].as_int()

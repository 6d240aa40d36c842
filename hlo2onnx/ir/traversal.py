"""The nodes of a graph and of its subgraphs, and edits whose time does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

import onnx_ir as oir

from hlo2onnx.ir.notes import hold_view


def nodes_in(graph: oir.Graph) -> list[oir.Node]:
    """`list(graph)`, in a third of its time: onnx_ir's iterator runs functions for each node. Every
    stage lists all nodes dozens of times."""
    nodes = []
    root = graph._nodes._root
    box = root.next
    while box is not root:
        if (node := box.value) is not None:
            nodes.append(node)
        box = box.next
    return nodes


def all_nodes(graph: oir.Graph) -> Iterator[oir.Node]:
    """Every node of the graph and its subgraphs, outer before inner, safe against removal."""
    # Not recursive: each node would pass through a generator for each graph around it.
    pending = [iter(nodes_in(graph))]
    while pending:
        for node in pending[-1]:
            yield node
            if node.attributes.data and (bodies := subgraphs(node)):
                pending.append(chain.from_iterable(map(nodes_in, bodies)))
                break
        else:
            pending.pop()


def subgraphs(node: oir.Node) -> list[oir.Graph]:
    """The node's own subgraphs (Loop and Scan bodies, If branches)."""
    # Each node is asked a hundred times, and most have no attributes. `data` is the dict itself;
    # `UserDict` runs functions of Python for its length and for each item.
    attributes = node.attributes.data
    if not attributes:
        return []
    return [
        attribute.as_graph()
        for attribute in attributes.values()
        if attribute.type is oir.AttributeType.GRAPH
    ]


def all_values(graph: oir.Graph) -> Iterator[oir.Value]:
    """Every value that the graph and its subgraphs are given or compute."""
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in all_nodes(graph):
        yield from node.outputs
        for body in subgraphs(node) if node.attributes.data else ():
            yield from body.inputs
            yield from body.initializers.values()


def reads(node: oir.Node) -> list[oir.Value]:
    """The values that a node and the nodes of its subgraphs read, and what the subgraphs return."""
    found = [x for x in node.inputs if x is not None]
    if node.attributes.data:  # most nodes have none
        for graph in subgraphs(node):
            found.extend(graph.outputs)
            for inner in nodes_in(graph):
                found += reads(inner)
    return found


def use_count(value: oir.Value) -> int:
    """`len(value.uses())`."""
    return len(value._uses)


def is_read(node: oir.Node) -> bool:
    """Whether a node reads an output of this one, or a graph returns one."""
    for output in node.outputs:  # noqa: SIM110  (each node is asked dozens of times)
        if output._uses or output._is_graph_output:
            return True
    return False


def replace_input(node: oir.Node, index: int, value: oir.Value | None) -> None:
    """`node.replace_input_with(index, value)`. Nodes have no device configurations."""
    inputs = node.inputs
    old = inputs[index]
    node._inputs = (*inputs[:index], value, *inputs[index + 1 :])
    if old is not None:
        old._uses.pop((node, index))  # type: ignore[call-overload]
    if value is not None:
        value._add_usage(node, index)


def replace_uses(old: oir.Value, new: oir.Value) -> None:
    """Replaces all uses of a value by another one, as an output of the graph too."""
    if old.is_graph_output() and old.graph is not None:
        outputs = old.graph.outputs
        while old in outputs:
            outputs[outputs.index(old)] = new
    for node, index in old.uses():
        replace_input(node, index, new)


def remove_node(node: oir.Node) -> None:
    """`node.graph.remove(node, safe=True)`.

    Raises:
        ValueError: The node is in no graph, or something reads what it makes.
    """
    graph = node.graph
    if graph is None or is_read(node):
        raise ValueError(f"{node.name} is in use, or removed already")
    hold_view(node)
    inputs = node.inputs
    node._inputs = (None,) * len(inputs)
    for index, value in enumerate(inputs):
        if value is not None:
            value._uses.pop((node, index))  # type: ignore[call-overload]
    node.graph = None
    graph._nodes.remove(node)
    removed = _removed.get()
    if removed is not None:
        removed.append(node)


_removed: ContextVar[list[oir.Node] | None] = ContextVar("_removed", default=None)


@contextmanager
def freeing_removed_nodes() -> Iterator[None]:
    """Frees at the end of the block the nodes that are removed within it.

    A node and its outputs refer to each other, as do a node and its attributes. Nine of ten nodes
    are removed; Python's collector of cyclic garbage takes a tenth of the time of a translation to
    find them.
    """
    removed: list[oir.Node] = []
    token = _removed.set(removed)
    try:
        yield
    finally:
        _removed.reset(token)
        for node in removed:
            if node.graph is None:  # it may be in a graph again
                node.attributes._owner = None  # type: ignore[assignment]
                for output in node.outputs:
                    output._producer = None

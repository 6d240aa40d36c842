"""The nodes of a graph and of the subgraphs in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import onnx_ir as oir


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
        for body in subgraphs(node):
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

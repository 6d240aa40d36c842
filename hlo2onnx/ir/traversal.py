"""The nodes of a graph and of the subgraphs in it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as oir


def all_nodes(graph: oir.Graph) -> Iterator[oir.Node]:
    """Every node of the graph and its subgraphs, outer before inner, safe against removal."""
    for node in list(graph):
        yield node
        for attribute in node.attributes.data.values():
            if attribute.type is oir.AttributeType.GRAPH:
                yield from all_nodes(attribute.as_graph())


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
    for graph in subgraphs(node):
        found.extend(graph.outputs)
        for inner in graph:
            found += reads(inner)
    return found

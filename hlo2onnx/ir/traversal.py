"""The nodes of a graph and of the subgraphs in it."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as oir


def all_nodes(graph: oir.Graph) -> Iterator[oir.Node]:
    """Every node of the graph and its subgraphs, outer before inner, safe against removal."""
    for node in list(graph):
        yield node
        for subgraph in subgraphs(node):
            yield from all_nodes(subgraph)


def subgraphs(node: oir.Node) -> list[oir.Graph]:
    """The node's own subgraphs (Loop and Scan bodies, If branches)."""
    if not node.attributes:  # which most have not, and all are asked
        return []
    return [
        attribute.as_graph()
        for attribute in node.attributes.values()
        if attribute.type == oir.AttributeType.GRAPH
    ]

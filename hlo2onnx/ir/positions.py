"""Where a builder puts its nodes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.errors import InternalError

Position = tuple[oir.Graph, oir.Node | None, oir.Node | None, bool, str, Mapping[str, str]]
"""Where nodes go: the graph, the node after or before them, whether at the start of the main graph;
their name and their metadata."""


def beside(
    node: oir.Node, before: oir.Node | None = None, after: oir.Node | None = None
) -> Position:
    """The position right before or after a node of a graph."""
    graph = node.graph
    if not isinstance(graph, oir.Graph):
        raise InternalError(f"node {node.name} is not part of a graph")
    return (graph, before, after, False, node.name or "", node.metadata_props)

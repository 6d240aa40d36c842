"""Where a builder puts its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import onnx_ir as oir

from hlo2onnx.errors import InternalError

Position = tuple[oir.Graph, oir.Node | None, oir.Node | None, bool, str, Mapping[str, str]]
"""Where nodes go: the graph, the node after or before them, whether at the start of the main graph;
their name and their metadata."""


def beside(
    node: oir.Node, before: oir.Node | None = None, after: oir.Node | None = None
) -> Position:
    """The position right before or after a node of a graph."""
    return (graph_of(node), before, after, False, node.name or "", node.metadata_props)


def graph_of(node: oir.Node) -> oir.Graph:
    """The graph of a node.

    Raises:
        InternalError: It has none.
    """
    graph = node.graph
    if not isinstance(graph, oir.Graph):
        raise InternalError(f"node {node.name} is not part of a graph")
    return graph


class Elsewhere(AbstractContextManager[None]):
    """A block within which nodes go to another position.

    Args:
        go: Makes the next nodes at a position; returns the one before.
    """

    def __init__(self, go: Callable[[Position], Position], position: Position) -> None:
        self._go = go
        self._position = position

    def __enter__(self) -> None:
        self._position = self._go(self._position)

    def __exit__(self, *_: object) -> None:
        self._go(self._position)

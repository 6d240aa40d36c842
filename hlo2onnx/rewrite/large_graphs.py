"""Edits of graphs, in constant time for each use of a value.

In onnx_ir a change of one input visits all inputs of the node, a removal of one node visits all
outputs of its graph, and a look at the uses of a value copies all of them, so that changing each
takes quadratic time. These functions do the same without: they use onnx_ir's private fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import onnx_ir as oir

from hlo2onnx.ir.provenance import hold_view


def use_count(value: oir.Value) -> int:
    """`len(value.uses())`."""
    return len(value._uses)


def is_read(node: oir.Node) -> bool:
    """Whether a node reads an output of this one, or a graph returns one."""
    for output in node.outputs:  # noqa: SIM110  (each node is asked dozens of times)
        if output._uses or output.is_graph_output():
            return True
    return False


def replace_input(node: oir.Node, index: int, value: oir.Value | None) -> None:
    """`node.replace_input_with(index, value)`. Nodes have no device configurations."""
    inputs = node.inputs
    old = inputs[index]
    node._inputs = (*inputs[:index], value, *inputs[index + 1 :])
    if old is not None:
        old._remove_usage(node, index)
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
            value._remove_usage(node, index)
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

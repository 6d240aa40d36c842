"""Changing a graph in place: replacing nodes, finding users, removing what nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.expansion_notes import succeed
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, rank_of
from hlo2onnx.rewrite.large_graphs import remove_node, replace_uses


def replace(node: oir.Node, values: Sequence[oir.Value]) -> None:
    """Replaces all uses of the node's outputs by `values` and removes the node.

    A graph output keeps its name, which the new value takes over.

    Raises:
        InternalError: A value differs in element type or rank from the output it replaces.
    """
    if node.graph is None:
        raise InternalError(f"{node.name} is already removed")
    for old, new in zip(node.outputs, values, strict=True):
        if dtype_of(old) != dtype_of(new) or rank_of(old) != rank_of(new):
            raise InternalError(
                f"{node.op_type} {node.name}: {old.dtype}{old.shape} replaced by"
                f" {new.dtype}{new.shape}"
            )
        _replace_value(old, new)
    remove_node(node)


def can_replace(old: oir.Value, new: oir.Value) -> bool:
    """Whether `new` may stand for `old`: a graph output must be made by a node of its own graph
    and have one role."""
    if not old.is_graph_output():
        return True
    producer = new.producer()
    owner = old.producer()
    if producer is None or owner is None or new.is_graph_output() or new.is_graph_input():
        return False
    return producer.graph is owner.graph


def _replace_value(old: oir.Value, new: oir.Value) -> None:
    was_output = old.is_graph_output()
    if was_output and not can_replace(old, new):
        raise InternalError(f"{new.name} cannot be the output {old.name}")
    replace_uses(old, new)
    succeed(old, new)
    if was_output:
        name = old.name
        old.name = f"{name}:replaced"
        new.name = name


def remove_unused(graph: oir.Graph) -> int:
    """Removes unread nodes, outputs of loops and initializers; returns how many nodes.

    No operator that we emit has side effects.
    """
    count = _remove_unused_nodes(graph)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
    return count


def remove_makers(values: Iterable[oir.Value], within: oir.Graph | None = None) -> list[oir.Value]:
    """Removes the producers of these values if nothing reads them, and then their operands'
    producers likewise; returns the values that lost a reader. Nodes with subgraphs stay, and nodes
    outside the given graph."""
    less_read = list(values)
    for value in less_read:
        node = value.producer()
        if node is None or node.graph is None or subgraphs(node):
            continue
        if within is not None and node.graph is not within:
            continue
        if not any(map(_is_read, node.outputs)):
            less_read.extend(x for x in node.inputs if x is not None)
            remove_node(node)
    return less_read


def _remove_unused_nodes(graph: oir.Graph) -> int:
    count = 0
    for node in reversed(list(graph)):
        if any(map(_is_read, node.outputs)):
            if node.op_type == "Loop":
                node = _without_unread_outputs(node)
            count += sum(_remove_unused_nodes(subgraph) for subgraph in subgraphs(node))
            continue
        for subgraph in subgraphs(node):
            detach(subgraph)
        remove_node(node)
        count += 1
    return count


def detach(graph: oir.Graph) -> None:
    """Drops all uses of values that a removed subgraph captured."""
    graph.outputs.clear()
    _remove_unused_nodes(graph)


def _is_read(value: oir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _without_unread_outputs(loop: oir.Node) -> oir.Node:
    """The Loop without unread stacked outputs, and without states that neither the body nor later
    nodes read."""
    body, graph = loop.attributes["body"].as_graph(), loop.graph
    count = len(loop.inputs) - 2
    kept = [
        index
        for index, output in enumerate(loop.outputs)
        if _is_read(output) or (index < count and _is_read(body.inputs[index + 2]))
    ]
    if len(kept) == len(loop.outputs) or graph is None:
        return loop
    left = set(kept)
    dropped = [index for index in range(len(loop.outputs)) if index not in left]
    for index in reversed(dropped):
        body.outputs.pop(index + 1)
        if index < count:
            body.inputs.pop(index + 2)
    inputs = [x for index, x in enumerate(loop.inputs) if index < 2 or index - 2 in left]
    old = [loop.outputs[index] for index in kept]
    outputs = [oir.Value(name=value.name, type=value.type, shape=value.shape) for value in old]
    smaller = oir.Node(
        "",
        "Loop",
        inputs,
        list(loop.attributes.values()),
        outputs=outputs,
        name=loop.name,
        metadata_props=dict(loop.metadata_props),
    )
    graph.insert_before(loop, smaller)
    for before, after in zip(old, outputs, strict=True):
        _replace_value(before, after)
    remove_node(loop)
    return smaller

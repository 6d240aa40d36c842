"""Changing a graph in place: replacing nodes, finding users, removing what nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.notes import succeed
from hlo2onnx.ir.traversal import (
    is_read,
    nodes_in,
    reads,
    remove_node,
    replace_uses,
    subgraphs,
    use_count,
)
from hlo2onnx.ir.values import dtype_of, rank_of


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
    """Whether `new` may replace `old`: a graph output must be made by a node of its own graph and
    have one role."""
    if old is new or not old.is_graph_output():
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
    """Removes unread nodes, outputs of loops and branches, and initializers; returns how many
    nodes.

    No operator that we emit has side effects.
    """
    count = _remove_unused_nodes(graph)
    remove_unread_initializers(graph)
    return count


def remove_unread_initializers(graph: oir.Graph) -> None:
    """Removes the initializers that nobody reads."""
    for name, value in list(graph.initializers.items()):
        if not use_count(value) and not value.is_graph_output():
            del graph.initializers[name]


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
        if not is_read(node):
            less_read.extend(x for x in node.inputs if x is not None)
            remove_node(node)
    return less_read


def _remove_unused_nodes(graph: oir.Graph) -> int:
    count = 0
    for node in reversed(nodes_in(graph)):
        if is_read(node):
            if node.op_type in ("If", "Loop", "Scan"):
                node = _without_unread_outputs(node)
            for subgraph in subgraphs(node):
                count += _remove_unused_nodes(subgraph)
            continue
        for subgraph in subgraphs(node):
            detach(subgraph)
        remove_node(node)
        count += 1
    return count


def remove_unread(nodes: Sequence[oir.Node]) -> None:
    """Removes the nodes without readers. Each node may read earlier ones only."""
    for node in reversed(nodes):
        if node.graph is not None and not is_read(node):
            for subgraph in subgraphs(node):
                detach(subgraph)
            remove_node(node)


def detach(graph: oir.Graph) -> None:
    """Drops all uses of values that a removed subgraph captured."""
    graph.outputs.clear()
    _remove_unused_nodes(graph)


def _without_unread_outputs(node: oir.Node) -> oir.Node:
    """The Loop, Scan or If without the outputs that are not needed, and without their states."""
    kept, graph = live_outputs(node), node.graph
    if len(kept) == len(node.outputs) or graph is None:
        return node
    dropped = sorted(set(range(len(node.outputs))) - set(kept), reverse=True)
    inputs = list(node.inputs)
    before = 2 if node.op_type == "Loop" else 0
    for body in subgraphs(node):
        for index in dropped:
            body.outputs.pop(index + before // 2)
        for index in dropped if node.op_type != "If" else ():
            if index < state_count(node):
                body.inputs.pop(index + before)
                inputs[index + before : index + before + 1] = []
    old = [node.outputs[index] for index in kept]
    outputs = [oir.Value(name=value.name, type=value.type, shape=value.shape) for value in old]
    smaller = oir.Node(
        "",
        node.op_type,
        inputs,
        _attributes_without(node, dropped),
        outputs=outputs,
        name=node.name,
        metadata_props=dict(node.metadata_props),
    )
    graph.insert_before(node, smaller)
    for value, output in zip(old, outputs, strict=True):
        _replace_value(value, output)
    remove_node(node)
    return smaller


def _attributes_without(node: oir.Node, dropped: Sequence[int]) -> list[oir.Attr]:
    """The attributes of a Loop, Scan or If without these outputs; a Scan has lists about them."""
    attributes = []
    for name, attribute in node.attributes.items():
        if name in ("scan_output_axes", "scan_output_directions"):
            states = state_count(node)
            items = enumerate(attribute.as_ints(), states)
            attribute = oir.AttrInt64s(name, [x for index, x in items if index not in dropped])
        attributes.append(attribute)
    return attributes


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
    pending: list[oir.Value | None] = [*outputs[:first], *(outputs[first + k] for k in read)]
    inside, visited = {body}, set[oir.Node | oir.Value | None]()
    while pending and len(read) < count:
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
            pending += _operands_of(maker, value)
    return sorted(read)


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

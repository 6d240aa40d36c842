"""Copies of nodes that read other values, and of values."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

import onnx_ir as oir

from hlo2onnx.ir.code_motion import is_repeatable
from hlo2onnx.ir.traversal import all_nodes, nodes_in, reads, replace_input, subgraphs
from hlo2onnx.ir.values import INTEGERS, attributes_of, const_of, dtype_of, is_constant
from hlo2onnx.raising.engine import Rewriter

_INDEXED = frozenset(
    {"Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "TensorScatter"}
)


def is_speculatable(node: oir.Node) -> bool:
    """Whether a node without bodies is safe to run speculatively.

    Its operands may then be any numbers. A guard of an index or of a divisor may be missing, where
    a loop's condition proves that it is not needed. So gathers and scatters at computed places and
    divisions of integers by computed numbers may fail.
    """
    if subgraphs(node) or not is_repeatable(node):
        return False
    if node.op_type in _INDEXED:
        return node.inputs[1] is not None and is_constant(node.inputs[1])
    if node.op_type in ("Div", "Mod") and dtype_of(node.outputs[0]) in INTEGERS:
        divisor = const_of(node.inputs[1]) if node.inputs[1] is not None else None
        return divisor is not None and bool(divisor.all())
    return True


def copy_nodes(
    b: Rewriter, nodes: Iterable[oir.Node], values: MutableMapping[oir.Value, oir.Value]
) -> None:
    """Copies the nodes to the position of the builder, and adds their results to `values`.

    Args:
        nodes: Nodes in order.
        values: What the copies read instead of some values, in their bodies too.
    """
    for node in nodes:
        inputs = [None if x is None else values.get(x, x) for x in node.inputs]
        bodies: dict[str, Any] = {
            name: _copied_body(b, item, values)
            for name, item in attributes_of(node).items()
            if isinstance(item, oir.Graph)
        }
        made = b.copy_of(node, inputs, **bodies)
        values.update(zip(node.outputs, made, strict=True))


def _copied_body(
    b: Rewriter, body: oir.Graph, values: MutableMapping[oir.Value, oir.Value]
) -> oir.Graph:
    """A copy of a body that reads other values than the body does around it."""
    copy, _ = copied(b, body)
    for inner in all_nodes(copy):
        for index, x in enumerate(inner.inputs):
            if x is not None and x in values:
                replace_input(inner, index, values[x])
    for graph in (copy, *(each for inner in all_nodes(copy) for each in subgraphs(inner))):
        for index, x in enumerate(graph.outputs):
            if x in values:
                graph.outputs[index] = values[x]
    return copy


def copied(b: Rewriter, body: oir.Graph) -> tuple[oir.Graph, dict[oir.Value, oir.Value]]:
    """A copy of a body under new names, and the copy of each value."""
    copy = body.clone(allow_outer_scope_values=True)
    _name(b, copy)
    pairs = dict(zip(body.inputs, copy.inputs, strict=True))
    for old, new in zip(body, copy, strict=True):
        pairs.update(zip(old.outputs, new.outputs, strict=True))
    return copy, pairs


def _name(b: Rewriter, graph: oir.Graph) -> None:
    """Gives a copy and its values new names, and clears their metadata."""
    graph.name = b.names.unique(graph.name or "body")
    for value in (*graph.inputs, *(x for node in graph for x in node.outputs)):
        value.name = b.names.unique(value.name or "value")
        value.meta.clear()
    for node in graph:
        for inner in subgraphs(node):
            _name(b, inner)


def output_of(b: Rewriter, graph: oir.Graph, value: oir.Value) -> oir.Value:
    """A value that may become an output of a graph at whose end the builder is: a node of the graph
    makes it, and it is not an output yet."""
    maker = value.producer()
    if maker is None or maker.graph is not graph or value.is_graph_output():
        return b.Identity(value)
    return value


def makers_within(graph: oir.Graph, results: Iterable[oir.Value]) -> list[oir.Node]:
    """The nodes of a graph that these values depend on, in order."""
    found: set[oir.Node] = set()
    pending = list(results)
    while pending:
        node = pending.pop().producer()
        if node is not None and node.graph is graph and node not in found:
            found.add(node)
            pending.extend(reads(node))
    if len(found) < 2:
        return list(found)
    return [node for node in nodes_in(graph) if node in found]

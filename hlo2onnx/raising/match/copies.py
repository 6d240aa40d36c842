"""Copies of nodes that read other values."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

import onnx_ir as oir

from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of
from hlo2onnx.raising.engine import Rewriter


def copy_nodes(
    b: Rewriter, nodes: Iterable[oir.Node], values: MutableMapping[oir.Value, oir.Value]
) -> None:
    """Makes the nodes again where the builder is, and adds their results to `values`.

    Args:
        nodes: Nodes without bodies, in order.
        values: What the copies read instead of some values.
    """
    for node in nodes:
        inputs = [None if x is None else values.get(x, x) for x in node.inputs]
        types = [(dtype_of(x), shape_of(x)) for x in node.outputs]
        made = b.node(node.op_type, inputs, attributes_of(node), types, node.domain)
        values.update(zip(node.outputs, made, strict=True))


def makers_within(graph: oir.Graph, results: Iterable[oir.Value]) -> list[oir.Node]:
    """The nodes of a graph that these values depend on, in order. The bodies of nodes count as
    nothing."""
    found: set[oir.Node] = set()
    pending = list(results)
    while pending:
        node = pending.pop().producer()
        if node is not None and node.graph is graph and node not in found:
            found.add(node)
            pending.extend(x for x in node.inputs if x is not None)
    return [node for node in graph if node in found]

"""Common subexpressions: equal nodes over equal inputs become one."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as oir

from hlo2onnx.graph.edit import can_replace, replace, subgraphs
from hlo2onnx.graph.hoist import is_repeatable


def eliminate_common_subexpressions(
    graph: oir.Graph, outer: dict[Hashable, oir.Node] | None = None
) -> int:
    """Removes nodes that compute what an earlier node of this graph or of a graph around it
    computes; returns how many went. Nodes with subgraphs and random ones are left alone."""
    seen = dict(outer or {})
    count = 0
    for node in list(graph):
        inner = subgraphs(node)
        if inner:
            count += sum(eliminate_common_subexpressions(subgraph, seen) for subgraph in inner)
            continue
        key = _key(node)
        earlier = seen.setdefault(key, node) if is_repeatable(node) else node
        if earlier is node:
            continue
        if all(map(can_replace, node.outputs, earlier.outputs)):
            replace(node, earlier.outputs)
            count += 1
    return count


def _key(node: oir.Node) -> Hashable:
    attributes = tuple(
        sorted((name, _attribute_key(attribute)) for name, attribute in node.attributes.items())
    )
    return (node.domain, node.op_type, len(node.outputs), tuple(map(id, node.inputs)), attributes)


def _attribute_key(attribute: oir.Attr) -> str:
    if attribute.type == oir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor.dtype}{tensor.shape}{tensor.tobytes()!r}"
    return f"{attribute.type.name}{attribute.value!r}"

"""Structures that no model may hold, found in the ONNX file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import onnx

Nodes = Sequence[onnx.NodeProto]

_NOT_COMPUTED = frozenset({"If", "Loop", "Scan"})
_RANDOM = ("Random", "Bernoulli", "Multinomial")


def known_conditions(model: onnx.ModelProto) -> list[str]:
    """Names of the Ifs whose conditions follow from constants, so that a runtime knows them when it
    loads the model; ONNX Runtime's process ends where one of these is in another."""
    functions = {(item.domain, item.name): item for item in model.functions}
    constants = {item.name for item in model.graph.initializer}
    return list(_known(model.graph.node, constants, functions))


def _known(
    nodes: Nodes,
    outer: AbstractSet[str],
    functions: dict[tuple[str, str], onnx.FunctionProto],
) -> Iterator[str]:
    """Those among the nodes, in their subgraphs, and in the functions they call.

    Args:
        outer: The values around the nodes that follow from constants.
    """
    known = set(outer)
    for node in nodes:
        given = [name in known for name in node.input if name]
        function = functions.get((node.domain, node.op_type))
        if node.op_type == "If" and given[0]:
            yield node.name
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                graph = attribute.g
                inner = {item.name for item in graph.initializer}
                own = {item.name for item in graph.input}
                yield from _known(graph.node, (known | inner) - own, functions)
        if function is not None:
            pairs = zip(function.input, node.input, strict=False)
            yield from _known(function.node, {own for own, x in pairs if x in known}, functions)
        is_computed = node.op_type not in _NOT_COMPUTED and not node.op_type.startswith(_RANDOM)
        if is_computed and all(given):
            known.update(node.output)

"""Constants that loop bodies and branches read, inside them.

A model in memory has all constants in its main graph. Tools such as `onnx.compose` and
`onnx.utils.extract_model` look only at the inputs that a node names, and lose those that its bodies
read. So a saved model has constants where they are read:

* Constants of fewer than `COPIED_BYTES` are in each body that reads them.
* Larger ones are in the body if it alone reads them. Others stay in the main graph, so that no
  weight is stored twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as oir

from hlo2onnx.ir.names import Names
from hlo2onnx.ir.traversal import all_nodes

COPIED_BYTES = 4096
"""Smaller constants may be stored several times."""

MOVED_BYTES = 1 << 26
"""If the larger constants of bodies have more bytes in total, they stay in the main graph:
protobuf would copy them several times."""


@dataclass(frozen=True)
class BodyConstants:
    """The constants of a model that bodies will have.

    Attributes:
        bodies: For each body, by its `id`, the names of its constants: outer name -> own name.
        moved: The names of constants that the main graph does not have any more.
    """

    bodies: dict[int, dict[str, str]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)


def constants_of_bodies(
    graph: oir.Graph,
    references: Mapping[str, oir.TensorProtocol],
    apart: Collection[str] = (),
) -> BodyConstants:
    """Decides which body has which constants.

    Args:
        graph: The main graph.
        references: By name, the constants whose bytes are in another file.
        apart: Names of constants that stay in the main graph.
    """
    staying = frozenset(apart)
    readers = {
        name: _readers(value) for name, value in graph.initializers.items() if name not in staying
    }
    large = {
        name
        for name, value in graph.initializers.items()
        if name in readers
        and value.const_value is not None
        and value.const_value.nbytes >= COPIED_BYTES
    }
    movable = {name for name in large if len(readers[name]) == 1 and graph not in readers[name]}
    if sum(_bytes(graph, name) for name in movable - references.keys()) > MOVED_BYTES:
        movable &= references.keys()
    found, names = BodyConstants(), None
    for name, graphs in readers.items():
        bodies = [each for each in graphs if each is not graph]
        if not bodies or (name in large and name not in movable):
            continue
        names = names or _names(graph)
        if graph not in graphs:
            found.moved.add(name)
        for index, body in enumerate(bodies):
            keeps = name in found.moved and index == 0
            found.bodies.setdefault(id(body), {})[name] = name if keeps else names.unique(name)
    return found


def _readers(value: oir.Value) -> list[oir.Graph]:
    """The graphs whose nodes read a value, or that return it."""
    if value.is_graph_output():
        return []
    graphs = (node.graph for node, _ in value.uses())
    return list(dict.fromkeys(each for each in graphs if isinstance(each, oir.Graph)))


def _bytes(graph: oir.Graph, name: str) -> int:
    tensor = graph.initializers[name].const_value
    return 0 if tensor is None else tensor.nbytes


def _names(graph: oir.Graph) -> Names:
    """The names of all values of a graph and its bodies."""
    names = Names()
    for each in (graph, *graph.subgraphs()):
        names.take(str(value.name) for value in each.inputs)
    names.take(graph.initializers)
    for node in all_nodes(graph):
        names.take(str(output.name) for output in node.outputs)
    return names


def add_to_bodies(
    nodes: Iterable[oir.Node],
    messages: Iterable[onnx.NodeProto],
    constants: BodyConstants,
    tensors: Mapping[str, onnx.TensorProto],
) -> None:
    """Adds the constants to the bodies in messages.

    Args:
        nodes: The nodes of a graph.
        messages: Their messages, in the same order.
        constants: What to add.
        tensors: The contents of the constants, by name.
    """
    for node, message in zip(nodes, messages, strict=True):
        for attribute in message.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            body = node.attributes[attribute.name].as_graph()
            renamed = constants.bodies.get(id(body), {})
            for outer, own in renamed.items():
                attribute.g.initializer.add().CopyFrom(tensors[outer])
                attribute.g.initializer[-1].name = own
            for inner in attribute.g.node if renamed else ():
                inner.input[:] = [renamed.get(name, name) for name in inner.input]
            add_to_bodies(body, attribute.g.node, constants, tensors)

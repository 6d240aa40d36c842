"""The graphs of a model: where its nodes are, and what each can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx

Path = tuple[tuple[int, str], ...]
"""Where a graph is: for each level below the main graph, a node's place and its attribute."""
Type = tuple[int, tuple[int | str, ...]]
"""Element type and shape of a value. Unknown extents have a name of their own."""


@dataclass
class Scope:
    """A graph with what its nodes can see.

    Attributes:
        graph: The graph.
        path: Where it is.
        types: Types of values, those of outer graphs included.
        outer: Values of outer graphs that exist when the graph runs.
        source: Source line of the node that has the graph.
    """

    graph: onnx.GraphProto
    path: Path
    types: dict[str, Type]
    outer: tuple[str, ...] = ()
    source: str = ""

    def visible(self, place: int) -> list[str]:
        """The values that exist before a node, those that are not constant."""
        names = [*self.outer, *(item.name for item in self.graph.input)]
        for node in self.graph.node[:place]:
            if node.op_type != "Constant":
                names += [name for name in node.output if name]
        return names


def scopes_of(model: onnx.ModelProto) -> list[Scope]:
    """All graphs of a model, the main one first."""
    inferred = onnx.shape_inference.infer_shapes(model)
    return list(_below(Scope(inferred.graph, (), {})))


def _below(scope: Scope) -> Iterator[Scope]:
    graph = scope.graph
    for item in (*graph.input, *graph.value_info, *graph.output):
        if item.type.HasField("tensor_type"):
            scope.types[item.name] = _type(item)
    for name, tensor in own_constants(graph).items():
        scope.types[name] = (tensor.data_type, tuple(tensor.dims))
    yield scope
    for place, node in enumerate(graph.node):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _below(
                    Scope(
                        attribute.g,
                        (*scope.path, (place, attribute.name)),
                        dict(scope.types),
                        tuple(scope.visible(place)),
                        source_of(node) or scope.source,
                    )
                )


def own_constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """The constants of a graph, without those of outer and inner graphs."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = node.attribute[0].t
    return found


def _type(item: onnx.ValueInfoProto) -> Type:
    tensor = item.type.tensor_type
    dims = tensor.shape.dim
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{item.name}.{axis}"
        for axis, dim in enumerate(dims)
    )
    return tensor.elem_type, shape


def graph_at(model: onnx.ModelProto, path: Path) -> onnx.GraphProto:
    """The graph at a path."""
    graph = model.graph
    for place, name in path:
        graph = attribute_of(graph.node[place], name).g
    return graph


def attribute_of(node: onnx.NodeProto, name: str) -> onnx.AttributeProto:
    """An attribute of a node.

    Raises:
        KeyError: The node does not have it.
    """
    for attribute in node.attribute:
        if attribute.name == name:
            return attribute
    raise KeyError(name)


def source_of(node: onnx.NodeProto) -> str:
    """The source line that a node comes from; empty if not known."""
    return next((entry.value for entry in node.metadata_props if entry.key == "jax.source"), "")


def set_constant(graph: onnx.GraphProto, name: str, tensor: onnx.TensorProto) -> None:
    """Replaces the content of a constant."""
    for place, old in enumerate(graph.initializer):
        if old.name == name:
            graph.initializer[place].CopyFrom(tensor)
            return
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] == name:
            node.attribute[0].t.CopyFrom(tensor)
            return
    raise KeyError(name)

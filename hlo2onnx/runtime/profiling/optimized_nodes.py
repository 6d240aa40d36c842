"""Maps the nodes that ONNX Runtime runs to the nodes of the model.

The runtime fuses nodes, adds some, and changes names. It writes the model that it runs to a file.
A node there is one of the model if it makes the same value or has the same name. Other nodes belong
to the nearest node that reads their results, or that makes their inputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as oir

from hlo2onnx.ir.notes import common_callers, scope_of
from hlo2onnx.ir.traversal import all_nodes

if TYPE_CHECKING:
    import onnx

_INLINED = "_inlfunc_"
"""The runtime inlines functions. Names of values and nodes get this and the function's name before
them."""
_CALL = re.compile(r"_token_\d+(?=_)")
"""What tells the second and further calls of a function apart."""


@dataclass(frozen=True)
class ModelNode:
    """A node of the model.

    Attributes:
        name: Its name.
        outputs: Names of its outputs.
        scope: Its JAX scope, the outermost part first.
        source: Its source line; "" if unknown.
        function: The name of the function that it is in; "" for the graph.
    """

    name: str
    outputs: tuple[str, ...]
    scope: tuple[str, ...]
    source: str
    function: str = ""

    def in_runtime(self, name: str) -> str:
        """The runtime's name for a value or node with this name."""
        return f"{_INLINED}{self.function}_{name}" if self.function else name


class Origins:
    """Finds the node of the model for names of the runtime.

    Args:
        nodes: The nodes of the model, with those of bodies and functions.
    """

    def __init__(self, nodes: Sequence[ModelNode]) -> None:
        self._by_name = {node.in_runtime(node.name): node for node in nodes}
        self._by_output = {
            node.in_runtime(name): node for node in nodes for name in node.outputs if name
        }

    def named(self, name: str) -> ModelNode | None:
        """The node with this name, or with a name that the runtime has made it from."""
        name = _plain(name)
        while name:
            if name in self._by_name:
                return self._by_name[name]
            name = name[: max(name.rfind("_"), name.rfind("/"), 0)]
        return None

    def of_node(self, node: onnx.NodeProto) -> ModelNode | None:
        """The node that makes the same value, or has the same name."""
        # The results of an inlined function have the names of the results of the call.
        if _INLINED in node.name and (found := self.named(node.name)) is not None:
            return found
        for output in node.output:
            found = self._by_output.get(_plain(output))
            if found is not None:
                return found
        return self.named(node.name)


def _plain(name: str) -> str:
    """A name without the marks of a call. Of functions in functions, the innermost counts."""
    place = name.rfind(_INLINED)
    return name if place < 0 else _CALL.sub("", name[place:], count=1)


def origins_in(model: Path, origins: Origins) -> dict[str, ModelNode]:
    """The nodes of the model by the names of the nodes in an optimized model.

    Empty if onnx is not installed, or if the runtime did not write the file.
    """
    try:
        onnx = import_module("onnx")
    except ImportError:
        return {}
    if not model.exists():
        return {}
    found: dict[str, ModelNode] = {}
    _add_graph(onnx.load(model, load_external_data=False).graph, origins, found, None)
    return found


def _add_graph(
    graph: onnx.GraphProto,
    origins: Origins,
    found: dict[str, ModelNode],
    outer: ModelNode | None,
) -> None:
    own = [origins.of_node(node) for node in graph.node]
    _take_neighbours(graph, own)
    for node, origin in zip(graph.node, own, strict=True):
        origin = origin or outer
        if origin is not None:
            found.setdefault(node.name, origin)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _add_graph(body, origins, found, origin)


def _take_neighbours(graph: onnx.GraphProto, own: list[ModelNode | None]) -> None:
    """Fills in the nodes that are not known, from readers first and then from producers."""
    reader: dict[str, ModelNode] = {}
    for index in reversed(range(len(own))):
        node = graph.node[index]
        own[index] = own[index] or _first(node.output, reader)
        if (known := own[index]) is not None:
            reader.update(dict.fromkeys(node.input, known))
    producer: dict[str, ModelNode] = {}
    for index, node in enumerate(graph.node):
        own[index] = own[index] or _first(node.input, producer)
        if (known := own[index]) is not None:
            producer.update(dict.fromkeys(node.output, known))


def _first(names: Sequence[str], known: Mapping[str, ModelNode]) -> ModelNode | None:
    return next((known[name] for name in names if name and name in known), None)


def model_nodes(model: oir.Model) -> list[ModelNode]:
    """Every node of the model, with those of bodies and functions.

    The scope of a node in a function begins with that of the first call of the function.
    """
    within = [("", node) for node in all_nodes(model.graph)]
    for function in model.functions.values():
        within += [(function.name, node) for node in all_nodes(function.graph)]
    callers = common_callers(node.metadata_props for function, node in within if not function)
    calls = {node.op_type: item for item in reversed(within) if _calls(model, node := item[1])}

    def scope(function: str, node: oir.Node) -> tuple[str, ...]:
        own = scope_of(str(node.name), node.metadata_props, callers)
        if function not in calls:
            return own
        outer = scope(*calls[function])
        inner = own[len(outer) :] if own[: len(outer)] == outer else own
        return (*outer, *(inner if function in inner else (function, *inner)))

    return [
        ModelNode(
            str(node.name),
            tuple(str(value.name) for value in node.outputs),
            scope(function, node),
            node.metadata_props.get("jax.source", ""),
            function,
        )
        for function, node in within
    ]


def _calls(model: oir.Model, node: oir.Node) -> bool:
    """Whether a node calls a function of the model."""
    return (node.domain, node.op_type, node.overload) in model.functions

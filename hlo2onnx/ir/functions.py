"""Conversion of a model's functions into valid ONNX functions.

During translation the graph of a function has initializers. An ONNX function has none: short ones
become constants and long ones additional inputs, so that a weight is stored once and may be stored
outside the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes

LONG_BYTES = 1024
"""Initializers with more bytes become inputs."""


def each_graph(model: oir.Model) -> Iterator[oir.Graph]:
    """The graphs of a model's functions, callees before their callers, and its own."""
    for function in model.functions.values():
        yield function.graph
    yield model.graph


def finish_functions(model: oir.Model) -> None:
    """Removes functions that nobody calls, and the initializers of the others."""
    called = _called_by(model.graph)
    for key, function in reversed(list(model.functions.items())):
        if (function.domain, function.name) in called:
            called |= _called_by(function.graph)
        else:
            del model.functions[key]
    for function in model.functions.values():
        for domain, version in function.graph.opset_imports.items():
            model.graph.opset_imports.setdefault(domain, version)
        _pass_weights(function, model)
        _embed_constants(function.graph)


def _called_by(graph: oir.Graph) -> set[tuple[str, str]]:
    return {(node.domain, node.op_type) for node in all_nodes(graph)}


def _pass_weights(function: oir.Function, model: oir.Model) -> None:
    """Turns long initializers into inputs; callers pass their own initializers."""
    graph = function.graph
    weights = [value for value in graph.initializers.values() if _bytes(value) > LONG_BYTES]
    if not weights:
        return
    tensors = []
    for value in weights:
        tensors.append(value.const_value)
        del graph.initializers[str(value.name)]
        value.const_value = None
        graph.inputs.append(value)
    for caller in each_graph(model):
        calls = [
            node
            for node in all_nodes(caller)
            if (node.domain, node.op_type) == (function.domain, function.name)
        ]
        if calls:
            _add_inputs(caller, calls, tensors)


def _add_inputs(
    caller: oir.Graph, calls: Sequence[oir.Node], tensors: Sequence[oir.TensorProtocol | None]
) -> None:
    builder = GraphBuilder(caller, caller.opset_imports[""])
    builder.adopt(caller)
    for tensor in tensors:
        assert tensor is not None
        value = builder.const(tensor.numpy(), name=tensor.name or "")
        for node in calls:
            node.resize_inputs(len(node.inputs) + 1)
            node.replace_input_with(len(node.inputs) - 1, value)


def _embed_constants(graph: oir.Graph) -> None:
    for name, value in list(graph.initializers.items()):
        assert value.const_value is not None
        content = oir.AttrTensor("value", value.const_value)
        constant = oir.Value(name=name, type=value.type, shape=value.shape)
        node = oir.Node("", "Constant", [], [content], outputs=[constant], name=name)
        oir.convenience.replace_all_uses_with(value, constant)
        del graph.initializers[name]
        first = graph[0] if len(graph) else None
        if first is None:
            graph.append(node)
        else:
            graph.insert_before(first, node)


def _bytes(value: oir.Value) -> int:
    return 0 if value.const_value is None else value.const_value.nbytes

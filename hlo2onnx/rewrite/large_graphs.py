"""Edits of nodes with thousands of inputs, and of graphs with thousands of outputs.

In onnx_ir a change of one input visits all inputs of the node, and a removal of one node visits all
outputs of its graph, so that changing each takes quadratic time. These functions do the same in
linear time: for many inputs or outputs they use onnx_ir's private fields.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.provenance import hold_view

MANY = 64
"""Below this onnx_ir's methods are fast enough."""


def replace_input(node: oir.Node, index: int, value: oir.Value | None) -> None:
    """`node.replace_input_with(index, value)`, for any number of inputs. Nodes have no device
    configurations."""
    inputs = node.inputs
    if len(inputs) < MANY:
        node.replace_input_with(index, value)
        return
    old = inputs[index]
    node._inputs = (*inputs[:index], value, *inputs[index + 1 :])
    if old is not None:
        old._remove_usage(node, index)
    if value is not None:
        value._add_usage(node, index)


def replace_uses(old: oir.Value, new: oir.Value) -> None:
    """Replaces all uses of a value by another one, as an output of the graph too."""
    if old.is_graph_output() and old.graph is not None:
        outputs = old.graph.outputs
        while old in outputs:
            outputs[outputs.index(old)] = new
    for node, index in old.uses():
        replace_input(node, index, new)


def remove_node(node: oir.Node) -> None:
    """`node.graph.remove(node, safe=True)`, for any number of inputs and of outputs of the graph.

    Raises:
        ValueError: The node is in no graph, or something reads what it makes.
    """
    graph = node.graph
    if graph is None or any(x.uses() or x.is_graph_output() for x in node.outputs):
        raise ValueError(f"{node.name} is in use, or removed already")
    hold_view(node)
    inputs = node.inputs
    if max(len(inputs), len(graph.outputs)) < MANY:
        graph.remove(node, safe=True)
        return
    node._inputs = (None,) * len(inputs)
    for index, value in enumerate(inputs):
        if value is not None:
            value._remove_usage(node, index)
    node.graph = None
    graph._nodes.remove(node)

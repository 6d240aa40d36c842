"""Element types of the inputs and outputs of subgraphs: Loop and If carry those of Identity."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.targets.legalize.carriers import carriers_of
from hlo2onnx.targets.target import Target


def carry_states(graph: oir.Graph, target: Target, builder: GraphBuilder) -> None:
    """Loop(x: i4) -> Cast(Loop(Cast(x, i8)), i4), and the same for If, in place, for element types
    that the target cannot carry. Subgraphs cast their inputs back where they read them.

    Values captured by subgraphs may have any type. An element type without a carrier stays.
    """
    for node in all_nodes(graph):
        if node.op_type not in ("If", "Loop"):
            continue
        for index, output in enumerate(node.outputs):
            dtype = dtype_of(output)
            if target.supports("Identity", dtype, builder.opset):
                continue
            for carrier in carriers_of("Identity", dtype):
                if target.supports("Identity", carrier, builder.opset):
                    _carry(node, index, carrier, builder)
                    break


def _carry(node: oir.Node, index: int, carrier: oir.DataType, builder: GraphBuilder) -> None:
    first_output, first_state = (1, 2) if node.op_type == "Loop" else (0, 0)
    for inner in subgraphs(node):
        with builder.at_end(inner):
            inner.outputs[index + first_output] = builder.cast(
                inner.outputs[index + first_output], carrier
            )
        if index < len(node.inputs) - first_state and first_state:
            given = node.inputs[index + first_state]
            assert given is not None
            with builder.before(node):
                node.replace_input_with(index + first_state, builder.cast(given, carrier))
            with builder.before(inner[0]):
                _retype(inner.inputs[index + first_state], carrier, builder)
    with builder.after(node):
        _retype(node.outputs[index], carrier, builder)


def _retype(value: oir.Value, carrier: oir.DataType, builder: GraphBuilder) -> None:
    """Gives a value the carrier's type, and its readers a cast back."""
    dtype, readers = dtype_of(value), list(value.uses())
    value.type = oir.TensorType(carrier)
    cast = builder.cast(value, dtype)
    for reader, position in readers:
        reader.replace_input_with(position, cast)
    owner = value.producer()
    if value.is_graph_output() and owner is not None and owner.graph is not None:
        outputs = owner.graph.outputs
        outputs[outputs.index(value)] = cast
        value.name, cast.name = cast.name, value.name

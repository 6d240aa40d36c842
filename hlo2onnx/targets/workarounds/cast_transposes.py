"""Transposes of half floats that are cast and multiplied, for runtimes that fuse all three.

ONNX Runtime 1.31 fuses a Transpose into a MatMul and looks through a Cast between the two. With a
Transpose of batch axes its process ends when it loads the model.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import can_replace, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import dtype_of


def widen_before_transposing(graph: oir.Graph, builder: GraphBuilder) -> None:
    """MatMul(Cast(Transpose(x))) -> MatMul(Transpose(Cast(x))), for casts of half floats to f32."""
    for node in all_nodes(graph):
        x = node.inputs[0] if node.op_type == "Cast" else None
        transpose = x.producer() if x is not None else None
        if transpose is None or transpose.op_type != "Transpose" or node.graph is None:
            continue
        source, wide = transpose.inputs[0], dtype_of(node.outputs[0])
        if source is None or dtype_of(source).bitwidth != 16 or wide != oir.DataType.FLOAT:
            continue
        if all(reader.op_type != "MatMul" for reader in node.outputs[0].consumers()):
            continue
        with builder.before(node):
            perm = transpose.attributes["perm"].as_ints()
            value = builder.transpose(builder.cast(source, wide), perm)
        if can_replace(node.outputs[0], value):
            replace(node, [value])

"""Zeros padded before a MaxPool, for runtimes that make them the padding of the MaxPool itself.

That is -inf: where all numbers beside the border are negative, the zeros were the maxima.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints, dtype_of, shape_of
from hlo2onnx.rewrite.replace import replace

PAD = "Pad_Fusion"


def spell_out_axes(node: oir.Node, builder: GraphBuilder) -> bool:
    """Names the axes of a Pad that a MaxPool reads, which is then left alone; False for others."""
    if len(node.inputs) > 3 or node.attributes.get_string("mode", "constant") != "constant":
        return False
    if not any(user.op_type == "MaxPool" for user in node.outputs[0].consumers()):
        return False
    x, pads, value = (*node.inputs, None)[:3]
    widths = const_ints(pads)
    if x is None or widths is None:
        return False
    half = len(widths) // 2
    axes = [axis for axis in range(half) if widths[axis] or widths[half + axis]]
    if not axes:
        return False
    kept = [*(widths[axis] for axis in axes), *(widths[half + axis] for axis in axes)]
    result = node.outputs[0]
    with builder.before(node):
        padded = builder.op(
            "Pad",
            x,
            builder.i64(kept),
            value,
            builder.i64(axes),
            types=[(dtype_of(result), shape_of(result))],
        )
    replace(node, [padded])
    return True

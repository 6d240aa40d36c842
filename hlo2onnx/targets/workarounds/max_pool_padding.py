"""Zeros padded before a MaxPool, for runtimes that replace them by the padding of the MaxPool.

That padding is -inf. Where all numbers at the border are negative, the zeros were the maxima.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints, dtype_of, shape_of


def spell_out_axes(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A Pad that a MaxPool reads with its axes as an input, which the runtime does not match; None
    for others."""
    if len(node.inputs) > 3 or node.attributes.get_string("mode", "constant") != "constant":
        return None
    if not any(user.op_type == "MaxPool" for user in node.outputs[0].consumers()):
        return None
    x, pads, value = (*node.inputs, None)[:3]
    widths = const_ints(pads)
    if x is None or widths is None:
        return None
    half = len(widths) // 2
    axes = [axis for axis in range(half) if widths[axis] or widths[half + axis]]
    if not axes:
        return None
    kept = [*(widths[axis] for axis in axes), *(widths[half + axis] for axis in axes)]
    types = [(dtype_of(node.outputs[0]), shape_of(node.outputs[0]))]
    return builder.op("Pad", x, builder.i64(kept), value, builder.i64(axes), types=types)  # type: ignore[no-any-return]

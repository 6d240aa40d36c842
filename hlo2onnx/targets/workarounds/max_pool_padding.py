"""Zeros padded before a MaxPool, for runtimes that replace them by the padding of the MaxPool.

That padding is -inf. Where all numbers at the border are negative, the zeros were the maxima.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.op_families import FORM_OPSET
from hlo2onnx.ir.values import const_ints, dtype_of, rank_of, shape_of


def spell_out_axes(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A Pad that a MaxPool reads with its axes as an input, which the runtime does not match; None
    for others.

    In opsets whose Pad has no axes, a further axis of extent 1 in front has the same effect.
    """
    if node.attributes.get_string("mode", "constant") != "constant":
        return None
    if not any(user.op_type == "MaxPool" for user in node.outputs[0].consumers()):
        return None
    x, pads, value, named = (*node.inputs, None, None)[:4]
    if x is None or (named is not None and builder.opset >= FORM_OPSET):
        return None
    widths, axes = const_ints(pads), range(rank_of(x)) if named is None else const_ints(named)
    if widths is None or axes is None:
        return None
    pairs = zip(axes, zip(widths, widths[len(axes) :], strict=False), strict=True)
    padded = {axis % rank_of(x): pair for axis, pair in pairs if any(pair)}
    if not padded:
        return None
    return (_in_front if builder.opset < FORM_OPSET else _named)(builder, node, padded, value)


_Widths = Mapping[int, tuple[int, int]]
"""By axis, how many elements come before and after."""


def _named(b: GraphBuilder, node: oir.Node, widths: _Widths, value: oir.Value | None) -> oir.Value:
    result = node.outputs[0]
    pads = [widths[axis][end] for end in (0, 1) for axis in widths]
    inputs = [node.inputs[0], b.i64(pads), value, b.i64(list(widths))]
    return b.op("Pad", *inputs, types=[(dtype_of(result), shape_of(result))])


def _in_front(
    b: GraphBuilder, node: oir.Node, widths: _Widths, value: oir.Value | None
) -> oir.Value:
    x, result = node.inputs[0], node.outputs[0]
    assert x is not None
    pads = [widths.get(axis - 1, (0, 0))[end] for end in (0, 1) for axis in range(rank_of(x) + 1)]
    types = [(dtype_of(result), (1, *shape_of(result)))]
    return b.squeeze(b.op("Pad", b.unsqueeze(x, [0]), b.i64(pads), value, types=types), [0])

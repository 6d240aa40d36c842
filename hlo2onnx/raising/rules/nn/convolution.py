"""Convolutions with padding in front of them, and as products of matrices."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import (
    const_ints,
    const_number,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, maker_of


class FoldPadIntoConv(Rule):
    """Conv(Pad(x, pads, 0), w) -> Conv(x, w) with these pads

    Legal for constant, non-negative pads of spatial axes only, each smaller than the kernel. A Pad
    with readers other than convolutions stays.
    """

    name = "fold-pad-into-conv"
    formerly = ("pad-into-convolution",)
    anchors = frozenset({"Conv"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        padded = first(node)
        pad = needed(maker_of(padded, "Pad"), "its operand is not padded", padded)
        x, amounts, value, axes = (*pad.inputs, None, None)[:4]
        pads = needed(const_ints(amounts), "its pads are computed", pad)
        mode = pad.attributes.get_string("mode", "constant")
        plain = mode == "constant" and axes is None and (value is None or const_number(value) == 0)
        need(plain and min(pads) >= 0, "it is not padded with zeros", pad)
        others = any(reader.op_type != "Conv" for reader in padded.consumers())
        need(
            not others and not padded.is_graph_output(), "other nodes read the padded value", padded
        )
        weights = node.inputs[1]
        assert weights is not None
        kernel, rank = shape_of(weights)[2:], rank_of(padded)
        need(node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET", "auto_pad", node)
        before, behind = pads[:rank], pads[rank:]
        need(not any((*before[:2], *behind[:2])), "batch or channels are padded", padded)
        own = node.attributes.get_ints("pads", [0] * 2 * len(kernel))
        total = [a + c for a, c in zip(own, (*before[2:], *behind[2:]), strict=True)]
        dilations = node.attributes.get_ints("dilations", [1] * len(kernel))
        for number, (extent, step) in enumerate(zip(kernel, dilations, strict=True)):
            need(isinstance(extent, int), "the size of the kernel is not known", weights)
            assert isinstance(extent, int)
            most = max(total[number], total[number + len(kernel)])
            need(most <= (extent - 1) * step, "some windows contain only zeros", node)
        return b.like(node, [x, *node.inputs[1:]], pads=total)

"""Layer normalization along an axis that is not the last one."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import extent_of
from hlo2onnx.raising.rules.nn.layer_normalization import (
    centred_by_deviation,
    has_root,
    need_few_terms,
)


class ChannelLayerNormalization(Rule):
    """(x - mean(x, 1)) / sqrt(var(x, 1) + e) -> Transpose(LayerNormalization(Transpose(x), 1))

    ConvNeXt normalizes the channels of images with channels second like this. Legal along any one
    axis of a known extent. `layer-normalization` does it along the last one. Scale and bias follow:
    the Transpose sinks past them. Done where that is faster: for many channels and small images.
    """

    name = "channel-layer-normalization"
    anchors = frozenset({"Div", "Mul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It may divide by a root, in a type that the kernel is exact in."""
        return has_root(op_type, sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, axes, scale, epsilon = centred_by_deviation(node)
        need(len(axes) == 1, "it runs over several axes", node)
        axis, rank = axes[0], rank_of(x)
        need(axis != rank - 1, "its axis is the last one", node)
        extent = needed(extent_of(x, axis), "the extent is not known", x)
        need_few_terms((extent,), b)
        need(extent >= b.costs.channel_norm_extent, "there are few channels", x)
        size = prod(dim for dim in shape_of(x) if isinstance(dim, int))
        need(size <= b.costs.channel_norm_elements, "the Transposes would take long", x)
        perm = [*(place for place in range(rank) if place != axis), axis]
        ones = b.const(np.ones(extent, dtype_of(x).numpy()))
        normal = b.LayerNormalization(b.transpose(x, perm), ones, axis=-1, epsilon=epsilon)
        made = b.transpose(normal, np.argsort(perm).tolist())
        return made if scale is None else b.Mul(made, scale)

"""Gradients of pools: window sums with one element in each window."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_of, rank_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.spread import Dims, spread_of
from hlo2onnx.raising.match.views import first


class PoolingGradient(Rule):
    """Conv(x with gaps of zeros, ones) -> x + 0, each element repeated as often as windows see it

    The gradient of an average pool sums windows as wide as the gaps, each of which holds one
    element. Legal if the windows of each channel are summed separately, in steps of 1, and every
    window holds exactly one element. Adding 0 turns -0 into +0, as the sum did.
    """

    name = "pooling-gradient"
    anchors = frozenset({"Conv"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        window = _window_of_ones(node)
        spread = first(node)
        mover = spread.producer()
        perm = list(range(rank_of(spread)))
        if mover is not None and mover.op_type == "Transpose":
            perm, spread = list(mover.attributes["perm"].as_ints()), first(mover)
        found = spread_of(spread)
        dims = static_shape(spread) or ()
        for axis, width in zip(perm, window, strict=True):
            alone = (found.steps[axis], found.starts[axis]) == (width, width - 1)
            whole = dims[axis] == found.dims[axis] * width + width - 1
            need(alone and whole, "a window does not hold exactly one element", node)
        x = b.Add(b.reshape(found.x, found.dims), found.zero)
        x = b.transpose(x, perm)
        for place, (axis, width) in enumerate(zip(perm, window, strict=True)):
            if width > 1:
                order = np.repeat(np.arange(found.dims[axis], dtype=np.int64), width)
                x = b.Gather(x, b.const(order), axis=place)
        return x


def _window_of_ones(node: oir.Node) -> Dims:
    """The window extents of a convolution that sums each channel.

    Raises:
        Refusal: It computes something else.
    """
    x, weights, *bias = node.inputs
    assert x is not None
    array, dims = const_of(weights), static_shape(x)
    need(
        array is not None and dims and not node.domain and not any(bias),
        "its weights are not ones",
        node,
    )
    assert array is not None and dims is not None
    groups = node.attributes.get_int("group", 1)
    alone = array.shape[:2] == (dims[1], 1) and groups == dims[1]
    need(alone and (array == 1).all(), "it does not sum each channel", node)
    for name, plain in (("strides", 1), ("dilations", 1), ("pads", 0)):
        need(set(node.attributes.get_ints(name, [plain])) == {plain}, f"it has {name}", node)
    need(node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET", "it is padded", node)
    return (1, 1, *array.shape[2:])

"""Convolutions: padding around the input, and convolutions that are matrix products."""

from __future__ import annotations

from itertools import product
from math import prod

import onnx_ir as oir

from hlo2onnx.ir.values import (
    const_ints,
    const_number,
    dtype_of,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, maker_of

_MOST_PLACES = 3
"""Places along an axis of the largest kernel for which products of matrices may be faster."""


class Window:
    """The kernel positions of a convolution of static size.

    Attributes:
        batch: The batch size.
        kernel: Outputs, channels, and the kernel's extent along each spatial axis.
        places: The number of positions along each spatial axis.
        pads: Zeros before, then after, each spatial axis.
        strides: Steps between positions along each spatial axis.
        dilations: Steps between elements under the kernel along each spatial axis.

    Raises:
        Refusal: Sizes are symbolic, or channels are in groups.
    """

    def __init__(self, node: oir.Node) -> None:
        x, weights = node.inputs[:2]
        assert x is not None and weights is not None
        image, kernel = static_shape(x), static_shape(weights)
        places = static_shape(node.outputs[0])
        need(image and kernel and places, "sizes are symbolic", node)
        assert image is not None and kernel is not None and places is not None
        need(0 not in (*image, *kernel, *places), "it is empty", node)
        need(node.attributes.get_int("group", 1) == 1, "channels are in groups", node)
        need(node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET", "auto_pad", node)
        self.batch, self.kernel, self.places = image[0], kernel, places[2:]
        rank = len(self.places)
        self.pads = tuple(node.attributes.get_ints("pads", [0] * 2 * rank))
        self.strides = tuple(node.attributes.get_ints("strides", [1] * rank))
        self.dilations = tuple(node.attributes.get_ints("dilations", [1] * rank))

    def cut(self, b: Rewriter, x: oir.Value, axis: int, place: int) -> oir.Value:
        """The input under the kernel at a position along a spatial axis. Spatial axes of x start at
        1."""
        start, step = place * self.strides[axis], self.dilations[axis]
        limit = start + step * (self.kernel[2 + axis] - 1) + 1
        return b.slice(x, [start], [limit], [step], [1 + axis])


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
        x, pads = _zeros_around(padded)
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


def _zeros_around(padded: oir.Value) -> tuple[oir.Value, tuple[int, ...]]:
    """The tensor that is padded with zeros, and the pads before and after each axis.

    Raises:
        Refusal: It is padded in another way, or not at all.
    """
    pad = needed(maker_of(padded, "Pad"), "its operand is not padded", padded)
    x, pads, value, axes = (*pad.inputs, None, None)[:4]
    amounts = const_ints(pads)
    mode = pad.attributes.get_string("mode", "constant")
    plain = mode == "constant" and axes is None and (value is None or const_number(value) == 0)
    need(
        plain and amounts is not None and min(amounts) >= 0,
        "it is not padded with constant zeros",
        pad,
    )
    assert x is not None and amounts is not None
    return x, amounts


class ConvFilterGradient(Rule):
    """Conv(x, w), where w has just a few places in x -> at each of them, MatMul(part of x, w)

    The gradient of a convolution by its weights is such a convolution: of the images with the
    gradient of the results, at as many positions as the weights have elements along an axis. ORT's
    convolution makes a matrix with a column for each position, which is too narrow for its kernels.
    The rule concatenates the parts at all positions along the last axis as channels, so that one
    product takes them, and uses one product for each position along the other axes. Legal for any
    numbers. Done for f32, one group, computed weights, and the measured sizes.
    """

    name = "conv-filter-gradient"
    formerly = ("kernel-gradient",)
    anchors = frozenset({"Conv"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, weights, *bias = node.inputs
        assert x is not None and weights is not None
        need(not node.domain and not any(bias), "it has a bias", node)
        need(dtype_of(x) == oir.DataType.FLOAT, "this type is not measured", x)
        need(weights.const_value is None, "the weights are constant", weights)
        window = Window(node)
        need(max(window.places) <= _MOST_PLACES, "the kernel has more places", node)
        work = window.batch * prod(window.kernel)
        need(window.batch > 1 and work >= b.costs.matmul_conv_work, "it is small", node)
        return self._products(x, weights, window, b)

    def _products(self, x: oir.Value, weights: oir.Value, window: Window, b: Rewriter) -> oir.Value:
        last_first = [*range(1, rank_of(x)), 0]
        outputs, *summed = window.kernel
        rows = b.reshape(b.transpose(weights, last_first), (prod(summed), outputs))
        x = b.transpose(x, last_first)
        if any(window.pads):
            half = len(window.pads) // 2
            x = b.Pad(x, b.i64([0, *window.pads[:half], 0, 0, *window.pads[half:], 0]))
        *others, last = range(len(window.places))
        wide = b.concat([window.cut(b, x, last, place) for place in range(window.places[last])], -1)
        columns = window.places[last] * window.batch
        made = []
        for places in product(*(range(window.places[axis]) for axis in others)):
            part = wide
            for axis, place in zip(others, places, strict=True):
                part = window.cut(b, part, axis, place)
            matrix = b.reshape(part, (prod(summed), columns))
            made.append(b.MatMul(b.transpose(matrix, (1, 0)), rows))
        whole = b.reshape(b.concat(made, 0), (*window.places, window.batch, outputs))
        spatial = len(window.places)
        return b.transpose(whole, (spatial, spatial + 1, *range(spatial)))

"""Convolutions with computed kernels as products of matrices, which take the kernels as they are.

JAX programs keep the outputs of a kernel last, ONNX convolutions keep them first. A kernel that is
an input of the model is transposed in every call, and has often more elements than the image.
"""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, is_private, maker_of


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


class ConvToMatMul(Rule):
    """Conv(x, Transpose(w), b), channels of w last -> MatMul(parts of Transpose(x), w) + b

    A Gather copies the channels under each place of the kernel into a row. Padding is a Pad, as the
    convolution multiplies zeros there too. Legal for any numbers, one group, and sizes that are
    known. Done for f32 and a kernel that this loop or call computes for this convolution alone, if
    it has many elements for each one of the image and the result.
    """

    name = "conv-to-matmul"
    anchors = frozenset({"Conv"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, kernel = first(node), _kernel(node)
        need(not node.domain, "it is another operator of this name", node)
        need(dtype_of(x) == oir.DataType.FLOAT, "this type is not measured", x)
        window = Window(node)
        moved = prod(fixed(shape_of(x))) + prod(fixed(shape_of(node.outputs[0])))
        elements = prod(window.kernel)
        need(elements >= b.costs.many_elements, "the kernel is small", node)
        need(elements >= moved, "the image is as large", node)
        rank = len(window.places)
        rows = _rows(b.transpose(x, [0, *range(2, rank + 2), 1]), window, b)
        outputs = window.kernel[0]
        made = b.MatMul(rows, b.reshape(kernel, (elements // outputs, outputs)))
        bias = (*node.inputs, None)[2]
        if bias is not None:
            made = b.Add(made, bias)
        return b.transpose(made, [0, rank + 1, *range(1, rank + 1)])


def _kernel(node: oir.Node) -> oir.Value:
    """The kernel of a convolution before it is transposed: outputs last, inputs before them.

    Raises:
        Refusal: It is another one, or it is the same for several convolutions.
    """
    weights = node.inputs[1]
    assert weights is not None
    turn = needed(maker_of(weights, "Transpose"), "its kernel is not transposed", weights)
    kernel, last = first(turn), rank_of(weights) - 1
    perm = [last, last - 1, *range(last - 1)]
    need(list(turn.attributes["perm"].as_ints()) == perm, "the outputs are not last", turn)
    need(kernel.const_value is None, "the kernel is constant", kernel)
    need(is_private(weights), "others read the transposed kernel", turn)
    maker = kernel.producer()
    home = kernel.graph if maker is None else maker.graph
    need(home is node.graph, "the kernel is computed outside of this body", kernel)
    return kernel


def _rows(x: oir.Value, window: Window, b: Rewriter) -> oir.Value:
    """The elements under the kernel, for each place and image; channels of x are last."""
    rank = len(window.places)
    before, after = window.pads[:rank], window.pads[rank:]
    steps = zip(window.kernel[2:], window.strides, before, after, strict=True)
    if all(step == (1, 1, 0, 0) for step in steps):
        return x
    if any(window.pads):
        x = b.Pad(x, b.i64([0, *before, 0, 0, *after, 0]))
    batch, *extents, channels = fixed(shape_of(x))
    places = np.zeros((1,) * 2 * rank, np.int64)
    for axis, extent in enumerate(extents):
        own = np.arange(window.places[axis])[:, None] * window.strides[axis]
        own = own + np.arange(window.kernel[2 + axis]) * window.dilations[axis]
        dims = [1] * 2 * rank
        dims[axis], dims[rank + axis] = own.shape
        places = places * extent + own.reshape(dims)
    size = prod(window.kernel[2:])
    places = places.reshape(*window.places, size)
    parts = b.Gather(b.reshape(x, (batch, prod(extents), channels)), b.const(places), axis=1)
    return b.reshape(parts, (batch, *window.places, size * channels))

"""Convolutions as products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.values import (
    dtype_of,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, is_private, maker_of, operands


class ConvToMatMul(Rule):
    """Conv(x, Transpose(w), b), channels of w last -> MatMul(parts of Transpose(x), w) + b

    A Gather copies the channels under each place of the kernel into a row. Padding is a Pad, as the
    convolution multiplies zeros there too. Legal for any numbers, one group, and sizes that are
    known. Done for f32 and a kernel that this loop or call computes for this convolution only, if
    it has as many elements as image and result together.
    """

    name = "conv-to-matmul"
    anchors = frozenset({"Conv"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, kernel = first(node), _kernel(node)
        need(not node.domain, "it is not a standard operator", node)
        need(dtype_of(x) == oir.DataType.FLOAT, "only f32 was measured", x)
        known = [static_shape(value) for value in (*operands(node)[:2], node.outputs[0])]
        image, sizes, places = (needed(dims, "sizes are symbolic", node) for dims in known)
        need(node.attributes.get_int("group", 1) == 1, "channels are in groups", node)
        need(node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET", "auto_pad", node)
        moved, elements = prod(image) + prod(places), prod(sizes)
        need(elements and prod(image) and prod(places), "it is empty", node)
        need(b.costs.many_elements < inf, "such products are not known to be faster", node)
        need(elements >= moved, "the kernel is smaller than image and result", node)
        rank = len(places) - 2
        rows = _rows(b.transpose(x, [0, *range(2, rank + 2), 1]), node, sizes[2:], places[2:], b)
        made = b.MatMul(rows, b.reshape(kernel, (elements // sizes[0], sizes[0])))
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
    need(is_private(weights), "the transposed kernel has other readers", turn)
    maker = kernel.producer()
    home = kernel.graph if maker is None else maker.graph
    need(home is node.graph, "the kernel is computed outside of this body", kernel)
    return kernel


def _rows(
    x: oir.Value, node: oir.Node, kernel: Sequence[int], places: Sequence[int], b: Rewriter
) -> oir.Value:
    """The elements under the kernel, for each place and image; channels of x are last."""
    rank = len(places)
    pads = node.attributes.get_ints("pads", [0] * 2 * rank)
    strides = node.attributes.get_ints("strides", [1] * rank)
    dilations = node.attributes.get_ints("dilations", [1] * rank)
    if set(kernel) == set(strides) == {1} and not any(pads):
        return x
    if any(pads):
        x = b.Pad(x, b.i64([0, *pads[:rank], 0, 0, *pads[rank:], 0]))
    batch, *extents, channels = fixed(shape_of(x))
    flat = np.zeros((1,) * 2 * rank, np.int64)
    for axis, extent in enumerate(extents):
        own = np.arange(places[axis])[:, None] * strides[axis]
        own = own + np.arange(kernel[axis]) * dilations[axis]
        dims = [1] * 2 * rank
        dims[axis], dims[rank + axis] = own.shape
        flat = flat * extent + own.reshape(dims)
    rows = b.const(flat.reshape(*places, prod(kernel)))
    parts = b.Gather(b.reshape(x, (batch, prod(extents), channels)), rows, axis=1)
    return b.reshape(parts, (batch, *places, prod(kernel) * channels))

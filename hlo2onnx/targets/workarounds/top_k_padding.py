"""TopK of floats, for runtimes that fill rows up to a power of two with the largest finite numbers.

onnxruntime-web 1.30 does that on WebGPU. It orders elements that are as large, or infinite, among
the filling, and gives -1 as their index. A row that already has a power of two elements is right.
"""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import FLOATS, dtype_of, rank_of, shape_of


def fill_rows(b: GraphBuilder, node: oir.Node) -> list[oir.Value] | None:
    """A TopK of rows filled up with infinities, which come last; None where nothing is missing.

    Of equal elements the first one comes first, so no infinity of the filling comes before one of
    the row.
    """
    x, count = node.inputs
    assert x is not None
    if is_filled(node) or not isinstance(extent := shape_of(x)[_axis(node)], int):
        return None
    pads = [0] * (2 * rank_of(x))
    pads[rank_of(x) + _axis(node)] = (1 << (extent - 1).bit_length()) - extent
    last = -math.inf if node.attributes.get_int("largest", 1) else math.inf
    filled = b.Pad(x, b.i64(pads), b.scalar_like(last, x))
    return b.copy_of(node, [filled, count])


def is_filled(node: oir.Node) -> bool:
    """Whether the rows have a power of two elements, or are not floats."""
    x = node.inputs[0]
    assert x is not None
    extent = shape_of(x)[_axis(node)]
    if dtype_of(x) not in FLOATS:
        return True
    return isinstance(extent, int) and extent.bit_count() <= 1


def _axis(node: oir.Node) -> int:
    x = node.inputs[0]
    assert x is not None
    return node.attributes.get_int("axis", -1) % rank_of(x)

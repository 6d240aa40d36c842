"""Sums, normalizations, TopK and Conv, for runtimes whose kernels are inexact or fail."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import (
    FLOATS,
    attributes_of,
    dtype_of,
    present,
    rank_of,
    shape_of,
    static_shape,
)
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.convolution import pad_spatial
from hlo2onnx.targets.decompositions.integer_ops import reduced_axes

# -- float sums ------------------------------------------------------------------------------------

# Long float sums, for runtimes that add one term after the other.
#
# A running f32 sum of n terms of one sign is off by up to n/2 ULP: 1e-3 at a million terms. In two
# rounds of about sqrt(n) terms each it is off by sqrt(n) ULP, and takes the same time.


def split_long_sum(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """A long ReduceSum or ReduceMean of f32 or f64 as two or more short sums; None if it is short.

    Sums the axes one after the other. Reshapes a long axis to (rows, columns) before, with zeros
    at the end if its extent has no suitable divisor.
    """
    x = present(node.inputs)[0]
    shape, axes = static_shape(x), reduced_axes(node)
    is_wide = dtype_of(x) in (oir.DataType.FLOAT, oir.DataType.DOUBLE)
    if shape is None or axes is None or not is_wide:
        return None
    inner = axes == tuple(range(len(shape) - len(axes), len(shape)))
    count = math.prod(shape[axis] for axis in axes)
    if count < (b.costs.inner_sum_terms if inner else b.costs.outer_sum_terms):
        return None
    result = x
    for axis in reversed(axes):
        result = _sum_axis(b, result, axis)
    if node.op_type == "ReduceMean":
        result = b.Div(result, b.scalar_like(count, x))
    if node.attributes.get_int("keepdims", 1):
        return result
    return b.reshape(result, static_shape(node.outputs[0]) or ())


def _sum_axis(b: TargetBuilder, x: oir.Value, axis: int) -> oir.Value:
    """The sum over one axis, kept with extent 1."""
    shape = list(static_shape(x) or ())
    extent = shape[axis]
    if extent < b.costs.outer_sum_terms:
        return _reduce(b, x, axis)
    rows, columns = _split(extent)
    if rows * columns != extent:
        pads = [0] * (2 * len(shape))
        pads[len(shape) + axis] = rows * columns - extent
        x = b.Pad(x, b.i64(pads))
    x = b.reshape(x, [*shape[:axis], rows, columns, *shape[axis + 1 :]])
    first = b.ReduceSum(x, b.i64([axis + 1]), keepdims=0)
    return _reduce(b, first, axis)


def _reduce(b: TargetBuilder, x: oir.Value, axis: int) -> oir.Value:
    return b.ReduceSum(x, b.i64([axis]), keepdims=1)


def _split(extent: int) -> tuple[int, int]:
    """(rows, columns) near the square root of the extent, exact when a divisor is near it."""
    root = math.isqrt(extent)
    for rows in range(root, max(root // 4, 1), -1):
        if extent % rows == 0:
            return rows, extent // rows
    return root, -(-extent // root)


# -- naive variance --------------------------------------------------------------------------------

# Normalizations, for runtimes that compute the variance as the mean of squares less the square of
# the mean, which loses the digits that both share.


_CENTERED = "hlo2onnx.centered"
"""In the metadata of a normalization: it is one of rows less their means."""


def center_rows(b: GraphBuilder, node: oir.Node) -> list[oir.Value] | None:
    """LayerNormalization(x, ...) -> LayerNormalization(x - ReduceMean(x), ...); likewise for
    InstanceNormalization. None where the mean is an output."""
    x, *others = present(node.inputs)
    read = [y for y in node.outputs if y.uses() or y.is_graph_output()]
    if node.meta.get(_CENTERED) or len(read) > 1:
        return None
    first = 2
    if node.op_type == "LayerNormalization":
        first = node.attributes.get_int("axis", -1) % rank_of(x)
    mean = b.ReduceMean(x, b.i64(range(first, rank_of(x))), keepdims=1)
    types = [(dtype_of(y), shape_of(y)) for y in node.outputs[:1]]
    made = b.copy_of(node, [b.Sub(x, mean), *others], types)
    b.made[-1].meta[_CENTERED] = True
    return [*made, *node.outputs[1:]]


# -- top k padding ---------------------------------------------------------------------------------

# TopK of floats, for runtimes that pad rows to a power of two with the largest finite numbers.
#
# onnxruntime-web 1.30 does that on WebGPU. It mixes elements that are as large, or infinite, with
# the padding, and gives -1 as their index. A row that already has a power of two elements is right.


def fill_rows(b: GraphBuilder, node: oir.Node) -> list[oir.Value] | None:
    """A TopK of rows padded with infinities, which come last; None where no padding is needed.

    Of equal elements the first one comes first, so no infinity of the padding comes before one of
    the row.
    """
    x, count = present(node.inputs)
    if is_filled(node) or not isinstance(extent := shape_of(x)[_axis(node)], int):
        return None
    pads = [0] * (2 * rank_of(x))
    pads[rank_of(x) + _axis(node)] = (1 << (extent - 1).bit_length()) - extent
    last = -math.inf if node.attributes.get_int("largest", 1) else math.inf
    filled = b.Pad(x, b.i64(pads), b.scalar_like(last, x))
    return b.copy_of(node, [filled, count])


def is_filled(node: oir.Node) -> bool:
    """Whether the rows have a power of two elements, or are not floats."""
    x = present(node.inputs)[0]
    extent = shape_of(x)[_axis(node)]
    return dtype_of(x) not in FLOATS or (isinstance(extent, int) and extent.bit_count() <= 1)


def _axis(node: oir.Node) -> int:
    return node.attributes.get_int("axis", -1) % rank_of(node.outputs[0])


# -- convolution -----------------------------------------------------------------------------------


def trim_rows(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """A Conv without the padding, or the elements, behind its only window along an axis.

    IREE does not compile one that has them: a network for images whose last stage, of stride 2,
    has 2 x 2 elements and a padding of 1.
    """
    x, kernel, *bias = present(node.inputs)
    shapes = [static_shape(value) for value in (x, kernel, node.outputs[0])]
    given = attributes_of(node)
    axes = range(rank_of(x) - 2)
    before = [*given.get("pads", [0] * 2 * len(axes))]
    dilations, pads = given.get("dilations", [1] * len(axes)), [*before]
    for axis in axes:
        extent, size, count = (None if dims is None else dims[axis + 2] for dims in shapes)
        if extent is None or size is None or count != 1:
            continue
        read = (size - 1) * dilations[axis] + 1 - pads[axis]
        if read > 0:
            pads[len(axes) + axis] = read - extent
    if pads == before:
        return None
    x = pad_spatial(b, x, [min(width, 0) for width in pads])
    kept = {**given, "pads": [max(width, 0) for width in pads]}
    types = [(dtype_of(x), shape_of(node.outputs[0]))]
    made: oir.Value = b.op("Conv", x, kernel, *bias, types=types, **kept)
    return made

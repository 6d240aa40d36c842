"""Long float sums, for runtimes that add up one term after the other.

A running f32 sum of n terms of one sign is off by up to n/2 ULP: 1e-3 at a million terms. Summed in
two rounds of about sqrt(n) terms each it is off by sqrt(n) ULP, in the same time.
"""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints, dtype_of, static_shape
from hlo2onnx.rewrite.replace import replace

LONG_INNER = 2048
"""Terms from which a sum over trailing axes, which the runtime adds in several lanes, is split."""
LONG_OUTER = 128
"""Terms from which a sum over other axes is split."""


def split_long_sum(node: oir.Node, builder: GraphBuilder) -> bool:
    """Replaces a long ReduceSum or ReduceMean of f32 or f64 by two or more short sums; False if it
    is short.

    Axes are summed one after the other; a long one is viewed as (rows, columns) first, with zeros
    at the end when its extent has no fitting divisor.
    """
    x = node.inputs[0]
    assert x is not None
    shape = static_shape(x)
    axes = _axes(node)
    if (
        shape is None
        or axes is None
        or dtype_of(x) not in (oir.DataType.FLOAT, oir.DataType.DOUBLE)
    ):
        return False
    inner = axes == list(range(len(shape) - len(axes), len(shape)))
    count = math.prod(shape[axis] for axis in axes)
    if count < (LONG_INNER if inner else LONG_OUTER):
        return False
    with builder.before(node):
        result = x
        for axis in reversed(axes):
            result = _sum_axis(builder, result, axis)
        if node.op_type == "ReduceMean":
            result = builder.Div(result, builder.scalar_like(count, x))
        if not node.attributes.get_int("keepdims", 1):
            result = builder.reshape(result, static_shape(node.outputs[0]) or ())
    replace(node, [result])
    return True


def _axes(node: oir.Node) -> list[int] | None:
    x = node.inputs[0]
    assert x is not None and x.shape is not None
    rank = len(x.shape)
    given = const_ints(node.inputs[1]) if len(node.inputs) > 1 else ()
    if given is None:
        return None
    if not given:
        return [] if node.attributes.get_int("noop_with_empty_axes", 0) else list(range(rank))
    return sorted(axis % rank for axis in given)


def _sum_axis(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    """The sum over one axis, kept with extent 1."""
    shape = list(static_shape(x) or ())
    extent = shape[axis]
    if extent < LONG_OUTER:
        return _reduce(b, x, axis)
    rows, columns = _split(extent)
    if rows * columns != extent:
        pads = [0] * (2 * len(shape))
        pads[len(shape) + axis] = rows * columns - extent
        x = b.Pad(x, b.i64(pads))
    x = b.reshape(x, [*shape[:axis], rows, columns, *shape[axis + 1 :]])
    first = b.ReduceSum(x, b.i64([axis + 1]), keepdims=0)
    return _reduce(b, first, axis)


def _reduce(b: GraphBuilder, x: oir.Value, axis: int) -> oir.Value:
    return b.ReduceSum(x, b.i64([axis]), keepdims=1)


def _split(extent: int) -> tuple[int, int]:
    """(rows, columns) near the square root of the extent, exact when a divisor is near it."""
    root = math.isqrt(extent)
    for rows in range(root, max(root // 4, 1), -1):
        if extent % rows == 0:
            return rows, extent // rows
    return root, -(-extent // root)

"""Long float sums, for runtimes that add one term after the other.

A running f32 sum of n terms of one sign is off by up to n/2 ULP: 1e-3 at a million terms. In two
rounds of about sqrt(n) terms each it is off by sqrt(n) ULP, and takes the same time.
"""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, static_shape
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.integer_ops import reduced_axes


def split_long_sum(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """A long ReduceSum or ReduceMean of f32 or f64 as two or more short sums; None if it is short.

    Sums the axes one after the other. Reshapes a long axis to (rows, columns) before, with zeros
    at the end if its extent has no suitable divisor.
    """
    x = node.inputs[0]
    assert x is not None
    shape = static_shape(x)
    axes = reduced_axes(node)
    if (
        shape is None
        or axes is None
        or dtype_of(x) not in (oir.DataType.FLOAT, oir.DataType.DOUBLE)
    ):
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

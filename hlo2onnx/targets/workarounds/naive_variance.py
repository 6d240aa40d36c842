"""Normalizations, for runtimes that compute the variance as the mean of squares less the square of
the mean, which loses the digits that both share."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of, dtype_of, rank_of, shape_of


def center_rows(b: GraphBuilder, node: oir.Node) -> list[oir.Value] | None:
    """LayerNormalization(x, ...) -> LayerNormalization(x - ReduceMean(x), ...); likewise for
    InstanceNormalization. None where x is such a difference, or where the mean is an output."""
    x, *others = node.inputs
    assert x is not None
    first = 2
    if node.op_type == "LayerNormalization":
        first = node.attributes.get_int("axis", -1) % rank_of(x)
    axes = list(range(first, rank_of(x)))
    if len([y for y in node.outputs if y.uses() or y.is_graph_output()]) > 1:
        return None
    if _is_centered(x, axes):
        return None
    mean = b.ReduceMean(x, b.i64(axes), keepdims=1)
    types = [(dtype_of(y), shape_of(y)) for y in node.outputs[:1]]
    inputs = [b.Sub(x, mean), *others]
    made = b.copy_of(node, inputs, types)
    return [*made, *node.outputs[1:]]


def _is_centered(x: oir.Value, axes: list[int]) -> bool:
    """Whether x is the difference of a tensor and its mean along these axes."""
    difference = x.producer()
    if difference is None or difference.op_type != "Sub":
        return False
    left, right = difference.inputs
    mean = None if right is None else right.producer()
    if mean is None or mean.op_type != "ReduceMean" or mean.inputs[0] is not left:
        return False
    known = const_of(mean.inputs[1]) if len(mean.inputs) > 1 and mean.inputs[1] else None
    return known is not None and sorted(int(i) % rank_of(x) for i in known.reshape(-1)) == axes

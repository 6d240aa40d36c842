"""Bodies of loops and branches that compute the same."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.rewrite.cse import node_key
from hlo2onnx.rewrite.licm import is_repeatable

Pairs = Mapping[oir.Value, oir.Value]


def have_equal_bodies(node: oir.Node, other: oir.Node, pairs: Pairs) -> bool:
    """Whether the bodies of two nodes have the same nodes in the same order.

    Args:
        pairs: Values around the first node, and those that the second one reads instead.
    """
    mine, others = subgraphs(node), subgraphs(other)
    return len(mine) == len(others) and all(
        _are_equal(body, twin, pairs) for body, twin in zip(mine, others, strict=True)
    )


def _are_equal(body: oir.Graph, twin: oir.Graph, outer: Pairs) -> bool:
    if not (
        len(body) == len(twin)
        and len(body.outputs) == len(twin.outputs)
        and list(map(_type, body.inputs)) == list(map(_type, twin.inputs))
    ):
        return False
    pairs = {**outer, **dict(zip(body.inputs, twin.inputs, strict=True))}
    for node, other in zip(body, twin, strict=True):
        inputs = [x if x is None else pairs.get(x, x) for x in node.inputs]
        is_equal = node_key(node, inputs) == node_key(other, other.inputs)
        if not (is_equal and is_repeatable(node) and have_equal_bodies(node, other, pairs)):
            return False
        pairs.update(zip(node.outputs, other.outputs, strict=True))
    return all(pairs.get(x, x) is y for x, y in zip(body.outputs, twin.outputs, strict=True))


def _type(value: oir.Value) -> object:
    return dtype_of(value), shape_of(value)

"""Nodes that compute the same, and bodies of loops and branches that do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.rewrite.licm import is_repeatable

Pairs = Mapping[oir.Value, oir.Value]


def node_key(node: oir.Node, inputs: Sequence[oir.Value | None]) -> Hashable:
    """A key that is equal for nodes that compute the same from these operands, if their bodies
    do."""
    # `data` is the dict itself, see `subgraphs`.
    data = node.attributes.data
    attributes: Hashable = ()
    if data:
        names = sorted(data) if len(data) > 1 else data
        attributes = tuple([(name, _attribute_key(data[name])) for name in names])
    return (node.domain, node.op_type, len(node.outputs), tuple(inputs), attributes)


_PLAIN = frozenset({oir.AttributeType.INT, oir.AttributeType.INTS})
"""Types of attributes whose values are equal if they compare so. Floats are not: 0 and -0, NaN."""


def _attribute_key(attribute: oir.Attr) -> Hashable:
    if attribute.type in _PLAIN:
        plain: int | tuple[int, ...] = attribute.value
        return plain
    if attribute.type == oir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{tensor.dtype}{tensor.shape}{tensor.tobytes()!r}"
    if attribute.type == oir.AttributeType.GRAPH:
        return ""
    return f"{attribute.type.name}{attribute.value!r}"


def have_equal_bodies(node: oir.Node, other: oir.Node, pairs: Pairs) -> bool:
    """Whether the bodies of two nodes have the same nodes, in any order.

    Args:
        pairs: Values around the first node, and those that the second one reads instead.
    """
    mine, others = subgraphs(node), subgraphs(other)
    return len(mine) == len(others) and all(
        _compute_the_same(body, twin, pairs) for body, twin in zip(mine, others, strict=True)
    )


def _compute_the_same(body: oir.Graph, twin: oir.Graph, outer: Pairs) -> bool:
    if not (
        len(body) == len(twin)
        and len(body.outputs) == len(twin.outputs)
        and list(map(_type, body.inputs)) == list(map(_type, twin.inputs))
    ):
        return False
    pairs = {**outer, **dict(zip(body.inputs, twin.inputs, strict=True))}
    left: dict[Hashable, list[oir.Node]] = {}
    for other in twin:
        left.setdefault(node_key(other, other.inputs), []).append(other)
    for node in body:
        key = node_key(node, [x if x is None else pairs.get(x, x) for x in node.inputs])
        others = left.get(key, []) if is_repeatable(node) else []
        found = next((one for one in others if have_equal_bodies(node, one, pairs)), None)
        if found is None:
            return False
        others.remove(found)
        pairs.update(zip(node.outputs, found.outputs, strict=True))
    return all(pairs.get(x, x) is y for x, y in zip(body.outputs, twin.outputs, strict=True))


def _type(value: oir.Value) -> object:
    return dtype_of(value), shape_of(value)

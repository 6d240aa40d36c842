"""Moves nodes out of loops whose trips they do not depend on; merges equal nodes over equal inputs,
loops and branches too.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.replace import can_replace, detach, replace
from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of

RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike",
                    "RandomUniform", "RandomUniformLike"})  # fmt: skip
"""Operators that give another result each time."""


def is_repeatable(node: oir.Node) -> bool:
    """Whether the node gives the same result in every run. For operators of other domains that is
    unknown."""
    return node.op_type not in RANDOM and not node.domain


def hoist_invariants(graph: oir.Graph) -> int:
    """Moves nodes of Loop bodies that read no value of the body in front of the Loop; returns how
    many.

    They then run once, even if the loop makes no trip: no operator that we emit fails or has side
    effects. Nodes of branches stay, because they may be expensive and never run.
    """
    count = 0
    for loop in nodes_in(graph):
        for body in subgraphs(loop):
            count += hoist_invariants(body)
            for node in nodes_in(body) if loop.op_type == "Loop" else ():
                if _is_fixed(node):
                    body.remove(node)
                    graph.insert_before(loop, node)
                    count += 1
    return count


def _is_fixed(node: oir.Node) -> bool:
    """Whether a node of a body reads no value of the body and can move out of it."""
    for x in node.inputs:
        if x is not None:
            maker = x.producer()
            owner = maker.graph if maker is not None else x.graph if x.is_graph_input() else None
            if owner is node.graph:
                return False
    return (
        not subgraphs(node)
        and is_repeatable(node)
        and not any(output.is_graph_output() for output in node.outputs)
    )


def eliminate_common_subexpressions(
    graph: oir.Graph, outer: dict[Hashable, oir.Node] | None = None
) -> int:
    """Removes nodes equal to an earlier node of this graph or of a graph around it; returns how
    many. Random nodes stay, and nodes with such a node in their bodies.

    Args:
        outer: The nodes of the graphs around it, by their keys. It is left as it is.
    """
    seen = {} if outer is None else outer
    own: list[Hashable] = []
    count = 0
    for node in nodes_in(graph):
        inner = subgraphs(node)
        if inner:
            count += sum(eliminate_common_subexpressions(subgraph, seen) for subgraph in inner)
        if not is_repeatable(node):
            continue
        key = node_key(node, node.inputs)
        earlier = seen.setdefault(key, node)
        if earlier is node:
            own.append(key)
        elif all(map(can_replace, node.outputs, earlier.outputs)):
            if inner and not have_equal_bodies(node, earlier, {}):
                continue
            for body in inner:
                detach(body)
            replace(node, earlier.outputs)
            count += 1
    for key in own:  # nodes around this graph and after it do not see its values
        del seen[key]
    return count


Pairs = Mapping[oir.Value, oir.Value]


def node_key(node: oir.Node, inputs: Sequence[oir.Value | None]) -> Hashable:
    """A key that is equal for nodes that compute the same from these operands, if their bodies are
    equal."""
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

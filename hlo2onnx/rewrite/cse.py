"""Common subexpressions: equal nodes over equal inputs become one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

import onnx_ir as oir

from hlo2onnx.ir.traversal import nodes_in, subgraphs
from hlo2onnx.rewrite.equal_bodies import have_equal_bodies, node_key
from hlo2onnx.rewrite.large_graphs import replace_input, use_count
from hlo2onnx.rewrite.licm import is_repeatable
from hlo2onnx.rewrite.replace import can_replace, detach, replace


def eliminate_common_subexpressions(
    graph: oir.Graph, outer: dict[Hashable, oir.Node] | None = None
) -> int:
    """Removes nodes equal to an earlier node of this graph or of a graph around it; returns how
    many. Equal stacked outputs of a Loop become one. Random nodes stay, and nodes with such a node
    in their bodies.

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
            count += _share_stacks(node) if node.op_type == "Loop" else 0
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


_MOST_READERS = 64
"""With more readers, a value does not tell whether two nodes are equal: that would take quadratic
time."""


def may_merge(nodes: Iterable[oir.Node]) -> bool:
    """Whether `eliminate_common_subexpressions` may merge one of these nodes with another node.

    Equal nodes read the same values. So only the other readers of one operand are compared.
    """
    for node in nodes:
        if node.op_type == "Loop" and any(_equal_stacks(node)):
            return True
        if not is_repeatable(node):
            continue
        inputs = [x for x in node.inputs if x is not None]
        if not inputs:
            return True
        rarest = min(inputs, key=use_count) if len(inputs) > 1 else inputs[0]
        if use_count(rarest) > _MOST_READERS:
            return True
        if use_count(rarest) > 1 and any(_are_equal(node, x) for x in rarest.consumers()):
            return True
    return False


def _are_equal(node: oir.Node, other: oir.Node) -> bool:
    if other is node or other.op_type != node.op_type or other.inputs != node.inputs:
        return False
    is_equal = node_key(node, node.inputs) == node_key(other, other.inputs)
    return is_equal and have_equal_bodies(node, other, {})


def _share_stacks(loop: oir.Node) -> int:
    """Replaces outputs of a Loop that stack the same values by the first of them; returns how many
    outputs are no longer read."""
    count = 0
    for output, earlier in _equal_stacks(loop):
        for reader, position in list(output.uses()):  # a graph's output stays what it is
            replace_input(reader, position, earlier)
        count += not output.is_graph_output()
    return count


def _equal_stacks(loop: oir.Node) -> Iterator[tuple[oir.Value, oir.Value]]:
    """The read outputs of a Loop that stack the same values as an earlier one, and that one."""
    seen: dict[Hashable, oir.Value] = {}
    for stacked, output in _stacks(loop):
        earlier = seen.setdefault(_origin(stacked), output)
        if earlier is not output and use_count(output):
            yield output, earlier


def _stacks(loop: oir.Node) -> Iterator[tuple[oir.Value, oir.Value]]:
    """Pairs of a value in the body of a Loop and the output that stacks it."""
    states = len(loop.inputs) - 2
    stacked = loop.attributes["body"].as_graph().outputs[1 + states :]
    return zip(stacked, loop.outputs[states:], strict=True)


def _origin(value: oir.Value) -> Hashable:
    """A key that is equal for stacks of the same value, at any depth, and for copies."""
    node = value.producer()
    if node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        return _origin(node.inputs[0])
    if node is not None and node.op_type == "Loop":
        for stacked, output in _stacks(node):
            if output is value:
                return (node, _origin(stacked))
    return value

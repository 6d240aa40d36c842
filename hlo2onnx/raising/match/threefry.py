"""Uses of Threefry: which of them wait for others, and what they are computed from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.threefry import THREEFRY
from hlo2onnx.ir.traversal import nodes_in, reads, subgraphs
from hlo2onnx.ir.values import size_of
from hlo2onnx.raising.engine import Rewriter, need
from hlo2onnx.raising.match.copies import copy_nodes, is_speculatable, makers_within

_MOST_NODES = 16
"""Nodes that may be copied: a limit on the model's size, no cost."""


def pairs_of_words(node: oir.Node) -> int:
    """How many pairs of words a use makes; 0 if that is unknown."""
    return size_of(node.outputs[0]) or 0


def threefry_levels(
    graph: oir.Graph,
    without: Collection[oir.Node] = (),
    outer: Mapping[oir.Value, int] | None = None,
) -> dict[oir.Value, int]:
    """How many nodes of Threefry are on the longest path to each value that a graph computes.

    Values that are missing are at level 0. Branches of an If count, bodies of loops do not.

    Args:
        without: Nodes whose outputs count as given.
        outer: The levels of values around the graph.
    """
    levels = dict(outer or {})
    for node in nodes_in(graph):
        op_type, level = node.op_type, 0
        if op_type == "If":  # the levels around it are among the others
            for branch in subgraphs(node):
                level = max(level, *threefry_levels(branch, (), levels).values(), 0)
        elif levels:
            operands = reads(node) if node.attributes.data else node.inputs
            level = max([levels[x] for x in operands if x in levels], default=0)
        level += op_type == THREEFRY
        if level and node not in without:
            levels.update(dict.fromkeys(node.outputs, level))
    return levels


def chain_to(last: oir.Node) -> list[oir.Node]:
    """The nodes of its graph that a node is computed by, and the node, in order.

    Raises:
        Refusal: They are not fit to be copied, or the node gives an output of the graph.
    """
    inner = not any(x.is_graph_output() for x in last.outputs)
    need(inner, "the words themselves are outputs", last)
    graph = last.graph
    assert isinstance(graph, oir.Graph)
    found = makers_within(graph, last.outputs)
    need(len(found) <= _MOST_NODES, "its key or its counters take many nodes", last)
    for each in found:
        need(is_speculatable(each), "it may fail where the program does not run it", each)
    return found


def copied_chain(
    b: Rewriter, chain: Sequence[oir.Node], values: Mapping[oir.Value, oir.Value]
) -> list[oir.Value]:
    """The outputs of a copy of a chain's last node.

    Args:
        values: What the copy reads in place of other values.
    """
    known = dict(values)
    copy_nodes(b, chain, known)
    return [known[x] for x in chain[-1].outputs]

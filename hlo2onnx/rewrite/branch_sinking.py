"""Moves nodes into the only branch that reads them."""

from __future__ import annotations

from collections import Counter

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, nodes_in, subgraphs
from hlo2onnx.ir.values import present
from hlo2onnx.rewrite.large_graphs import use_count
from hlo2onnx.rewrite.licm import is_repeatable


def sink_into_branches(graph: oir.Graph) -> int:
    """Moves nodes in front of an If that only one of its branches reads into that branch; returns
    how many. They then run only if the branch is taken.

    Loops stay. So do nodes of constants, which runtimes compute when they load a model, and
    Transposes, which runtimes fuse with products in the same graph.
    """
    count = 0
    for node in nodes_in(graph):
        for subgraph in subgraphs(node):
            if node.op_type == "If" and not node.domain:
                count += _fill(subgraph, graph)
            count += sink_into_branches(subgraph)
    return count


def _fill(branch: oir.Graph, around: oir.Graph) -> int:
    """Moves nodes to the front of a branch, each before those that read it."""
    pending, read, moved = list(all_nodes(branch)), Counter[oir.Value](), 0
    while pending:
        for x in present(pending.pop().inputs):
            node = x.producer()
            if node is None or node.graph is not around:
                continue
            read[x] += 1
            if all(use_count(y) == read[y] for y in node.outputs) and _is_movable(node):
                around.remove(node)
                branch.insert_before(branch[0], node)
                pending += [node, *_inner_nodes(node)]
                moved += 1
    return moved


def _is_movable(node: oir.Node) -> bool:
    reads = any(x is not None and x.const_value is None for x in node.inputs)
    stays = node.op_type in ("Loop", "Scan", "Transpose")
    is_plain = not stays and all(map(is_repeatable, (node, *_inner_nodes(node))))
    return is_plain and reads and not any(x.is_graph_output() for x in node.outputs)


def _inner_nodes(node: oir.Node) -> list[oir.Node]:
    return [inner for body in subgraphs(node) for inner in all_nodes(body)]

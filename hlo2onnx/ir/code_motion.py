"""Moves nodes out of loops whose trips they do not depend on, and into the only branch that
reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import onnx_ir as oir

from hlo2onnx.ir.traversal import all_nodes, nodes_in, subgraphs, use_count
from hlo2onnx.ir.values import present

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
    for node in nodes_in(graph):
        if not node.attributes.data:
            continue
        for subgraph in subgraphs(node):
            count += hoist_invariants(subgraph)
            if node.op_type == "Loop":
                count += hoist_out_of(node, subgraph, graph)
    return count


def hoist_out_of(loop: oir.Node, body: oir.Graph, graph: oir.Graph) -> int:
    """The same for one Loop of a graph, and the nodes of its body."""
    inside: set[oir.Value] = set(body.inputs)
    moved = 0
    for node in nodes_in(body):
        fixed = inside.isdisjoint(node.inputs) and not (  # most nodes read values of the body
            subgraphs(node)
            or not is_repeatable(node)
            or any(output.is_graph_output() for output in node.outputs)
        )
        if fixed:
            body.remove(node)
            graph.insert_before(loop, node)
            moved += 1
        else:
            inside.update(node.outputs)
    return moved


def may_hoist(nodes: Iterable[oir.Node], owners: Mapping[oir.Graph, oir.Node]) -> bool:
    """Whether `hoist_invariants` moves one of these nodes.

    Args:
        owners: The node of each body.
    """
    for node in nodes:
        body = node.graph
        loop = owners.get(body) if isinstance(body, oir.Graph) else None
        if loop is not None and loop.op_type == "Loop" and _is_fixed(node):
            return True
    return False


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

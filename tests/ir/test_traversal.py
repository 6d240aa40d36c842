"""Lists of the nodes of a graph and of the bodies in it."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes, nodes_in, reads, remove_node

X = np.ones(2, np.float32)


def nested() -> oir.Graph:
    """An If in a branch of an If, with a node before and after each."""

    def branch(b: GraphBuilder, x: oir.Value, depth: int) -> oir.Graph:
        with b.subgraph([], "branch") as graph:
            graph.outputs.append(choice(b, b.Neg(x), depth - 1) if depth else b.Abs(x))
        return graph

    def choice(b: GraphBuilder, x: oir.Value, depth: int) -> oir.Value:
        branches = {"then_branch": branch(b, x, depth), "else_branch": branch(b, x, 0)}
        condition = b.const(np.array(True))
        return b.Exp(b.op("If", condition, types=[(oir.DataType.FLOAT, (2,))], **branches))

    return model_of(lambda b, x: choice(b, x, 1), {"x": X}).graph


def test_nodes_of_bodies_follow_their_node() -> None:
    kinds = [node.op_type for node in all_nodes(nested())]
    assert kinds == ["If", "Neg", "If", "Abs", "Abs", "Exp", "Abs", "Exp"]


def test_nodes_may_be_removed_and_added_meanwhile() -> None:
    graph = model_of(lambda b, x: [b.Neg(x), b.Abs(x), b.Exp(x)][2], {"x": X}).graph
    found = []
    for node in all_nodes(graph):
        found.append(node.op_type)
        if node.op_type == "Neg":
            remove_node(graph[1])
            graph.append(oir.Node("", "Sin", [graph.inputs[0]]))
    assert found == ["Neg", "Abs", "Exp"]
    assert [node.op_type for node in nodes_in(graph)] == ["Neg", "Exp", "Sin"]
    assert nodes_in(graph) == list(graph)


def test_what_a_node_with_bodies_reads() -> None:
    graph = nested()
    outer, last = nodes_in(graph)
    x = graph.inputs[0]
    assert reads(outer).count(x) == 2
    assert reads(last) == [outer.outputs[0]]

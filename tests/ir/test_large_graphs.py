"""Edits of nodes with few and with many inputs, and of graphs with few and many outputs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import (
    freeing_removed_nodes,
    remove_node,
    replace_input,
    replace_uses,
)

X = np.ones(2, np.float32)
INPUTS = {"x": X, "y": X}
few_and_many = pytest.mark.parametrize("count", [3, 64])


def joined(count: int) -> tuple[oir.Graph, oir.Node]:
    """A Concat that reads x so many times."""
    graph = model_of(lambda b, x, y: b.concat([x] * count, 0), INPUTS).graph
    (node,) = graph
    return graph, node


def readers(value: oir.Value) -> set[tuple[str, int]]:
    return {(node.op_type, index) for node, index in value.uses()}


@few_and_many
def test_replace_one_input(count: int) -> None:
    graph, node = joined(count)
    x, y = graph.inputs
    replace_input(node, 1, y)
    assert list(node.inputs) == [x, y, *[x] * (count - 2)]
    assert readers(y) == {("Concat", 1)}
    assert readers(x) == {("Concat", index) for index in range(count) if index != 1}


@few_and_many
def test_replace_all_uses(count: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> Sequence[oir.Value]:
        return [b.Neg(x), b.concat([x] * count, 0)]

    graph = model_of(build, INPUTS).graph
    x, y = graph.inputs
    replace_uses(x, y)
    assert not x.uses()
    assert len(y.uses()) == count + 1


def test_a_replaced_value_is_no_output_any_more() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> Sequence[oir.Value]:
        negative = b.Neg(x)
        return [negative, b.Abs(y), negative]

    graph = model_of(build, INPUTS).graph
    negative, magnitude, _ = graph.outputs
    other = graph.inputs[1]
    replace_uses(negative, other)
    assert list(graph.outputs) == [other, magnitude, other]


@few_and_many
@pytest.mark.parametrize("outputs", [1, 64])
def test_remove_a_node(count: int, outputs: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> Sequence[oir.Value]:
        b.concat([y] * count, 0)
        return [b.Neg(x) for _ in range(outputs)]

    graph = model_of(build, INPUTS).graph
    node = graph[0]
    replace_input(node, 1, None)
    remove_node(node)
    assert node.graph is None
    assert node not in list(graph)
    assert len(graph) == outputs
    assert set(node.inputs) == {None}
    assert not graph.inputs[1].uses()


def twice(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """A value that is read, made by a node with another output that is not."""
    _, second = b.outputs("Split", x, b.i64([1, 1]), axis=0, n_outputs=2)
    return b.Neg(second)


IN_USE = {
    "it is an output": lambda b, x: b.concat([x, x], 0),
    "it is read": lambda b, x: b.Neg(b.concat([x, x], 0)),
    "one of its outputs is read": twice,
}


@pytest.mark.parametrize("name", IN_USE)
@pytest.mark.parametrize("outputs", [1, 64])
def test_a_node_in_use_stays(name: str, outputs: int) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> Sequence[oir.Value]:
        return [IN_USE[name](b, x), *(b.Abs(y) for _ in range(outputs - 1))]

    graph = model_of(build, INPUTS).graph
    node = graph[0]
    with pytest.raises(ValueError):
        remove_node(node)
    assert node.graph is graph
    assert node in graph.inputs[0].consumers()
    assert None not in node.inputs


def test_a_node_is_removed_once() -> None:
    graph, node = joined(3)
    graph.outputs[0] = graph.inputs[0]
    remove_node(node)
    with pytest.raises(ValueError):
        remove_node(node)


def unread() -> tuple[oir.Graph, oir.Node]:
    """A graph with a node that nothing reads. No builder knows the node."""
    graph = model_of(lambda b, x, y: b.Neg(x), INPUTS).graph
    node = oir.Node("", "Abs", [graph.inputs[1]])
    graph.append(node)
    return graph, node


def test_removed_nodes_are_freed_at_the_end_of_a_block() -> None:
    graph, node = unread()
    known = weakref.ref(node)
    gc.disable()
    try:
        with freeing_removed_nodes():
            remove_node(node)
            assert node.outputs[0].producer() is node
        del node
        assert known() is None
        assert [each.op_type for each in graph] == ["Neg"]
    finally:
        gc.enable()


def test_a_node_that_is_back_in_a_graph_stays_whole() -> None:
    graph, node = unread()
    with freeing_removed_nodes():
        remove_node(node)
        graph.append(node)
    assert node.outputs[0].producer() is node

"""Replacing values and nodes, and removing what nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop
from rewriting import model_of, op_types, run_model

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import can_replace, remove_makers, remove_unused, replace

Value = oir.Value
T = oir.DataType
X = np.array([1, -2, 3], np.float32)


def graph_of(build: Callable[..., Any]) -> oir.Graph:
    return model_of(build, {"x": X}).graph


# -- replacing -----------------------------------------------------------------


def test_an_output_keeps_its_name() -> None:
    graph = graph_of(lambda b, x: [b.Neg(x), b.Exp(x)])
    negative, exponential = graph
    name = graph.outputs[0].name
    exponential.outputs[0].name = "new"
    other = oir.Node("", "Abs", graph.inputs, outputs=[oir.Value(name="abs")], name="abs")
    other.outputs[0].type, other.outputs[0].shape = oir.TensorType(T.FLOAT), oir.Shape([3])
    graph.append(other)
    replace(negative, other.outputs)
    assert op_types(graph) == ["Exp", "Abs"]
    assert graph.outputs[0] is other.outputs[0]
    assert graph.outputs[0].name == name


def test_what_is_no_output_keeps_its_name() -> None:
    graph = graph_of(lambda b, x: b.Exp(b.Identity(b.Neg(x))))
    negative, identity, exponential = graph
    name = negative.outputs[0].name
    replace(identity, negative.outputs)
    assert op_types(graph) == ["Neg", "Exp"]
    assert exponential.inputs[0] is negative.outputs[0]
    assert negative.outputs[0].name == name


OTHER_TYPES: dict[str, Callable[[GraphBuilder, Value], Value]] = {
    "another element type": lambda b, x: b.cast(x, T.DOUBLE),
    "another rank": lambda b, x: b.reshape(x, (1, 3)),
    "both": lambda b, x: b.cast(b.reshape(x, (1, 3)), T.DOUBLE),
}


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_other_types_are_refused(name: str) -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        return [b.Exp(b.Neg(x)), OTHER_TYPES[name](b, x)]

    graph = graph_of(build)
    with pytest.raises(InternalError):
        replace(graph[0], [graph.outputs[1]])


def test_a_removed_node_is_not_replaced() -> None:
    graph = graph_of(lambda b, x: b.Exp(b.Neg(x)))
    negative = graph[0]
    replace(negative, graph.inputs)
    assert op_types(graph) == ["Exp"]
    with pytest.raises(InternalError):
        replace(negative, graph.inputs)


def test_what_is_no_output_can_be_anything() -> None:
    graph = graph_of(lambda b, x: b.Exp(b.Neg(x)))
    negative = graph[0].outputs[0]
    assert can_replace(negative, graph.inputs[0])
    assert can_replace(negative, graph.outputs[0])


def test_what_an_output_can_be() -> None:
    """Made by a node of its own graph, and neither an input nor an output."""
    constants: list[Value] = []

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        constants.extend([b.const(X), b.const(X + 1)])
        (stacked,) = loop(b, 2, [], lambda trip: ([], [b.Sin(x)]))
        return [b.Exp(x), b.Abs(b.Neg(x)), stacked, constants[0]]

    graph = graph_of(build)
    by_type = {node.op_type: node.outputs[0] for node in graph.all_nodes()}
    exponential = by_type["Exp"]
    assert can_replace(exponential, by_type["Neg"])
    assert not can_replace(exponential, by_type["Abs"])
    assert not can_replace(exponential, by_type["Sin"])
    assert not can_replace(exponential, graph.inputs[0])
    assert not can_replace(exponential, constants[0])
    assert not can_replace(exponential, constants[1])
    assert not can_replace(constants[0], by_type["Neg"])
    with pytest.raises(InternalError):
        replace(exponential.producer(), [by_type["Sin"]])  # type: ignore[arg-type]


def test_an_input_of_a_body_cannot_be_its_output() -> None:
    graph = graph_of(lambda b, x: loop(b, 2, [x], lambda trip, h: ([b.Sin(h)], [])))
    body = graph[0].attributes["body"].as_graph()
    sine = next(node for node in body if node.op_type == "Sin")
    assert not can_replace(sine.outputs[0], body.inputs[2])


# -- what nobody reads -----------------------------------------------------------


def test_unused_nodes_and_constants() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        b.Exp(b.Neg(b.Add(x, b.const(X + 1))))
        first, _ = b.outputs("Split", x, b.i64([1, 2]), axis=0, n_outputs=2)
        return [b.Add(x, b.const(X)), b.Abs(first), b.const(X + 2)]

    graph = graph_of(build)
    assert remove_unused(graph) == 3
    assert sorted(op_types(graph)) == ["Abs", "Add", "Split"]
    kept = [value.const_value.numpy().tolist() for value in graph.initializers.values()]  # type: ignore[union-attr]
    assert sorted(map(tuple, kept)) == [(1.0, -2.0, 3.0), (1, 2), (3.0, 0.0, 5.0)]


def test_unused_nodes_of_bodies() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def step(trip: Value, h: Value) -> tuple[list[Value], list[Value]]:
            b.Exp(h)
            return [b.Sin(h)], []

        y = b.Abs(x)
        loop(b, 2, [y], lambda trip, h: ([b.Cos(h)], [b.Add(y, h)]))
        return loop(b, 2, [x], step)

    graph = graph_of(build)
    assert remove_unused(graph) == 3  # Exp, a Loop and, as its body has let go of it, Abs
    assert op_types(graph) == ["Loop"]
    assert "Exp" not in [node.op_type for node in graph.all_nodes()]


LOOPS: dict[str, tuple[Callable[..., Any], Sequence[int], int]] = {
    # States that become step(h, g) and a stack of rows; which results are read; what is left.
    "all are read": (lambda b, h, g: ([b.Sin(h), b.Cos(g)], [b.Exp(h)]), (0, 1, 2), 3),
    "nobody reads a stack": (lambda b, h, g: ([b.Sin(h), b.Cos(g)], [b.Exp(h)]), (0, 1), 2),
    "only a stack": (lambda b, h, g: ([b.Sin(h), b.Cos(h)], [b.Exp(h)]), (2,), 2),
    "a state that the body reads": (lambda b, h, g: ([b.Add(h, g), b.Cos(g)], []), (0,), 2),
    "a state that only it reads": (lambda b, h, g: ([b.Sin(h), b.Cos(h)], []), (0,), 1),
    "the first goes": (lambda b, h, g: ([b.Sin(g), b.Cos(g)], [b.Exp(g)]), (1, 2), 2),
}


@pytest.mark.parametrize("name", LOOPS)
def test_results_of_loops(name: str) -> None:
    step, read, left = LOOPS[name]

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        made = loop(b, 3, [x, b.Abs(x)], lambda trip, h, g: step(b, h, g))
        return [b.Neg(made[place]) for place in read]

    model = model_of(build, {"x": X})
    before = run_model(model, {"x": X})
    (old,) = [node for node in model.graph if node.op_type == "Loop"]
    body = old.attributes["body"].as_graph()
    states = len(old.inputs) - 2
    remove_unused(model.graph)
    (new,) = [node for node in model.graph if node.op_type == "Loop"]
    assert (new is old) == (len(old.outputs) == left)
    assert len(new.outputs) == len(body.outputs) - 1 == left
    assert len(new.inputs) - 2 == len(body.inputs) - 2 <= states
    assert (new.name, new.metadata_props) == (old.name, old.metadata_props)
    for after, expected in zip(run_model(model, {"x": X}), before, strict=True):
        np.testing.assert_array_equal(after, expected)


# -- what made a value -------------------------------------------------------------


def test_makers_that_nobody_reads_go() -> None:
    made: list[Value] = []

    def build(b: GraphBuilder, x: Value) -> Value:
        shared = b.Abs(x)
        made.extend([shared, b.Exp(shared), b.Neg(b.Sin(shared))])
        return b.Sqrt(shared)

    graph = graph_of(build)
    shared, exponential, negative = made
    sine = negative.producer().inputs[0]  # type: ignore[union-attr]
    assert remove_makers([exponential, negative]) == [exponential, negative, shared, sine, shared]
    assert op_types(graph) == ["Abs", "Sqrt"]
    assert remove_makers([shared, graph.inputs[0]]) == [shared, graph.inputs[0]]
    assert remove_makers([exponential]) == [exponential]  # it is removed already
    assert op_types(graph) == ["Abs", "Sqrt"]


def test_makers_with_subgraphs_and_of_other_graphs_stay() -> None:
    made: list[Value] = []

    def build(b: GraphBuilder, x: Value) -> Value:
        def step(trip: Value, h: Value) -> tuple[list[Value], list[Value]]:
            made.append(b.Exp(h))
            return [b.Sin(h)], []

        made.append(b.Neg(x))
        made.extend(loop(b, 2, [x], step))
        return b.Abs(x)

    graph = graph_of(build)
    outside, inside, looped = made
    remove_makers([looped, outside], inside.producer().graph)  # type: ignore[union-attr, arg-type]
    assert op_types(graph) == ["Neg", "Loop", "Abs"]
    remove_makers([inside], graph)
    assert inside.producer().graph is not None  # type: ignore[union-attr]
    remove_makers([inside], inside.producer().graph)  # type: ignore[union-attr, arg-type]
    assert inside.producer().graph is None  # type: ignore[union-attr]
    remove_makers([outside, looped], graph)
    assert op_types(graph) == ["Loop", "Abs"]


def test_one_of_two_outputs_is_read() -> None:
    made: list[Value] = []

    def build(b: GraphBuilder, x: Value) -> Value:
        made.extend(b.outputs("Split", x, b.i64([1, 2]), axis=0, n_outputs=2))
        return b.Abs(made[1])

    graph = graph_of(build)
    remove_makers(made)
    assert op_types(graph) == ["Split", "Abs"]


# -- states and outputs that nothing needs -------------------------------------------------------


def states_of(after: Callable[..., Any]) -> tuple[int, list[np.ndarray]]:
    """How many states a loop of three keeps, if only the first is read after it."""

    def build(b: GraphBuilder, x: Value) -> Value:
        states = [x, b.Neg(x), b.Abs(x)]
        return b.Neg(loop(b, 3, states, lambda i, *s: (after(b, *s), []))[0])

    model = model_of(build, {"x": X})
    before = run_model(model, {"x": X})
    remove_unused(model.graph)
    np.testing.assert_array_equal(before, run_model(model, {"x": X}))
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    return len(node.inputs) - 2, before


def either(b: GraphBuilder, x: Value, *choices: tuple[Callable[[], Value], ...]) -> list[Value]:
    """The results of one of two branches, whichever sum has x: a function for each result."""
    graphs = []
    for functions in choices:
        with b.subgraph([], "branch") as graph:
            graph.outputs.extend([b.Identity(function()) for function in functions])
        graphs.append(graph)
    condition = b.Less(b.ReduceSum(x, b.i64([0]), keepdims=0), b.scalar(2, T.FLOAT))
    types = [(T.FLOAT, (3,))] * len(choices[0])
    branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
    made: list[Value] = b.node("If", [condition], branches, types)
    return made


def set_or_kept(b: GraphBuilder, x: Value, *others: Value) -> list[Value]:
    """Other states are set in one branch and kept in the other one."""
    made = either(b, x, *zip(*((lambda y=y: b.Sin(y), lambda y=y: y) for y in others), strict=True))
    return [b.Exp(x), *made]


def mixed(b: GraphBuilder, x: Value, y: Value, z: Value) -> list[Value]:
    """The first state needs the third one, through the first result of the branches."""
    first, second = either(b, x, (lambda: z, lambda: y), (lambda: x, lambda: b.Sin(y)))
    return [b.Add(x, first), second, b.Cos(z)]


def nested(b: GraphBuilder, x: Value, y: Value, z: Value) -> list[Value]:
    """A branch in a branch needs the second state."""
    inner = lambda: b.Neg(either(b, x, (lambda: y,), (lambda: x,))[0])  # noqa: E731
    return [either(b, x, (inner,), (lambda: x,))[0], b.Sin(y), b.Cos(z)]


def asked(b: GraphBuilder, x: Value, y: Value, z: Value) -> list[Value]:
    """The condition of a branch is computed from the second state."""
    return [either(b, y, (lambda: b.Neg(x),), (lambda: x,))[0], b.Sin(y), b.Cos(z)]


def looped(b: GraphBuilder, x: Value, y: Value) -> Value:
    """A loop reads the second value, and a branch in it."""
    return loop(b, 2, [x], lambda i, s: ([either(b, s, (lambda: y,), (lambda: s,))[0]], []))[0]


def looped_in_branch(b: GraphBuilder, x: Value, y: Value, z: Value) -> list[Value]:
    """A loop in a branch reads the second state, for the first result of the branches."""
    first, second = either(b, x, (lambda: looped(b, x, y), lambda: y), (lambda: x, lambda: z))
    return [first, b.Sin(y), b.Add(z, second)]


KEPT: dict[str, tuple[int, Callable[..., Any]]] = {
    "feeds itself": (1, lambda b, x, y, z: [b.Exp(x), b.Sin(y), b.Cos(z)]),
    "feed each other": (1, lambda b, x, y, z: [b.Exp(x), b.Sin(z), b.Cos(y)]),
    "needed one trip later": (2, lambda b, x, y, z: [b.Add(x, y), b.Sin(y), b.Cos(z)]),
    "needed two trips later": (3, lambda b, x, y, z: [b.Add(x, y), b.Sin(z), b.Cos(z)]),
    "set or kept by branches": (1, set_or_kept),
    "needed by one result of branches": (2, mixed),
    "needed by a branch in a branch": (2, nested),
    "needed by the condition of branches": (2, asked),
    "needed two trips later, through two nodes": (
        3,
        lambda b, x, y, z: [b.Add(x, y), b.Sin(b.Exp(z)), b.Cos(z)],
    ),
    "needed by a loop": (2, lambda b, x, y, z: [looped(b, x, y), b.Sin(y), b.Cos(z)]),
    "a loop that is not needed needs it": (
        1,
        lambda b, x, y, z: [b.Exp(x), b.Sin(y), looped(b, z, y)],
    ),
    "needed by a loop in a branch": (2, looped_in_branch),
    "reads the needed one": (1, lambda b, x, y, z: [b.Exp(x), b.Add(x, y), b.Cos(y)]),
}


@pytest.mark.parametrize("name", KEPT)
def test_states_that_nothing_needs_are_dropped(name: str) -> None:
    count, after = KEPT[name]
    assert states_of(after)[0] == count


def test_outputs_of_branches_that_nothing_reads_are_dropped() -> None:
    def build(b: GraphBuilder, x: Value, c: Value) -> Value:
        graphs = []
        for make in (b.Exp, b.Sin):
            with b.subgraph([], "branch") as graph:
                graph.outputs.extend([b.Abs(x), make(x), b.Neg(x)])
            graphs.append(graph)
        types = [(T.FLOAT, (3,))] * 3
        made = b.node("If", [c], {"then_branch": graphs[0], "else_branch": graphs[1]}, types)
        return b.Neg(made[1])

    inputs = {"x": X, "c": np.array(False)}
    model = model_of(build, inputs)
    before = run_model(model, inputs)
    remove_unused(model.graph)
    np.testing.assert_array_equal(before, run_model(model, inputs))
    branches = [op_types(graph) for graph in model.graph.subgraphs()]
    assert branches == [["Exp"], ["Sin"]]


def test_stacks_of_a_scan_that_nothing_reads_are_dropped() -> None:
    """With the directions of the others, which a Scan lists."""

    def build(b: GraphBuilder, x: Value) -> Value:
        state, row = b.value("state", T.FLOAT, []), b.value("row", T.FLOAT, [])
        with b.subgraph([state, row], "body") as body:
            body.outputs.extend([b.Add(state, row), b.Neg(row), b.Abs(row)])
        attributes = {"body": body, "num_scan_inputs": 1, "scan_output_directions": [0, 1]}
        types = [(T.FLOAT, ()), (T.FLOAT, (3,)), (T.FLOAT, (3,))]
        start = b.const(np.float32(0))
        return b.Neg(b.node("Scan", [start, x], attributes, types)[2])

    model = model_of(build, {"x": X})
    before = run_model(model, {"x": X})
    remove_unused(model.graph)
    np.testing.assert_array_equal(before, run_model(model, {"x": X}))
    (node,) = (node for node in model.graph if node.op_type == "Scan")
    assert len(node.inputs) == 1 and len(node.outputs) == 1
    assert list(node.attributes["scan_output_directions"].as_ints()) == [1]

"""Which nodes of bodies are computed once, in front of the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import loop
from rewriting import foreign, model_of, run_model
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.code_motion import RANDOM, hoist_invariants, is_repeatable, sink_into_branches
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import dtype_of, shape_of

Value = oir.Value
X = np.array([1, -2, 3], np.float32)
Step = Callable[[GraphBuilder, Value, Value], Value]


def around(step: Step) -> Callable[..., Any]:
    """A loop whose state h becomes step(x, h)."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        return loop(b, 3, [b.Abs(x)], lambda trip, h: ([step(b, x, h)], []))

    return build


def hoisted(build: Callable[..., Any]) -> tuple[int, list[str], list[str]]:
    """How many nodes went, operators of the main graph, and those of bodies but for Identities."""
    model = model_of(build, {"x": X})
    count = hoist_invariants(model.graph)
    main = [node.op_type for node in model.graph]
    everything = [node.op_type for node in model.graph.all_nodes() if node.op_type != "Identity"]
    for op_type in main:
        everything.remove(op_type)
    return count, main, everything


def random(b: GraphBuilder, x: Value) -> Value:
    return b.op("RandomNormalLike", x, types=[(dtype_of(x), shape_of(x))])


def other(b: GraphBuilder, x: Value) -> Value:
    """The value of an operator of the same name that is not ONNX's."""
    return foreign(b.Exp(x))


def chosen(b: GraphBuilder, x: Value, h: Value) -> Value:
    """If x[0] > 0, h, else -floor(x): what the branches read is no input of the node."""
    condition = b.reshape(b.Greater(b.slice(x, [0], [1]), b.scalar_like(0, x)), ())
    with b.subgraph([], "then") as then:
        then.outputs.append(b.Identity(h))
    with b.subgraph([], "else") as otherwise:
        otherwise.outputs.append(b.Neg(b.Floor(x)))
    attributes = {"then_branch": then, "else_branch": otherwise}
    (made,) = b.node("If", [condition], attributes, [(dtype_of(x), shape_of(x))])
    return made


BODIES: dict[str, tuple[Step, list[str], list[str]]] = {
    "nothing changes": (lambda b, x, h: b.Add(h, b.Exp(x)), ["Exp"], ["Add"]),
    "a chain": (lambda b, x, h: b.Add(h, b.Neg(b.Exp(x))), ["Exp", "Neg"], ["Add"]),
    "behind the state": (lambda b, x, h: b.Add(h, b.Mul(b.Exp(h), b.Exp(x))), ["Exp"],
                         ["Exp", "Mul", "Add"]),
    "random numbers": (lambda b, x, h: b.Add(h, random(b, x)), [], ["RandomNormalLike", "Add"]),
    "an unknown operator": (lambda b, x, h: b.Add(h, other(b, x)), [], ["Exp", "Add"]),
    "a result of the body": (lambda b, x, h: b.Exp(x), [], ["Exp"]),
    "a branch": (lambda b, x, h: b.Add(h, chosen(b, x, h)), ["Slice", "Greater", "Reshape"],
                 ["If", "Neg", "Floor", "Add"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    step, moved, left = BODIES[name]
    count, main, inside = hoisted(around(step))
    assert count == len(moved)
    assert main == ["Abs", *moved, "Loop"]
    assert sorted(inside) == sorted(left)


def test_a_node_with_a_result_of_the_body_stays() -> None:
    """Its other output is none."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def step(trip: Value, h: Value) -> tuple[list[Value], list[Value]]:
            first, second = b.outputs("TopK", x, b.i64([3]), n_outputs=2)
            return [first], [b.cast(second, oir.DataType.FLOAT)]

        return loop(b, 3, [x], step)

    assert hoisted(build) == (0, ["Loop"], ["TopK", "Cast"])


def test_through_two_loops() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def inner(trip: Value, g: Value, h: Value) -> tuple[list[Value], list[Value]]:
            return [b.Add(g, b.Mul(b.Exp(x), b.Neg(h)))], []

        def outer(trip: Value, h: Value) -> tuple[list[Value], list[Value]]:
            return loop(b, 2, [x], lambda trip, g: inner(trip, g, h)), []

        return loop(b, 3, [x], outer)

    count, main, inside = hoisted(build)
    assert count == 4  # three nodes leave the inner loop, and Exp the outer one too
    assert main == ["Exp", "Loop"]
    assert sorted(inside) == ["Add", "Loop", "Mul", "Neg"]


def test_what_only_one_branch_needs_stays_there() -> None:
    count, main, inside = hoisted(lambda b, x: chosen(b, x, b.Exp(x)))
    assert count == 0
    assert main == ["Exp", "Slice", "Greater", "Reshape", "If"]
    assert inside == ["Floor", "Neg"]


def test_the_numbers_stay() -> None:
    model = model_of(around(BODIES["behind the state"][0]), {"x": X})
    before = run_model(model, {"x": X})
    assert hoist_invariants(model.graph) == 1
    np.testing.assert_array_equal(run_model(model, {"x": X}), before)


def repeatable(nodes: Sequence[oir.Node]) -> list[bool]:
    return [is_repeatable(node) for node in nodes]


def test_which_nodes_are_repeatable() -> None:
    assert repeatable([oir.Node("", "Neg", []), oir.Node("", "Loop", [])]) == [True, True]
    assert not any(repeatable([oir.Node("", op_type, []) for op_type in RANDOM]))
    assert not any(repeatable([oir.Node("example", "Neg", []), oir.Node("ai.onnx.ml", "Neg", [])]))


ROW = np.array([[1, -2, 3]], np.float32)
Make = Callable[[GraphBuilder, Value], Value]


def graph_of(make: Make, both: bool = False, read: bool = False) -> oir.Graph:
    """A graph with what `make` makes, which the first branch of an If reads, or both do, or
    another node."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        made, graphs = make(b, x), []
        for inner in (made, made if both else x):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(b.Exp(b.reshape(inner, (3,))))
            graphs.append(graph)
        condition = b.Less(b.ReduceSum(x, b.i64([0, 1]), keepdims=0), b.scalar_like(9, x))
        y = graphs[0].outputs[0]
        branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
        (result,) = b.node("If", [condition], branches, [(dtype_of(y), shape_of(y))])
        return [result, b.Abs(made)] if read else [result]

    return model_of(build, {"x": ROW}).graph


def drawn(b: GraphBuilder, x: Value) -> Value:
    return b.op("RandomNormalLike", x, types=[(dtype_of(x), shape_of(x))])


def test_chains_move_in_order() -> None:
    graph = graph_of(lambda b, x: b.Neg(b.Sqrt(b.Abs(x))))
    assert sink_into_branches(graph) == 3
    branching = next(node for node in graph if node.op_type == "If")
    assert [node.op_type for node in subgraphs(branching)[0]][:3] == ["Abs", "Sqrt", "Neg"]
    assert not {"Abs", "Sqrt", "Neg"} & {node.op_type for node in graph}


@pytest.mark.parametrize("reader", ["both", "read"])
def test_what_others_read_stays(reader: str) -> None:
    assert not sink_into_branches(graph_of(lambda b, x: b.Neg(x), **{reader: True}))


def test_transposes_and_random_numbers_stay() -> None:
    assert not sink_into_branches(graph_of(lambda b, x: b.op("Transpose", x, perm=[1, 0])))
    assert not sink_into_branches(graph_of(lambda b, x: drawn(b, x)))


def choice(b: GraphBuilder, x: Value, random: bool = False) -> Value:
    """What another If returns, of which a branch reads what it makes of x."""
    y, graphs = b.Neg(x), []
    for make in (b.Sin, lambda y: drawn(b, y) if random else b.Cos(y)):
        with b.subgraph([], "inner") as graph:
            graph.outputs.append(make(y))
        graphs.append(graph)
    condition = b.Less(b.ReduceMax(x, keepdims=0), b.scalar_like(9, x))
    branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
    (result,) = b.node("If", [condition], branches, [(dtype_of(y), shape_of(y))])
    return result


def test_another_branch_moves_with_what_it_reads() -> None:
    graph = graph_of(choice)
    assert sink_into_branches(graph) >= 4
    (branching,) = (node for node in graph if node.op_type == "If")
    chosen = [node.op_type for node in subgraphs(branching)[0]]
    assert {"Neg", "ReduceMax", "Less", "If"} <= set(chosen)
    assert chosen.index("Neg") < chosen.index("If")
    assert "Neg" not in [node.op_type for node in graph]


def test_a_branch_with_random_numbers_stays() -> None:
    graph = graph_of(lambda b, x: choice(b, x, random=True))
    sink_into_branches(graph)
    assert len([node for node in graph if node.op_type == "If"]) == 2


def test_the_condition_stays() -> None:
    """It would be made after it is read."""

    def build(b: GraphBuilder, x: Value) -> Value:
        condition = b.Less(b.ReduceSum(x, b.i64([0, 1]), keepdims=0), b.scalar_like(9, x))
        graphs = []
        for _ in range(2):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(b.Cast(condition, to=dtype_of(x)))
            graphs.append(graph)
        branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
        (result,) = b.node("If", [condition], branches, [(dtype_of(x), ())])
        return result

    assert not sink_into_branches(model_of(build, {"x": ROW}).graph)


def test_a_loop_that_rarely_takes_a_branch() -> None:
    def run(x: Array) -> Array:
        def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            y, i = carry
            slow = jnp.tanh(jnp.sin(y) * 3)
            return lax.cond(i % 3 == 2, lambda: y + slow, lambda: y * 0.5), i + 1

        return lax.while_loop(lambda c: c[1] < 7, step, (x, jnp.int32(0)))[0]

    verified(run, ROW[0])


def test_branches_in_branches() -> None:
    def run(x: Array) -> Array:
        a, b = jnp.sin(x), jnp.cos(x)
        inner = lambda: lax.cond(x[1] > 0, lambda: a * 2, lambda: b * 3)  # noqa: E731
        return lax.cond(x[0] > 0, inner, lambda: x)

    verified(run, ROW[0])


def test_many_readers() -> None:
    """Each reader is looked at once: all pairs of them would take a minute."""
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 21})
    b = GraphBuilder(graph, 21)
    x = b.value("x", oir.DataType.FLOAT, [])
    graph.inputs.append(x)
    shared, alone = b.Exp(x), b.Abs(x)
    with b.subgraph([], "many") as many:
        y = shared
        for _ in range(10_000):
            y = b.Add(b.Mul(y, shared), alone)
        many.outputs.append(y)
    with b.subgraph([], "one") as one:
        one.outputs.append(b.Neg(shared))
    branches = {"then_branch": many, "else_branch": one}
    condition = b.Less(x, b.scalar(0, oir.DataType.FLOAT))
    graph.outputs.extend(b.node("If", [condition], branches, [(oir.DataType.FLOAT, ())]))
    start = time.perf_counter()
    assert sink_into_branches(graph) == 1
    assert time.perf_counter() - start < 5
    assert many[0] is alone.producer()

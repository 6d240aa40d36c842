"""Which nodes of bodies are computed once, in front of the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import loop
from rewriting import foreign, model_of, run_model

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.code_motion import RANDOM, hoist_invariants, is_repeatable
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

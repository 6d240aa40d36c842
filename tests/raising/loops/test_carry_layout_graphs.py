"""States of single loops with the columns first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    loop,
    numbers,
    stepped,
)
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.loops.carry_layout import CarryLayout
from hlo2onnx.targets import load_target

Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]


def column(b: GraphBuilder, s: Value, k: int, axis: int = 1) -> Value:
    return b.slice(s, [k], [k + 1], axes=[axis])


def swapped_columns(b: GraphBuilder, s: Value, axis: int = 1) -> Value:
    return b.concat([column(b, s, 1, axis), column(b, s, 0, axis)], axis)


ROWS = numbers(8, 2)

TURNED: dict[str, tuple[Step, tuple[int, ...]]] = {
    "slices": (swapped_columns, (8, 2)),
    "negative-axis": (lambda b, s: swapped_columns(b, s, -1), (8, 2)),
    "split": (
        lambda b, s: b.concat(
            list(b.outputs("Split", s, b.i64([1, 1]), axis=1, n_outputs=2))[::-1], 1
        ),
        (8, 2),
    ),
    "added": (lambda b, s: b.Add(s, swapped_columns(b, s)), (8, 2)),
    "number": (lambda b, s: b.Mul(swapped_columns(b, s), b.const(np.float32(2))), (8, 2)),
    "one-element": (
        lambda b, s: b.Mul(swapped_columns(b, s), b.const(np.full(1, 2, np.float32))),
        (8, 2),
    ),
    "one-element-of-two-axes": (
        lambda b, s: b.Mul(b.const(np.full((1, 1), 2, np.float32)), swapped_columns(b, s)),
        (8, 2),
    ),
    "vector": (lambda b, s: b.Add(swapped_columns(b, s), b.const(numbers(2))), (8, 2)),
    "matrix": (lambda b, s: b.Add(b.const(ROWS), swapped_columns(b, s)), (8, 2)),
    "rows-too": (
        lambda b, s: b.concat(
            [b.slice(swapped_columns(b, s), [3], [8], axes=[0]), b.slice(s, [0], [3], axes=[0])], 0
        ),
        (8, 2),
    ),
    "all-axes": (
        lambda b, s: b.concat([b.slice(s, [0, 1], [8, 2]), b.slice(s, [0, 0], [8, 1])], 1),
        (8, 2),
    ),
    "backwards": (lambda b, s: b.slice(s, [-1], [-9], [-1], [1]), (8, 2)),
    "batches": (lambda b, s: swapped_columns(b, s, 2), (3, 4, 2)),
    "middle-axis-too": (
        lambda b, s: b.concat(
            [b.slice(swapped_columns(b, s, 2), [1], [4], axes=[1]), b.slice(s, [0], [1], axes=[1])],
            1,
        ),
        (3, 4, 2),
    ),
    "sixteen-columns": (swapped_halves := (
        lambda b, s: b.concat(
            [b.slice(s, [8], [16], axes=[1]), b.slice(s, [0], [8], axes=[1])], 1
        )
    ), (64, 16)),
}  # fmt: skip


def states_of(run: LoopRewrite) -> list[tuple[Any, ...]]:
    (node,) = (node for node in run.model.graph if node.op_type == "Loop")
    return [tuple(shape_of(x)) for x in node.attributes["body"].as_graph().inputs[2:]]


@pytest.mark.parametrize("name", TURNED)
def test_columns_first(name: str) -> None:
    step, shape = TURNED[name]
    run = stepped(step, numbers(*shape), CarryLayout())
    assert states_of(run) == [(shape[-1], *shape[:-1])]
    assert not run.inside["Transpose"]


STAYS: dict[str, tuple[Step, tuple[int, ...]]] = {
    "few-rows": (swapped_columns, (7, 2)),
    "many-columns": (
        lambda b, s: b.concat([b.slice(s, [8], [17], axes=[1]), b.slice(s, [0], [8], axes=[1])], 1),
        (68, 17),
    ),
    "one-column": (lambda b, s: b.slice(s, [-1], [-9], [-1], [1]), (8, 1)),
    "vector": (lambda b, s: b.slice(s, [-1], [-99], [-1], [0]), (8,)),
    "rows": (
        lambda b, s: b.concat([b.slice(s, [4], [8], axes=[0]), b.slice(s, [0], [4], axes=[0])], 0),
        (8, 2),
    ),
    "other-operators": (
        lambda b, s: b.Add(swapped_columns(b, s), b.Softmax(s, axis=1)),
        (8, 2),
    ),
    "another-rank": (
        lambda b, s: b.squeeze(
            b.Add(swapped_columns(b, s), b.const(np.ones((1, 1, 1), np.float32))), [0]
        ),
        (8, 2),
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_columns_stay(name: str) -> None:
    step, shape = STAYS[name]
    stepped(step, numbers(*shape), CarryLayout()).nothing()


def test_ranges_that_are_computed_in_the_body_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        def step(trip: Value, s: Value) -> Any:
            at = b.unsqueeze(b.Mul(trip, b.i64(0)), [0])
            end = b.unsqueeze(b.Add(b.Mul(trip, b.i64(0)), b.i64(1)), [0])
            types = [(oir.DataType.FLOAT, (8, 1))]
            first = b.op("Slice", s, at, end, b.i64([1]), types=types)
            return [b.concat([column(b, s, 1), first], 1)], []

        return loop(b, 2, [x], step)

    LoopRewrite(build, {"x": ROWS}, CarryLayout()).nothing()


def test_axes_that_are_computed_stay() -> None:
    """Nobody knows along which axis it cuts; another Slice takes columns."""

    def build(b: GraphBuilder, x: Value, axis: Value) -> Any:
        def step(trip: Value, s: Value) -> Any:
            types = [(oir.DataType.FLOAT, (8, 1))]
            first = b.op("Slice", s, b.i64([0]), b.i64([1]), axis, types=types)
            return [b.concat([column(b, s, 1), first], 1)], []

        return loop(b, 2, [x], step)

    LoopRewrite(build, {"x": ROWS, "axis": np.array([1])}, CarryLayout()).nothing()


def of_an_inner_loop(b: GraphBuilder, s: Value) -> Value:
    """One element that the body computes."""
    (made,) = loop(b, 2, [b.const(np.ones((1, 1), np.float32))], lambda j, a: ([b.Add(a, a)], []))
    return b.Mul(swapped_columns(b, s), made)  # type: ignore[no-any-return]


def test_one_element_broadcasts_in_any_layout() -> None:
    run = stepped(of_an_inner_loop, ROWS, CarryLayout())
    assert states_of(run)[0] == (2, 8)
    one = stepped(TURNED["one-element-of-two-axes"][0], ROWS, CarryLayout())
    assert one.outside["Transpose"] == 2  # of the state, there and back
    assert not one.inside["Transpose"]


def turned_loop() -> oir.Graph:
    """The body that a rule makes, as it leaves it."""

    def build(b: GraphBuilder, x: Value, rows: Value) -> Any:
        def step(trip: Value, s: Value) -> Any:
            s.name = "position"
            return [b.Add(swapped_columns(b, s), b.Gather(rows, trip, axis=0))], []

        return [b.Neg(value) for value in loop(b, 3, [x], step)]

    model = model_of(build, {"x": ROWS, "rows": numbers(3, 8, 2)})
    assert apply_rules(model, [CarryLayout()], load_target("ort-cpu"))
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    return node.attributes["body"].as_graph()


def test_nothing_of_the_body_before_is_left() -> None:
    assert all(any(x.uses() or x.is_graph_output() for x in node.outputs) for node in turned_loop())


def test_states_keep_their_names() -> None:
    assert str(turned_loop().inputs[2].name).startswith("position")


def test_a_state_beside_and_rows_are_turned_with_it() -> None:
    def build(b: GraphBuilder, x: Value, y: Value, rows: Value, v: Value) -> Any:
        def step(trip: Value, v: Value, s: Value, t: Value) -> Any:
            row = b.Gather(rows, trip, axis=0)
            new = b.Add(b.Add(swapped_columns(b, s), t), row)
            return [b.Neg(v), new, b.Neg(s)], [b.Abs(v), b.Abs(new), b.Neg(row)]

        return [b.Neg(value) for value in loop(b, 3, [v, x, y], step)]

    inputs = {"x": ROWS, "y": ROWS + 1, "rows": numbers(3, 8, 2), "v": numbers(8)}
    run = LoopRewrite(build, inputs, CarryLayout())
    assert states_of(run) == [(8,), (2, 8), (2, 8)]


def test_the_first_stack_is_turned_back() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        made = loop(b, 3, [x], lambda i, s: ([swapped_columns(b, s)], [b.Abs(s), b.Neg(s)]))
        return [b.Neg(value) for value in made]

    assert LoopRewrite(build, {"x": ROWS}, CarryLayout()).fired


def test_what_a_branch_reads_and_a_loop_stacks_stays() -> None:
    def build(b: GraphBuilder, x: Value, holds: Value) -> Any:
        def step(trip: Value, s: Value) -> Any:
            branches = []
            for make in (b.Neg, b.Abs):
                with b.subgraph([], "branch") as graph:
                    graph.outputs.append(make(s))
                branches.append(graph)
            made = b.op("If", holds, then_branch=branches[0], else_branch=branches[1])
            return [swapped_columns(b, s)], [b.ReduceMax(made, keepdims=0)]

        return loop(b, 2, [x], step)

    LoopRewrite(build, {"x": ROWS, "holds": np.array(True)}, CarryLayout()).nothing()


def test_what_a_branch_reads_stays() -> None:
    def step(b: GraphBuilder, s: Value) -> Value:
        branches = []
        for make in (b.Neg, b.Abs):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(make(s))
            branches.append(graph)
        holds = b.Less(b.ReduceSum(b.const(ROWS), keepdims=0), b.const(np.float32(0)))
        made = b.op("If", holds, then_branch=branches[0], else_branch=branches[1])
        return b.Add(swapped_columns(b, s), made)  # type: ignore[no-any-return]

    stepped(step, ROWS, CarryLayout()).nothing()

"""Loops on small graphs whose state is the row of the trip before."""

from __future__ import annotations

from typing import Any

import onnx_ir as oir
import pytest
from loop_graphs import (
    H,
    LoopRewrite,
    X,
    loop,
    row,
)

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.rules.loops.shifted_carry import ShiftedCarry


def two_states(step: Any, *rules: Any, count: int = 5) -> LoopRewrite:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        made = loop(b, count, [h, g], lambda trip, h, g: step(b, x, trip, h, g))
        return [b.Neg(value) for value in made]

    return LoopRewrite(build, {"x": X, "h": H, "g": H * 3 + 1}, *rules)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("first", [False, True])
def test_a_state_that_is_the_row_before(first: bool, count: int) -> None:
    def step(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        r = row(b, x, i)
        if first:
            return [r, b.Add(g, h)], [b.Mul(g, h), b.Abs(h)]
        return [b.Add(h, g), r], [b.Mul(g, h), b.Abs(g)]

    run = two_states(step, ShiftedCarry(), count=count)
    assert run.fired and run.inside["Gather"] >= 1 and run.inside["Add"] == 1
    stacks = [node for node in run.model.graph if node.op_type == "Concat"]
    assert [shape_of(node.outputs[0]) for node in stacks] == [(count, 4)]
    (body,) = (n.attributes["body"].as_graph() for n in run.model.graph if n.op_type == "Loop")
    assert len(body.inputs) == 3


def test_states_of_rows_and_of_copies() -> None:
    def step(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        return [b.Identity(b.Exp(row(b, x, i))), row(b, x, i)], [b.Mul(g, h)]

    run = two_states(step, ShiftedCarry())
    assert run.fired


def test_states_that_the_body_returns_as_they_are() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        def step(i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
            return [row(b, x, i), h], [b.Mul(g, h), g]

        return [b.Neg(value) for value in loop(b, 4, [h, g], step, direct=True)]

    run = LoopRewrite(build, {"x": X, "h": H, "g": H * 3 + 1}, ShiftedCarry())
    assert run.fired == {"shifted-carry": 2} and run.outside["Loop"] == 1


def test_a_state_that_the_first_node_reads() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        def step(i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
            negative = b.Neg(h)
            return [row(b, x, i), b.Add(g, negative)], [b.Abs(g)]

        return loop(b, 4, [h, g], step)

    run = LoopRewrite(build, {"x": X, "h": H, "g": H * 3 + 1}, ShiftedCarry())
    assert run.fired and run.outside["Loop"] == 1


def test_states_of_states_stay() -> None:
    def step(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        return [b.Add(g, row(b, x, i)), b.Neg(h)], [b.Mul(g, h)]

    two_states(step, ShiftedCarry()).nothing()

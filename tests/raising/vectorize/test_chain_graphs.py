"""States of single loops that get a loop of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    loop,
    numbers,
)
from loop_parts import CHAIN
from rewriting import model_of
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.targets import load_target

Value = oir.Value


def long(b: GraphBuilder, x: Value, nodes: int) -> Value:
    for k in range(nodes):
        x = b.Abs(x) if k % 2 else b.Neg(x)
    return x


def chained(
    nodes: int = 24,
    key: int = 2,
    count: int = 4,
    sorts: bool = False,
    follows: str = "own",
    direct: bool = False,
) -> LoopRewrite:
    """k = -k; h = h + f(k), f of so many nodes."""

    def build(b: GraphBuilder, h: Value, k: Value) -> Any:
        def step(trip: Value, h: Value, k: Value) -> Any:
            f = b.outputs("TopK", k, b.i64([2]), axis=0, n_outputs=2)[0] if sorts else b.Abs(k)
            f = b.slice(long(b, f, nodes - 1), [0], [2], axes=[0])
            after = {
                "own": lambda: b.Sub(b.const(np.float32(1)), k),
                "other": lambda: b.Add(b.Neg(k), b.ReduceMax(h, keepdims=0)),
            }[follows]()
            return [b.Add(h, f), after], [h, k]

        return [b.Neg(x) for x in loop(b, count, [h, k], step, direct=direct)]

    return LoopRewrite(build, {"h": numbers(2), "k": numbers(key)}, CHAIN)


@pytest.mark.parametrize(
    ("options", "fires"),
    [
        ({}, True),
        ({"nodes": 23}, True),
        ({"nodes": 22}, False),
        ({"sorts": True, "nodes": 30}, False),
        ({"follows": "other"}, False),
        ({"key": 1 << 14}, True),
        ({"key": (1 << 14) + 1}, False),
        ({"key": 1 << 14, "count": 64}, True),
        ({"key": 1 << 14, "count": 65}, False),
        ({"count": 1}, True),
        ({"direct": True}, True),
    ],
)
def test_chains(options: dict[str, Any], fires: bool) -> None:
    run = chained(**options)
    assert bool(run.fired) == fires and run.outside["Loop"] == 1 + fires


def test_a_chain_of_two_states_between_others() -> None:
    """k follows from m and m from k; h and g from all."""

    def build(b: GraphBuilder, h: Value, k: Value, g: Value, m: Value) -> Any:
        def step(trip: Value, h: Value, k: Value, g: Value, m: Value) -> Any:
            f = long(b, b.Add(k, m), 30)
            return [b.Add(h, f), b.Neg(m), b.Sub(g, h), b.Abs(b.Sub(k, m))], [m, b.Neg(g)]

        return [b.Neg(x) for x in loop(b, 4, [h, k, g, m], step)]

    inputs = {name: numbers(2) for name in "hkgm"}
    run = LoopRewrite(build, inputs, CHAIN)
    loops = [node for node in run.model.graph if node.op_type == "Loop"]
    assert [len(node.inputs) - 2 for node in loops] == [2, 2]
    first = loops[0].attributes["body"].as_graph()
    assert len(first) <= 6 and len(first.outputs) == 5
    assert [shape_of(x) for x in loops[0].outputs] == [(2,), (2,), (4, 2), (4, 2)]


@pytest.mark.parametrize(("extent", "fires"), [("n", False), (3, True)])
def test_chains_have_one_shape_in_every_trip(extent: int | str, fires: bool) -> None:
    """Two states follow from each other; the extent of one of them may change."""

    def build(b: GraphBuilder, h: Value, k: Value, m: Value) -> Any:
        def step(trip: Value, h: Value, k: Value, m: Value) -> Any:
            largest = b.ReduceMax(k, b.i64([0]))
            f = b.ReduceMax(long(b, k, 30), b.i64([0]))
            return [b.Add(h, f), free(b, b.Sub(k, m), extent), b.Sub(m, largest)], []

        return loop(b, 4, [h, free(b, k, extent), m], step)

    inputs = {"h": numbers(1), "k": numbers(3), "m": numbers(1)}
    assert bool(LoopRewrite(build, inputs, CHAIN).fired) == fires


def test_a_chain_that_the_first_node_reads() -> None:
    def build(b: GraphBuilder, h: Value, k: Value) -> Any:
        def step(trip: Value, h: Value, k: Value) -> Any:
            f = long(b, k, 30)
            return [b.Add(h, f), b.Neg(k)], []

        return loop(b, 4, [h, k], step)

    assert LoopRewrite(build, {"h": numbers(2), "k": numbers(2)}, CHAIN).fired


def test_nothing_else_is_left_in_a_loop_of_its_own() -> None:
    def build(b: GraphBuilder, h: Value, k: Value) -> Any:
        def step(trip: Value, h: Value, k: Value) -> Any:
            return [b.Add(h, long(b, k, 30)), b.Neg(k)], [h]

        return [b.Neg(x) for x in loop(b, 4, [h, k], step)]

    model = model_of(build, {"h": numbers(2), "k": numbers(2)})
    assert apply_rules(model, [CHAIN], load_target("ort-cpu"))
    first = next(node for node in model.graph if node.op_type == "Loop")
    body = first.attributes["body"].as_graph()
    assert len(body.inputs) == 3
    assert all(any(x.uses() or x.is_graph_output() for x in node.outputs) for node in body)
    assert {node.op_type for node in body} == {"Identity", "Neg"}

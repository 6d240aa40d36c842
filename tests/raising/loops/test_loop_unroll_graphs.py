"""Single loops that are written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    Body,
    LoopRewrite,
    X,
    added,
    loop,
    numbers,
    rewrite,
    row,
)

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.loop_unroll import LoopUnroll

W = numbers(4, 4)
FLOAT = oir.DataType.FLOAT


def chain(b: GraphBuilder, h: oir.Value, nodes: int) -> oir.Value:
    for k in range(nodes):
        h = b.Abs(h) if k % 2 else b.Neg(h)
    return h


def product(b: GraphBuilder, h: oir.Value, w: oir.Value) -> oir.Value:
    return b.squeeze(b.MatMul(b.unsqueeze(h, [0]), w), [0])


UNROLLED: dict[str, tuple[Body, int, bool]] = {
    "all-that-fits": (lambda b, x, i, h: ([chain(b, h, 12)], []), 4, True),
    "one-too-many": (lambda b, x, i, h: ([chain(b, h, 7)], []), 7, False),
    "rows-count": (lambda b, x, i, h: (lambda c: ([c], [c]))(chain(b, h, 12)), 4, False),
    "rows-are-free": (
        lambda b, x, i, h: ([b.Add(row(b, x, i), chain(b, h, 11))], []),
        4,
        True,
    ),
    "layers": (
        lambda b, x, i, h: (
            [chain(b, product(b, h, row(b, b.const(np.stack([W] * 5)), i)), 12)],
            [],
        ),
        5,
        True,
    ),
    "one-layer": (
        lambda b, x, i, h: ([chain(b, product(b, h, b.const(W)), 12)], []),
        5,
        False,
    ),
    "one-layer-turned": (
        lambda b, x, i, h: ([chain(b, product(b, h, b.transpose(b.const(W), [1, 0])), 12)], []),
        5,
        False,
    ),
    "layers-of-arguments": (
        lambda b, x, i, h: ([chain(b, b.Mul(h, row(b, x, i)), 12)], []),
        5,
        False,
    ),
    "no-product": (
        lambda b, x, i, h: ([chain(b, b.Mul(h, row(b, b.const(X), i)), 12)], []),
        5,
        False,
    ),
    "number-and-copies": (
        lambda b, x, i, h: (
            [b.Identity(b.Add(h, b.cast(i, FLOAT)))],
            [b.Identity(h), b.Identity(row(b, x, i)), b.Identity(i)],
        ),
        3,
        True,
    ),
    "state-from-outside": (lambda b, x, i, h: ([row(b, x, b.i64(0))], [b.Sin(h)]), 3, True),
    "random": (
        lambda b, x, i, h: (
            [b.Add(h, b.op("RandomUniform", dtype=1, shape=[4], low=2.0, high=2.0,
                           types=[(FLOAT, (4,))]))],
            [],
        ),
        3,
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNROLLED)
def test_unrolled(name: str) -> None:
    body, count, fires = UNROLLED[name]
    run = rewrite(body, LoopUnroll(), count=count)
    assert bool(run.fired) == fires
    assert bool(run.nodes["Loop"]) != fires
    if fires:
        assert not run.nodes["Identity"]


def test_rows_of_constants_are_constants() -> None:
    run = rewrite(added(lambda b, x, i: row(b, b.const(X), i)), LoopUnroll(), count=3)
    run.gives("Add", "Add", "Add", "Neg")


def test_rows_of_arguments_are_sliced() -> None:
    run = rewrite(added(row), LoopUnroll(), count=2)
    run.gives("Add", "Add", "Neg", "Slice", "Slice", "Squeeze", "Squeeze")


def test_nodes_keep_their_scopes() -> None:
    def build(b: GraphBuilder, h: oir.Value) -> Any:
        def step(trip: oir.Value, h: oir.Value) -> Any:
            b.scope = "layer/neg"
            return [b.Neg(h)], []

        return loop(b, 2, [h], step)

    run = LoopRewrite(build, {"h": W}, LoopUnroll())
    names = [str(node.name) for node in run.model.graph if node.op_type == "Neg"]
    assert [name.startswith("layer/neg") for name in names] == [True, True]


def test_extents_of_one_trip_are_unknown_and_the_others_stay() -> None:
    """Runtimes take extents of the same name for equal."""

    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        def step(trip: oir.Value, h: oir.Value) -> Any:
            ends = b.unsqueeze(b.Add(trip, b.i64(1)), [0])
            types = [(FLOAT, (oir.SymbolicDim("length"), 4))]
            head = b.op("Slice", x, b.i64([0]), ends, b.i64([0]), types=types)
            return [b.Add(h, b.ReduceMax(head, b.i64([0]), keepdims=0))], []

        return loop(b, 3, [h], step)

    run = LoopRewrite(build, {"x": X, "h": X[0]}, LoopUnroll())
    heads = [node.outputs[0].shape for node in run.model.graph if node.op_type == "Slice"]
    assert len(heads) == 3
    assert all(head is not None and head[1] == 4 and head[0].value is None for head in heads)

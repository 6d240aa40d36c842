"""Rows of single loops that are computed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    loop,
    number,
    numbers,
)

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.values import shape_of
from hlo2onnx.raising.rules.ghosts import GhostCells
from hlo2onnx.raising.rules.packing import PackRows
from hlo2onnx.raising.rules.twins import JoinTwins

FLOAT = oir.DataType.FLOAT
Value = oir.Value
Row = Callable[[GraphBuilder, Value], Value]


def rows_of(b: GraphBuilder, s: Value) -> list[Value]:
    return [b.slice(s, [k], [k + 1], axes=[0]) for k in range(shape_of(s)[0])]


def lorenz(b: GraphBuilder, s: Value) -> Value:
    x, y, z = rows_of(b, s)
    return b.concat([
        b.Mul(number(b, 8), b.Sub(y, x)),
        b.Sub(b.Mul(x, b.Sub(number(b, 28), z)), y),
        b.Sub(b.Mul(x, y), b.Mul(number(b, 2), z)),
    ], 0)  # fmt: skip


def exchanged(b: GraphBuilder, s: Value) -> Value:
    """Two products of the same rows in another order."""
    x, y = rows_of(b, s)
    return b.concat([b.Mul(x, y), b.Mul(y, x)], 0)


PACKED: dict[str, tuple[Row, tuple[int, ...], bool]] = {
    "lorenz": (lambda b, s: b.Add(s, b.Mul(number(b, 0.25), lorenz(b, s))), (3, 4), True),
    "exchanged": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 4), True),
    "negated": (
        lambda b, s: (lambda r: b.concat([b.Neg(r[1]), b.Add(r[0], r[1])], 0))(rows_of(b, s)),
        (2, 4),
        True,
    ),
    "as-large-as-fits": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 128), True),
    "large": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 129), False),
    "one-row": (lambda b, s: b.Add(s, b.concat(rows_of(b, s), 0)), (1, 4), False),
    "another-operator": (
        lambda b, s: (lambda r: b.concat([b.Div(r[0], r[1]), b.Mul(r[1], r[0])], 0))(
            rows_of(b, b.Add(s, number(b, 9)))
        ),
        (2, 4),
        False,
    ),
    "of-columns": (
        lambda b, s: b.transpose(exchanged(b, b.transpose(s, [1, 0])), [1, 0]),
        (4, 2),
        False,
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed(name: str) -> None:
    of, shape, fires = PACKED[name]

    def build(b: GraphBuilder, s: Value) -> Any:
        return [b.Neg(x) for x in loop(b, 3, [s], lambda i, s: ([of(b, s)], [s]))]

    run = LoopRewrite(
        build, {"s": np.random.default_rng(0).normal(size=shape).astype(np.float32)}, PackRows()
    )
    assert bool(run.fired) == fires
    if fires:
        assert not run.inside["Slice"] and not run.inside["Concat"]


def test_no_rule_of_bodies_looks_outside_of_them() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        ends = [b.slice(x, [1], [2], axes=[1]), b.Identity(b.slice(x, [1], [5], axes=[1]))]
        return b.concat(ends, 1)

    rules = (GhostCells(), JoinTwins())
    LoopRewrite(build, {"x": numbers(3, 5)}, *rules).nothing()

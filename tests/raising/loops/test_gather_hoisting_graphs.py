"""Loops on small graphs that gather rows of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    Body,
    H,
    LoopRewrite,
    X,
    loop,
    rewrite,
    row,
)
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.gather_hoisting import GatherHoisting


def looked_up(of: Any, index: Any = None) -> Body:
    """h + of(x[i * 3 % 5]), where h says nothing about i."""

    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        place = b.Mod(b.Mul(i, b.i64(3)), b.i64(5)) if index is None else index(b, i)
        return [b.Add(h, of(b, row(b, x, place)))], []

    return body


COMPUTED: dict[str, tuple[Any, list[str]]] = {
    "unary": (lambda b, r: b.Exp(r), ["Exp"]),
    "chain": (lambda b, r: b.Abs(b.Neg(r)), ["Abs"]),
    "number": (lambda b, r: b.Mul(r, b.const(np.float32(3))), ["Mul"]),
    "number-first": (lambda b, r: b.Sub(b.const(np.float32(3)), r), ["Sub"]),
    "number-with-an-axis": (lambda b, r: b.Mul(r, b.const(np.full(1, 3, np.float32))), ["Mul"]),
    "number-with-as-many-axes": (
        lambda b, r: b.squeeze(b.Mul(r, b.const(np.full((1, 1), 3, np.float32))), [0]),
        [""],
    ),
    "division": (lambda b, r: b.Div(r, b.const(np.float32(3))), ["Div"]),
    "two-of-a-chain": (lambda b, r: parts(b, (n := b.Neg(r)), b.Abs(b.Exp(n))), ["Abs", "Neg"]),
}


def parts(b: GraphBuilder, one: oir.Value, other: oir.Value) -> oir.Value:
    """Half of each, which is not elementwise."""
    return b.concat([b.slice(one, [0], [2], axes=[0]), b.slice(other, [2], [4], axes=[0])], 0)


def tables_of(run: LoopRewrite) -> list[str]:
    """What makes the tables that rows are taken from."""
    gathers = [node for node in run.model.graph.all_nodes() if node.op_type == "Gather"]
    makers = [node.inputs[0].producer() for node in gathers if node.inputs[0] is not None]
    return sorted(maker.op_type if maker is not None else "" for maker in makers)


@pytest.mark.parametrize("name", COMPUTED)
def test_table(name: str) -> None:
    of, tables = COMPUTED[name]
    assert tables_of(rewrite(looked_up(of), GatherHoisting())) == tables


TABLE_STAYS: dict[str, Body] = {
    "raw": looked_up(lambda b, r: r),
    "row-of-the-trip": looked_up(lambda b, r: b.Exp(r), lambda b, i: i),
    "of-more-axes": looked_up(
        lambda b, r: b.squeeze(b.Mul(r, b.const(np.ones((1, 1, 1), np.float32))), [0, 1])
    ),
    "no-number": looked_up(lambda b, r: b.Mul(r, b.const(H))),
    "read-beside": looked_up(lambda b, r: parts(b, b.Exp(r), r)),
    "of-the-state": lambda b, x, i, h: (
        [b.Add(h, b.Exp(row(b, h, b.Mod(b.Mul(i, b.i64(3)), b.i64(4)))))], []
    ),
    "made-in-the-body": lambda b, x, i, h: (
        [b.Add(h, b.Exp(row(b, b.Add(x, h), b.Mod(b.Mul(i, b.i64(3)), b.i64(5)))))], []
    ),
    "broadcasting": lambda b, x, i, h: (
        [b.Add(h, b.Mul(b.slice(row(b, x, b.Mod(b.Mul(i, b.i64(3)), b.i64(5))), [0], [1], axes=[0]),
                        b.const(np.ones(4, np.float32))))], []
    ),
}  # fmt: skip


def of_free_places(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
    """So many rows at once as nobody knows."""
    place = free(b, b.unsqueeze(b.Mod(b.Mul(i, b.i64(3)), b.i64(5)), [0]), "k")
    return [b.Add(h, b.ReduceMax(b.Exp(row(b, x, place)), b.i64([0]), keepdims=0))], []


TABLE_STAYS["rows-of-a-free-number"] = of_free_places


def test_tables_with_free_extents_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        table = free(b, x, "rows", 4)
        return loop(b, 5, [h], lambda i, h: looked_up(lambda b, r: b.Exp(r))(b, table, i, h))

    LoopRewrite(build, {"x": X, "h": H}, GatherHoisting()).nothing()


@pytest.mark.parametrize("name", TABLE_STAYS)
def test_table_stays(name: str) -> None:
    rewrite(TABLE_STAYS[name], GatherHoisting()).nothing()


@pytest.mark.parametrize(("axes", "fires"), [(1, True), (2, True), (3, False)])
def test_numbers_with_axes(axes: int, fires: bool) -> None:
    """They must not give the table another rank."""
    number = np.full((1,) * axes, 3, np.float32)

    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        place = b.unsqueeze(b.Mod(b.Mul(i, b.i64(3)), b.i64(5)), range(axes - 1))
        return [b.Add(h, b.Mul(row(b, x, place), b.const(number)))], []

    h = np.zeros((1,) * (axes - 1) + (4,), np.float32)
    assert bool(rewrite(body, GatherHoisting(), h=h).fired) == fires


@pytest.mark.parametrize(("rows", "fires"), [(8, True), (9, False)])
def test_tables_of_eight_times_what_is_taken(rows: int, fires: bool) -> None:
    x = np.ones((rows, 200), np.float32)
    h = np.zeros(200, np.float32)
    assert bool(rewrite(looked_up(COMPUTED["unary"][0]), GatherHoisting(), x=x, h=h).fired) == fires


@pytest.mark.parametrize(("rows", "fires"), [(1024, True), (1025, False)])
def test_small_tables(rows: int, fires: bool) -> None:
    x = np.ones((rows, 1), np.float32)
    h = np.zeros(1, np.float32)
    assert bool(rewrite(looked_up(COMPUTED["unary"][0]), GatherHoisting(), x=x, h=h).fired) == fires


@pytest.mark.parametrize(("dtype", "fires"), [(np.int32, False), (np.float32, True)])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_what_a_loop_never_divides_by(op: str, dtype: Any, fires: bool) -> None:
    """Rows that no trip takes are 0."""
    x = np.array([[1], [0], [2], [0], [4]], dtype)

    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        r = row(b, x, b.Mul(i, b.i64(2)))
        seven = b.const(np.array(7, dtype))
        made = b.op(op, seven, r, **({"fmod": 1} if op == "Mod" else {}))
        return [b.Add(h, made)], []

    run = rewrite(body, GatherHoisting(), x=x, h=np.zeros(1, dtype), count=3)
    assert bool(run.fired) == fires


def test_a_table_in_a_branch_stays() -> None:
    def build(b: GraphBuilder, x: oir.Value, n: oir.Value) -> Any:
        branches = []
        for k in (1, 2):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(b.Exp(row(b, x, b.Add(n, b.i64(k)))))
            branches.append(graph)
        then, other = branches
        return b.op("If", b.Less(n, b.i64(1)), then_branch=then, else_branch=other)

    LoopRewrite(build, {"x": X, "n": np.array(0)}, GatherHoisting()).nothing()


def test_no_table_outside_of_loops() -> None:
    LoopRewrite(
        lambda b, x, n: b.Exp(row(b, x, n)), {"x": X, "n": np.array(0)}, GatherHoisting()
    ).nothing()

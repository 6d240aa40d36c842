"""Operators of a body, done for all trips at once or left there; chains that get their own loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop
from rewriting import model_of

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.graph.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.bodies import SlicesToSplit
from hlo2onnx.raising.rules.chains import SeparateChain
from hlo2onnx.raising.rules.columns import ColumnsFirst
from hlo2onnx.raising.rules.ghosts import GhostCells
from hlo2onnx.raising.rules.packing import PackRows
from hlo2onnx.raising.rules.scan_operator import LoopToScan
from hlo2onnx.raising.rules.scans import BatchScanned, PostponeStacked
from hlo2onnx.raising.rules.tables import ComputedTable
from hlo2onnx.raising.rules.twins import JoinTwins
from hlo2onnx.targets import load_target

RNG = np.random.default_rng(0)
FLOAT, INT64 = oir.DataType.FLOAT, oir.DataType.INT64
Value = oir.Value


def numbers(*shape: int) -> np.ndarray:
    return RNG.integers(-3, 4, size=shape).astype(np.float32)


X = numbers(4, 3, 5)
W = numbers(5, 2)
Row = Callable[[GraphBuilder, Value], Value]


def split(b: GraphBuilder, x: Value, axis: int) -> Value:
    two = b.op("Split", x, b.i64([1, 4]), axis=axis, n_outputs=2)
    return b.concat(list(two)[::-1], axis)


ROWS: dict[str, Row] = {
    "unary": lambda b, r: b.Abs(r),
    "scalar": lambda b, r: b.Add(r, b.const(np.float32(2))),
    "smaller-row": lambda b, r: b.Add(r, b.ReduceMax(r, b.i64([0]), keepdims=0)),
    "larger-constant": lambda b, r: b.Add(b.const(numbers(2, 3, 5)), r),
    "matrix": lambda b, r: b.MatMul(r, b.const(W)),
    "matrix-from-the-left": lambda b, r: b.MatMul(b.const(numbers(2, 3)), r),
    "batched-matrix": lambda b, r: b.MatMul(r, b.const(numbers(2, 5, 4))),
    "two-rows": lambda b, r: b.MatMul(r, b.transpose(r, [1, 0])),
    "clip": lambda b, r: b.Clip(b.Abs(r), b.const(np.float32(1)), b.const(np.float32(2))),
    "reshape": lambda b, r: b.reshape(b.Abs(r), (5, 3)),
    "squeeze": lambda b, r: b.squeeze(b.slice(b.Abs(r), [1], [2], axes=[0]), [0]),
    "unsqueeze": lambda b, r: b.unsqueeze(b.Abs(r), [1]),
    "expand": lambda b, r: b.Softmax(b.expand(b.Abs(r), (2, 3, 5)), axis=0),
    "transpose": lambda b, r: b.transpose(b.Abs(r), [1, 0]),
    "softmax": lambda b, r: b.Softmax(r, axis=0),
    "softmax-of-the-last": lambda b, r: b.Softmax(r, axis=-1),
    "softmax-by-default": lambda b, r: b.Softmax(r),
    "arg-max": lambda b, r: b.cast(b.op("ArgMax", r, axis=1, keepdims=0), FLOAT),
    "arg-min-by-default": lambda b, r: b.cast(b.op("ArgMin", r, keepdims=1), FLOAT),
    "split": lambda b, r: split(b, r, 1),
    "split-of-the-last": lambda b, r: split(b, r, -1),
    "split-by-default": lambda b, r: b.Neg(
        b.op("Split", r, b.i64([1, 2]), n_outputs=2)[1]
    ),
    "concat": lambda b, r: b.concat([b.Abs(r), b.const(numbers(2, 5)), r], 0),
    "concat-of-the-last": lambda b, r: b.concat([b.const(numbers(3, 1)), b.Abs(r)], -1),
    "sum": lambda b, r: b.ReduceSum(r, b.i64([0]), keepdims=0),
    "sum-of-the-last": lambda b, r: b.ReduceSum(r, b.i64([-1]), keepdims=1),
    "sum-of-all": lambda b, r: b.ReduceSum(r, keepdims=0),
    "slice": lambda b, r: b.slice(r, [1], [3], axes=[0]),
    "slice-of-all": lambda b, r: b.slice(r, [1, 0], [3, 2]),
    "slice-without-axes": lambda b, r: b.op("Slice", r, b.i64([1, 0]), b.i64([3, 2])),
    "slice-backwards": lambda b, r: b.slice(r, [-1], [-9], [-2], [1]),
    "take": lambda b, r: b.Gather(b.Abs(r), b.i64([2, 0]), axis=1),
    "take-of-the-last": lambda b, r: b.Gather(b.Abs(r), b.i64([2, 0]), axis=-1),
    "take-first": lambda b, r: b.Gather(b.Abs(r), b.i64(1)),
    "pad": lambda b, r: b.Pad(r, b.i64([1, 0, 0, 2]), b.const(np.float32(7))),
    "tile": lambda b, r: b.Tile(r, b.i64([2, 1])),
    "running-sum": lambda b, r: b.CumSum(r, b.i64(1)),
    "running-sum-of-the-first": lambda b, r: b.CumSum(r, b.i64(-2)),
    "convolution": lambda b, r: b.op(
        "Conv", b.reshape(r, (1, 3, 5)), b.const(numbers(2, 3, 2)), kernel_shape=[2]
    ),
    "pooling": lambda b, r: b.op("MaxPool", b.reshape(r, (3, 1, 5)), kernel_shape=[2]),
    "where": lambda b, r: b.Where(b.Less(r, b.const(np.float32(0))), r, b.const(numbers(3, 1))),
}  # fmt: skip

LEFT: dict[str, Row] = {
    "vector-product": lambda b, r: b.MatMul(
        b.const(numbers(2, 3)), b.squeeze(b.slice(r, [0], [1], axes=[1]), [1]),
    ),
    "sorted": lambda b, r: b.op("TopK", r, b.i64([2]), axis=0, n_outputs=2)[0],
    "pooling-with-places": lambda b, r: b.op(
        "MaxPool", b.reshape(r, (3, 1, 5)), kernel_shape=[2], n_outputs=2
    )[0],
    "nothing-to-sum": lambda b, r: b.op(
        "ReduceSum", r, b.i64([0]), keepdims=0, noop_with_empty_axes=1
    ),
}  # fmt: skip


def stack(of: Row, *rules: Any, x: np.ndarray = X) -> LoopRewrite:
    """A loop that stacks a function of each row and of nothing else, beside a state."""

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        def step(trip: Value, h: Value) -> Any:
            return [b.Neg(h)], [of(b, b.Gather(x, trip, axis=0))]

        return [b.Identity(v) for v in loop(b, len(X), [h], step)]

    return LoopRewrite(build, {"x": x, "h": numbers(2)}, *rules)


@pytest.mark.parametrize("name", ROWS)
def test_done_for_all_trips(name: str) -> None:
    run = stack(ROWS[name], BatchScanned())
    assert run.fired and set(+run.inside) == {"Neg"}


@pytest.mark.parametrize("name", [name for name in LEFT if name != "vector-product"])
def test_done_in_each_trip(name: str) -> None:
    run = stack(LEFT[name], BatchScanned())
    assert "Loop" in run.outside and set(+run.inside) - {"Neg", "Gather", "Reshape"}


TAKEN: dict[str, tuple[Callable[[GraphBuilder, Value], Value], dict[str, int]]] = {
    "forwards": (lambda b, i: b.Add(i, b.i64(1)), {"Slice": 1}),
    "backwards": (lambda b, i: b.Sub(b.i64(3), i), {"Slice": 1}),
    "backwards-to-the-second": (lambda b, i: b.Sub(b.i64(5), i), {"Slice": 1}),
    "every-other": (lambda b, i: b.Mul(b.i64(2), i), {"Gather": 1}),
    "again-and-again": (lambda b, i: b.Mod(i, b.i64(2)), {"Gather": 1}),
    "negative": (lambda b, i: b.Sub(i, b.i64(4)), {"Gather": 1}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_rows_that_are_taken(name: str) -> None:
    of, outside = TAKEN[name]

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        def step(trip: Value, h: Value) -> Any:
            return [b.Neg(h)], [b.Abs(b.Gather(x, of(b, trip), axis=0))]

        return loop(b, 4, [h], step)

    run = LoopRewrite(build, {"x": numbers(7, 2), "h": numbers(2)}, BatchScanned())
    assert {op: run.outside[op] for op in ("Slice", "Gather") if run.outside[op]} == outside


@pytest.mark.parametrize(("size", "fires"), [(1 << 18, True), ((1 << 18) + 1, False)])
def test_rows_of_a_megabyte(size: int, fires: bool) -> None:
    run = stack(lambda b, r: b.expand(b.slice(r, [0, 0], [1, 1]), (1, size)), BatchScanned())
    assert bool(run.inside["Expand"]) != fires


# -- loops in loops ----------------------------------------------------------------------------


def inner_loop(
    step: Callable[..., Any], initial: Callable[[GraphBuilder, Value], list[Value]],
    stopped: bool = False,
) -> Row:  # fmt: skip
    def of(b: GraphBuilder, r: Value) -> Value:
        made = loop(b, 3, initial(b, r), lambda j, *s: step(b, r, j, *s), stopped)
        total: Value = b.ReduceSum(made[0], keepdims=0)
        for x in made[1:]:
            total = b.Add(total, b.ReduceSum(x, keepdims=0))
        return total

    return of


NESTED: dict[str, Row] = {
    "state-of-the-row": inner_loop(lambda b, r, j, s: ([b.Neg(s)], [b.Abs(s)]), lambda b, r: [r]),
    "row-captured": inner_loop(
        lambda b, r, j, s: ([b.Add(s, r)], [s]), lambda b, r: [b.const(numbers(3, 5))]
    ),
    "one-state-stays": inner_loop(
        lambda b, r, j, s, t: ([b.Add(s, t), b.Neg(t)], [t, s]),
        lambda b, r: [r, b.const(numbers(3, 5))],
    ),
    "state-changes-later": inner_loop(
        lambda b, r, j, s, t: ([b.Neg(t), b.Add(s, t)], []),
        lambda b, r: [b.const(numbers(3, 5)), r],
    ),
    "number": inner_loop(
        lambda b, r, j, s: ([b.Add(s, b.Mul(r, b.cast(j, FLOAT)))], [b.Identity(r)]),
        lambda b, r: [r],
    ),
    "rows-of-the-row": inner_loop(
        lambda b, r, j, s: ([b.Add(s, b.Gather(r, j, axis=0))], []),
        lambda b, r: [b.const(numbers(5))],
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_inner_loops_leave(name: str) -> None:
    run = stack(NESTED[name], BatchScanned())
    assert set(+run.inside) <= {"Neg", "Abs", "Add", "Mul", "Gather", "Cast"}
    assert not run.inside["Loop"] or name == "rows-of-the-row"


def test_inner_loops_with_a_condition_stay() -> None:
    step = lambda b, r, j, s: ([b.Neg(s)], [])  # noqa: E731
    run = stack(inner_loop(step, lambda b, r: [r], stopped=True), BatchScanned())
    assert run.inside["Loop"]


# -- separate-chain ----------------------------------------------------------------------------


def long(b: GraphBuilder, x: Value, nodes: int) -> Value:
    for k in range(nodes):
        x = b.Abs(x) if k % 2 else b.Neg(x)
    return x


def chained(
    nodes: int = 24, key: int = 2, count: int = 4, sorts: bool = False, follows: str = "own"
) -> LoopRewrite:
    """k = -k; h = h + f(k), f of so many nodes."""

    def build(b: GraphBuilder, h: Value, k: Value) -> Any:
        def step(trip: Value, h: Value, k: Value) -> Any:
            f = b.op("TopK", k, b.i64([2]), axis=0, n_outputs=2)[0] if sorts else b.Abs(k)
            f = b.slice(long(b, f, nodes - 1), [0], [2], axes=[0])
            after = {
                "own": lambda: b.Sub(b.const(np.float32(1)), k),
                "other": lambda: b.Add(b.Neg(k), b.ReduceMax(h, keepdims=0)),
            }[follows]()
            return [b.Add(h, f), after], [h, k]

        return [b.Neg(x) for x in loop(b, count, [h, k], step)]

    return LoopRewrite(build, {"h": numbers(2), "k": numbers(key)}, SeparateChain())


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
    run = LoopRewrite(build, inputs, SeparateChain())
    loops = [node for node in run.model.graph if node.op_type == "Loop"]
    assert [len(node.inputs) - 2 for node in loops] == [2, 2]
    first = loops[0].attributes["body"].as_graph()
    assert len(first) <= 6 and len(first.outputs) == 5
    assert [shape_of(x) for x in loops[0].outputs] == [(2,), (2,), (4, 2), (4, 2)]


# -- operators of other domains ----------------------------------------------------------------


def foreign(b: GraphBuilder, op: str, *inputs: Value, **attributes: Any) -> Value:
    """An operator of a domain that nobody knows, which happens to have a known name."""
    outputs = [(x.dtype, shape_of(x)) for x in inputs[:1]]
    (made,) = b.node(op, list(inputs), attributes, outputs, "com.example")
    return made


def taking(b: GraphBuilder, x: Value, i: Value) -> Value:
    (made,) = b.node("Gather", [x, i], {"axis": 0}, [(FLOAT, (3, 5))], "com.example")
    return made


FOREIGN: dict[str, tuple[Any, Any]] = {
    "batch-scanned": (
        BatchScanned(), lambda b, x, i, h: ([h], [foreign(b, "Exp", b.Gather(x, i, axis=0))])
    ),
    "postpone-stacked": (
        PostponeStacked(), lambda b, x, i, h: ([b.Neg(h)], [foreign(b, "Exp", h)])
    ),
    "computed-table": (
        ComputedTable(),
        lambda b, x, i, h: (
            [b.Add(h, foreign(b, "Exp", b.Gather(x, b.Mul(i, b.i64(0)), axis=0)))], []
        ),
    ),
    "columns-first": (
        ColumnsFirst(),
        lambda b, x, i, h: (
            [foreign(b, "Neg", b.concat([b.slice(h, [4], [5], axes=[1]),
                                         b.slice(h, [0], [4], axes=[1])], 1))], []
        ),
    ),
    "ghost-cells": (
        GhostCells(),
        lambda b, x, i, h: (
            [b.concat([foreign(b, "Identity", b.slice(h, [1], [2], axes=[1])),
                       b.slice(h, [1], [5], axes=[1])], 1)], []
        ),
    ),
    "join-twins": (JoinTwins(), lambda b, x, i, h: (
        [b.Add(*(b.concat([foreign(b, "Neg", b.Abs(b.Neg(b.Abs(p)))) for p in
                           b.op("Split", v, b.i64([1, 2]), axis=0, n_outputs=2)], 0)
                 for v in (h, b.Relu(h))))], []
    )),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_operators_of_other_domains_stay(name: str) -> None:
    rule, body = FOREIGN[name]

    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        return loop(b, 3, [h], lambda i, h: body(b, x, i, h))

    h = np.zeros((80, 5) if name == "columns-first" else (3, 5), np.float32)
    if name == "columns-first":
        assert LoopRewrite(
            lambda b, x, h: loop(b, 3, [h], lambda i, h: (
                [b.Neg(b.concat([b.slice(h, [4], [5], axes=[1]),
                                 b.slice(h, [0], [4], axes=[1])], 1))], [])),
            {"x": X, "h": h}, rule,
        ).fired  # fmt: skip
    model = model_of(build, {"x": X, "h": h})
    assert not apply_rules(model, [rule], load_target("ort-cpu"))


def test_rows_taken_by_another_domain_are_not_scanned() -> None:
    def build(b: GraphBuilder, x: Value, h: Value) -> Any:
        return loop(b, 3, [h], lambda i, h: ([b.Add(h, taking(b, x, i))], []))

    model = model_of(build, {"x": X, "h": np.zeros((3, 5), np.float32)})
    assert apply_rules(model, [LoopToScan()], load_target("ort-cpu"))
    assert "Gather" in {node.op_type for node in model.graph.all_nodes()}


# -- pack-rows ---------------------------------------------------------------------------------


def rows_of(b: GraphBuilder, s: Value) -> list[Value]:
    return [b.slice(s, [k], [k + 1], axes=[0]) for k in range(shape_of(s)[0])]


def number(b: GraphBuilder, x: float) -> Value:
    return b.const(np.float32(x))


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

    run = LoopRewrite(build, {"s": RNG.normal(size=shape).astype(np.float32)}, PackRows())
    assert bool(run.fired) == fires
    if fires:
        assert not run.inside["Slice"] and not run.inside["Concat"]


def test_no_rule_of_bodies_looks_outside_of_them() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        ends = [b.slice(x, [1], [2], axes=[1]), b.Identity(b.slice(x, [1], [5], axes=[1]))]
        return b.concat(ends, 1)

    rules = (GhostCells(), JoinTwins())
    LoopRewrite(build, {"x": numbers(3, 5)}, *rules).nothing()
    assert SlicesToSplit().name == "slices-to-split"

"""Single loops, and what the rules about rows and stacks make of each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import LoopRewrite, loop

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.earlier import EarlierRow
from hlo2onnx.raising.rules.scan_operator import LoopToScan
from hlo2onnx.raising.rules.scans import BatchScanned, PostponeStacked
from hlo2onnx.raising.rules.tables import ComputedTable
from hlo2onnx.raising.rules.unroll import UnrollLoop

RNG = np.random.default_rng(0)
X = np.arange(20, dtype=np.float32).reshape(5, 4) - 7
H = np.arange(4, dtype=np.float32)
W = RNG.integers(-3, 4, size=(4, 4)).astype(np.float32)
WIDE = np.arange(20_000, dtype=np.float32)
FLOAT = oir.DataType.FLOAT

Body = Callable[[GraphBuilder, oir.Value, oir.Value, oir.Value], Any]


def row(b: GraphBuilder, x: oir.Value, trip: oir.Value, axis: int = 0) -> oir.Value:
    made: oir.Value = b.Gather(x, trip, axis=axis)
    return made


def rewrite(
    body: Body,
    *rules: Any,
    count: int = 5,
    h: np.ndarray = H,
    x: np.ndarray = X,
    stopped: bool = False,
) -> LoopRewrite:
    """The loop whose body is `body(b, x, trip, state) -> ([state], rows)`."""

    def build(b: GraphBuilder, x: oir.Value, h: oir.Value) -> Any:
        made = loop(b, count, [h], lambda trip, state: body(b, x, trip, state), stopped)
        return [b.Neg(value) for value in made]

    return LoopRewrite(build, {"x": x, "h": h}, *rules, opset=21)


def added(of: Callable[[GraphBuilder, oir.Value, oir.Value], oir.Value]) -> Body:
    """h + of(x, trip)"""
    return lambda b, x, trip, h: ([b.Add(h, of(b, x, trip))], [])


def stacked(of: Callable[[GraphBuilder, oir.Value, oir.Value, oir.Value], oir.Value]) -> Body:
    """h + 1, and a stack of something."""
    return lambda b, x, trip, h: ([b.Sin(h)], [of(b, x, trip, h)])


def expanded(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.expand(b.Exp(x), (4, 4))


# -- batch-scanned -----------------------------------------------------------------------------

LEFT: dict[str, tuple[Body, dict[str, int]]] = {
    "one-node": (added(lambda b, x, i: b.Exp(row(b, x, i))), {"Gather": 1, "Add": 1}),
    "two-nodes": (added(lambda b, x, i: b.Abs(b.Neg(row(b, x, i)))), {"Gather": 1, "Add": 1}),
    "of-the-number": (
        added(lambda b, x, i: b.Exp(b.cast(i, FLOAT))),
        {"Gather": 1, "Add": 1},
    ),
    "part-of-a-product": (
        added(lambda b, x, i: b.squeeze(b.MatMul(b.unsqueeze(row(b, x, i), [0]), b.const(W)), [0])),
        {"Gather": 1, "Add": 1},
    ),
    "row-read-beside": (
        added(lambda b, x, i: (lambda r: b.Add(b.Exp(r), b.Neg(r)))(row(b, x, i))),
        {"Gather": 1, "Add": 1},
    ),
    "both-halves": (
        added(
            lambda b, x, i: (lambda s: b.concat([s[1], s[0]], 0))(
                b.op("Split", b.Exp(row(b, x, i)), b.i64([2, 2]), axis=0, n_outputs=2)
            )
        ),
        {"Gather": 1, "Add": 1},
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_batched(name: str) -> None:
    body, inside = LEFT[name]
    run = rewrite(body, BatchScanned())
    assert run.fired and +run.inside == Counter(inside)


def halves(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
    """Both halves of a batched value are read beside the state, each for itself."""
    one, other = b.op("Split", b.Exp(row(b, x, i)), b.i64([2, 2]), axis=0, n_outputs=2)
    first, second = b.op("Split", h, b.i64([2, 2]), axis=0, n_outputs=2)
    return [b.concat([b.Add(first, one), b.Mul(second, other)], 0)], []


def half(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
    one = b.slice(b.Exp(row(b, x, i)), [0], [2], axes=[0])
    return [b.Add(h, b.concat([one, b.slice(h, [0], [2], axes=[0])], 0))], []


def test_two_parts_are_taken_apart_in_the_body() -> None:
    run = rewrite(halves, BatchScanned())
    assert run.inside["Gather"] == 1 and run.inside["Split"] == 2 and not run.inside["Exp"]


def test_one_part_is_taken_apart_before() -> None:
    run = rewrite(half, BatchScanned())
    assert run.inside["Gather"] == run.inside["Slice"] == 1 and not run.inside["Exp"]


def test_what_broadcasts_by_itself_is_not_expanded_before() -> None:
    h = np.zeros((4, 4), np.float32)
    run = rewrite(added(lambda b, x, i: expanded(b, row(b, x, i))), BatchScanned(), h=h)
    assert +run.inside == Counter(Gather=1, Expand=1, Add=1)


def test_what_does_not_broadcast_is_expanded_before() -> None:
    h = np.zeros((4, 4), np.float32)
    body: Body = lambda b, x, i, h: ([b.concat([h, expanded(b, row(b, x, i))], 0)], [])  # noqa: E731
    body = lambda b, x, i, h: (  # noqa: E731
        [b.slice(b.concat([h, expanded(b, row(b, x, i))], 0), [2], [6], axes=[0])],
        [],
    )
    run = rewrite(body, BatchScanned(), h=h)
    assert +run.inside == Counter(Gather=1, Concat=1, Slice=1)


def test_a_cast_of_the_number_stays() -> None:
    rewrite(added(lambda b, x, i: b.cast(i, FLOAT)), BatchScanned()).nothing()


def test_a_row_stays() -> None:
    rewrite(added(row), BatchScanned()).nothing()


def test_a_column_is_made_a_row() -> None:
    run = rewrite(added(lambda b, x, i: row(b, x, i, axis=1)), BatchScanned(), x=X[:4, :4].copy(),
                  count=4)  # fmt: skip
    assert not run.fired


def wide(of: Callable[[GraphBuilder, oir.Value], oir.Value]) -> Body:
    return added(lambda b, x, i: of(b, row(b, x, i)))


WIDENED: dict[str, tuple[Callable[[GraphBuilder, oir.Value], oir.Value], bool]] = {
    "broadcast": (lambda b, r: b.Mul(b.Exp(r), b.const(WIDE)), False),
    "product": (
        lambda b, r: b.Mul(b.MatMul(b.reshape(r, (1, 1)), b.const(np.ones((1, 1), np.float32))),
                           b.const(WIDE[None])),
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDENED)
def test_rows_that_are_read_in_more_time_than_made(name: str) -> None:
    of, taken = WIDENED[name]
    h = np.zeros((1, WIDE.size), np.float32)
    run = rewrite(wide(of), BatchScanned(), h=h, x=X[:, :1].copy())
    assert run.fired and run.inside["Mul"] == (not taken)


def test_rows_as_large_as_what_they_are_made_of() -> None:
    x = np.stack([WIDE] * 5)
    run = rewrite(wide(lambda b, r: b.Abs(b.Neg(r))), BatchScanned(), h=WIDE * 0, x=x)
    assert +run.inside == Counter(Gather=1, Add=1)


STACKS: dict[str, tuple[Body, dict[str, int]]] = {
    "row": (stacked(lambda b, x, i, h: row(b, x, i)), {"Sin": 1}),
    "computed-row": (stacked(lambda b, x, i, h: b.Exp(row(b, x, i))), {"Sin": 1}),
    "from-outside": (stacked(lambda b, x, i, h: b.Identity(x)), {"Sin": 1}),
    "computed-of-what-is-outside": (stacked(lambda b, x, i, h: b.Exp(x)), {"Sin": 1}),
    "number": (stacked(lambda b, x, i, h: b.Identity(i)), {"Sin": 1}),
}


@pytest.mark.parametrize("name", STACKS)
def test_stacks_without_the_loop(name: str) -> None:
    body, inside = STACKS[name]
    run = rewrite(body, BatchScanned())
    assert run.fired and +run.inside == Counter(inside)


def test_two_stacks_keep_their_places() -> None:
    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        return [b.Sin(h)], [b.Exp(row(b, x, i)), b.Cos(h), row(b, x, i), b.Tan(h)]

    run = rewrite(body, BatchScanned())
    assert run.fired and +run.inside == Counter(Sin=1, Cos=1, Tan=1)


def test_random_numbers_are_drawn_in_each_trip() -> None:
    """They are no stack of one draw."""

    def build(b: GraphBuilder, h: oir.Value) -> Any:
        def body(trip: oir.Value, h: oir.Value) -> Any:
            drawn = b.op("RandomUniform", dtype=1, shape=[4], types=[(FLOAT, (4,))])
            return [b.Sin(h)], [b.Mul(drawn, b.const(np.float32(0))), b.Cos(h)]

        return loop(b, 5, [h], body)

    LoopRewrite(build, {"h": H}, BatchScanned(), opset=21).nothing()


def test_a_stack_of_drawn_numbers_is_no_stack_of_one() -> None:
    def build(b: GraphBuilder, h: oir.Value) -> Any:
        def body(trip: oir.Value, h: oir.Value) -> Any:
            drawn = b.op("RandomUniform", dtype=1, shape=[4], low=2.0, high=2.0,
                         types=[(FLOAT, (4,))])  # fmt: skip
            return [b.Sin(h)], [drawn]

        return loop(b, 5, [h], body)

    LoopRewrite(build, {"h": H}, BatchScanned(), opset=21).nothing()


@pytest.mark.parametrize("rule", [BatchScanned(), PostponeStacked(), EarlierRow(), LoopToScan()])
def test_loops_with_a_condition_stay(rule: Any) -> None:
    body: Body = lambda b, x, i, h: ([b.Exp(row(b, x, i))], [b.Exp(h)])  # noqa: E731
    rewrite(body, rule, stopped=True).nothing()


# -- postpone-stacked --------------------------------------------------------------------------


POSTPONED: dict[str, tuple[Body, dict[str, int]]] = {
    "function-of-a-state": (stacked(lambda b, x, i, h: b.Exp(h)), {"Sin": 1}),
    "chain": (stacked(lambda b, x, i, h: b.Abs(b.Neg(b.Exp(h)))), {"Sin": 1}),
    "of-the-state-after": (
        lambda b, x, i, h: (lambda after: ([after], [b.Exp(after)]))(b.Sin(h)),
        {"Sin": 1},
    ),
    "with-a-row": (stacked(lambda b, x, i, h: b.Mul(h, row(b, x, i))), {"Sin": 1}),
    "with-the-number": (stacked(lambda b, x, i, h: b.Mul(h, b.cast(i, FLOAT))), {"Sin": 1}),
    "twice-the-same": (
        lambda b, x, i, h: (lambda e: ([b.Sin(h)], [b.Abs(e), b.Neg(e)]))(b.Exp(h)),
        {"Sin": 1},
    ),
    "one-of-two": (
        lambda b, x, i, h: (lambda e: ([e], [e, b.Abs(e)]))(b.Sin(h)),
        {"Sin": 1},
    ),
    "a-copy": (stacked(lambda b, x, i, h: b.Identity(b.Exp(h))), {"Sin": 1}),
    "what-is-sorted": (
        stacked(lambda b, x, i, h: b.Abs(b.op("TopK", h, b.i64([4]), axis=0, n_outputs=2)[0])),
        {"Sin": 1, "TopK": 1},
    ),
}


@pytest.mark.parametrize("name", POSTPONED)
def test_postponed(name: str) -> None:
    body, inside = POSTPONED[name]
    run = rewrite(body, PostponeStacked())
    assert run.fired and +run.inside == Counter(inside)


KEPT: dict[str, Body] = {
    "state": stacked(lambda b, x, i, h: h),
    "state-after": lambda b, x, i, h: (lambda after: ([after], [after]))(b.Sin(h)),
    "copy-of-the-state": stacked(lambda b, x, i, h: b.Identity(b.Identity(h))),
    "read-in-the-body": lambda b, x, i, h: (lambda e: ([b.Sin(e)], [e]))(b.Exp(h)),
    "read-through-a-copy": (lambda b, x, i, h: (lambda e: ([b.Sin(e)], [b.Identity(e)]))(b.Exp(h))),
    "sorted": stacked(lambda b, x, i, h: b.op("TopK", h, b.i64([4]), axis=0, n_outputs=2)[0]),
    "row": stacked(lambda b, x, i, h: row(b, x, i)),
    "row-computed": stacked(lambda b, x, i, h: b.Exp(row(b, x, i))),
}


@pytest.mark.parametrize("name", KEPT)
def test_not_postponed(name: str) -> None:
    rewrite(KEPT[name], PostponeStacked()).nothing()


@pytest.mark.parametrize(("width", "fires"), [(40_000, True), (240_000, False)])
def test_large_states_are_not_stacked_for_small_rows(width: int, fires: bool) -> None:
    body = stacked(lambda b, x, i, h: b.ReduceMax(h, b.i64([0]), keepdims=0))
    run = rewrite(body, PostponeStacked(), h=np.arange(width, dtype=np.float32) % 7)
    assert bool(run.fired) == fires


def test_large_states_for_rows_half_as_large() -> None:
    body = stacked(lambda b, x, i, h: b.slice(b.Exp(h), [0], [120_000], axes=[0]))
    run = rewrite(body, PostponeStacked(), h=np.arange(240_000, dtype=np.float32) % 7)
    assert run.fired


# -- earlier-row -------------------------------------------------------------------------------


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

    run = two_states(step, EarlierRow(), count=count)
    assert run.fired and run.inside["Gather"] >= 1 and run.inside["Add"] == 1
    (body,) = (n.attributes["body"].as_graph() for n in run.model.graph if n.op_type == "Loop")
    assert len(body.inputs) == 3


def test_states_of_rows_and_of_copies() -> None:
    def step(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        return [b.Identity(b.Exp(row(b, x, i))), row(b, x, i)], [b.Mul(g, h)]

    run = two_states(step, EarlierRow())
    assert run.fired


def test_states_of_states_stay() -> None:
    def step(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value, g: oir.Value) -> Any:
        return [b.Add(g, row(b, x, i)), b.Neg(h)], [b.Mul(g, h)]

    two_states(step, EarlierRow()).nothing()


# -- loop-to-scan ------------------------------------------------------------------------------


SCANNED: dict[str, tuple[Body, int, int]] = {
    "row": (added(row), 1, 0),
    "row-twice": (lambda b, x, i, h: ([b.Add(h, b.Mul(row(b, x, i), row(b, x, i)))], []), 1, 0),
    "number": (added(lambda b, x, i: b.cast(i, FLOAT)), 1, 0),
    "nothing": (lambda b, x, i, h: ([b.Sin(h)], [b.Cos(h)]), 1, 0),
    "row-and-number": (
        lambda b, x, i, h: ([b.Add(h, b.Mul(row(b, x, i), b.cast(i, FLOAT)))], []),
        2,
        0,
    ),
    "row-stacked": (stacked(lambda b, x, i, h: row(b, x, i)), 1, 0),
    "of-another-axis": (added(lambda b, x, i: row(b, x, i, axis=1)), 1, 1),
    "negative-axis": (added(lambda b, x, i: row(b, x, i, axis=-2)), 1, 1),
    "of-a-state": (lambda b, x, i, h: ([b.Add(h, row(b, h, i))], []), 1, 1),
    "by-another-index": (
        lambda b, x, i, h: ([b.Add(h, row(b, x, b.Mul(i, b.i64(1))))], []),
        1,
        1,
    ),
}


@pytest.mark.parametrize("name", SCANNED)
def test_scan(name: str) -> None:
    body, inputs, gathers = SCANNED[name]
    run = rewrite(body, LoopToScan(), count=4, x=X[:4, :4].copy())
    (scan,) = (node for node in run.model.graph if node.op_type == "Scan")
    assert scan.attributes["num_scan_inputs"].as_int() == inputs
    assert run.inside["Gather"] == gathers


@pytest.mark.parametrize("count", [3, 5])
def test_scan_of_the_first_rows(count: int) -> None:
    run = rewrite(added(row), LoopToScan(), count=count)
    assert run.fired and run.outside["Slice"] == (count < 5)


def test_many_numbers_are_not_stored() -> None:
    body = added(lambda b, x, i: b.cast(b.Mod(i, b.i64(2)), FLOAT))
    h = np.zeros(1, np.float32)
    assert rewrite(body, LoopToScan(), count=1 << 16, h=h).fired
    rewrite(body, LoopToScan(), count=(1 << 16) + 1, h=h).nothing()


# -- unroll-loop -------------------------------------------------------------------------------


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
    run = rewrite(body, UnrollLoop(), count=count)
    assert bool(run.fired) == fires
    assert bool(run.nodes["Loop"]) != fires
    if fires:
        assert not run.nodes["Identity"]


def test_rows_of_constants_are_constants() -> None:
    run = rewrite(added(lambda b, x, i: row(b, b.const(X), i)), UnrollLoop(), count=3)
    run.gives("Add", "Add", "Add", "Neg")


def test_rows_of_arguments_are_sliced() -> None:
    run = rewrite(added(row), UnrollLoop(), count=2)
    run.gives("Add", "Add", "Neg", "Slice", "Slice", "Squeeze", "Squeeze")


# -- computed-table ----------------------------------------------------------------------------


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
    assert tables_of(rewrite(looked_up(of), ComputedTable())) == tables


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


@pytest.mark.parametrize("name", TABLE_STAYS)
def test_table_stays(name: str) -> None:
    rewrite(TABLE_STAYS[name], ComputedTable()).nothing()


@pytest.mark.parametrize(("axes", "fires"), [(1, True), (2, True), (3, False)])
def test_numbers_with_axes(axes: int, fires: bool) -> None:
    """They must not give the table another rank."""
    number = np.full((1,) * axes, 3, np.float32)

    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        place = b.unsqueeze(b.Mod(b.Mul(i, b.i64(3)), b.i64(5)), range(axes - 1))
        return [b.Add(h, b.Mul(row(b, x, place), b.const(number)))], []

    h = np.zeros((1,) * (axes - 1) + (4,), np.float32)
    assert bool(rewrite(body, ComputedTable(), h=h).fired) == fires


@pytest.mark.parametrize(("rows", "fires"), [(8, True), (9, False)])
def test_tables_of_eight_times_what_is_taken(rows: int, fires: bool) -> None:
    x = np.ones((rows, 200), np.float32)
    h = np.zeros(200, np.float32)
    assert bool(rewrite(looked_up(COMPUTED["unary"][0]), ComputedTable(), x=x, h=h).fired) == fires


@pytest.mark.parametrize(("rows", "fires"), [(1024, True), (1025, False)])
def test_small_tables(rows: int, fires: bool) -> None:
    x = np.ones((rows, 1), np.float32)
    h = np.zeros(1, np.float32)
    assert bool(rewrite(looked_up(COMPUTED["unary"][0]), ComputedTable(), x=x, h=h).fired) == fires


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

    run = rewrite(body, ComputedTable(), x=x, h=np.zeros(1, dtype), count=3)
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

    LoopRewrite(build, {"x": X, "n": np.array(0)}, ComputedTable()).nothing()


def test_no_table_outside_of_loops() -> None:
    LoopRewrite(
        lambda b, x, n: b.Exp(row(b, x, n)), {"x": X, "n": np.array(0)}, ComputedTable()
    ).nothing()

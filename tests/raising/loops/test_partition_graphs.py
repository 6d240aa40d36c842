"""Nodes that leave loops on small graphs: those on rows, and those behind stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    Body,
    H,
    LoopRewrite,
    X,
    added,
    loop,
    numbers,
    rewrite,
    row,
    stacked,
)
from loop_parts import EARLY, LATE

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.loop_to_scan import LoopToScan

W = numbers(4, 4)
WIDE = np.arange(20_000, dtype=np.float32)
FLOAT = oir.DataType.FLOAT


def expanded(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.expand(b.Exp(x), (4, 4))


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
    "what-a-state-becomes": (
        lambda b, x, i, h: ([b.Exp(row(b, x, i))], [b.Sin(h)]),
        {"Gather": 1, "Sin": 1},
    ),
    "row-read-beside": (
        added(lambda b, x, i: (lambda r: b.Add(b.Exp(r), b.Neg(r)))(row(b, x, i))),
        {"Gather": 1, "Add": 1},
    ),
    "both-halves": (
        added(
            lambda b, x, i: (lambda s: b.concat([s[1], s[0]], 0))(
                b.outputs("Split", b.Exp(row(b, x, i)), b.i64([2, 2]), axis=0, n_outputs=2)
            )
        ),
        {"Gather": 1, "Add": 1},
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_batched(name: str) -> None:
    body, inside = LEFT[name]
    run = rewrite(body, EARLY)
    assert run.fired and +run.inside == Counter(inside)


def halves(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
    """Both halves of a batched value are read beside the state, each for itself."""
    one, other = b.outputs("Split", b.Exp(row(b, x, i)), b.i64([2, 2]), axis=0, n_outputs=2)
    first, second = b.outputs("Split", h, b.i64([2, 2]), axis=0, n_outputs=2)
    return [b.concat([b.Add(first, one), b.Mul(second, other)], 0)], []


def half(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
    one = b.slice(b.Exp(row(b, x, i)), [0], [2], axes=[0])
    return [b.Add(h, b.concat([one, b.slice(h, [0], [2], axes=[0])], 0))], []


def test_two_parts_are_taken_apart_in_the_body() -> None:
    run = rewrite(halves, EARLY)
    assert run.inside["Gather"] == 1 and run.inside["Split"] == 2 and not run.inside["Exp"]


def test_one_part_is_taken_apart_before() -> None:
    run = rewrite(half, EARLY)
    assert run.inside["Gather"] == run.inside["Slice"] == 1 and not run.inside["Exp"]


def test_what_broadcasts_by_itself_is_not_expanded_before() -> None:
    h = np.zeros((4, 4), np.float32)
    run = rewrite(added(lambda b, x, i: expanded(b, row(b, x, i))), EARLY, h=h)
    assert +run.inside == Counter(Gather=1, Expand=1, Add=1)


def test_what_does_not_broadcast_is_expanded_before() -> None:
    h = np.zeros((4, 4), np.float32)
    body: Body = lambda b, x, i, h: ([b.concat([h, expanded(b, row(b, x, i))], 0)], [])  # noqa: E731
    body = lambda b, x, i, h: (  # noqa: E731
        [b.slice(b.concat([h, expanded(b, row(b, x, i))], 0), [2], [6], axes=[0])],
        [],
    )
    run = rewrite(body, EARLY, h=h)
    assert +run.inside == Counter(Gather=1, Concat=1, Slice=1)


def test_what_is_made_of_the_number_twice() -> None:
    body = added(lambda b, x, i: b.Mul(i, b.Add(i, b.i64(1))))
    run = rewrite(body, EARLY, h=np.arange(4))
    assert +run.inside == Counter(Gather=1, Add=1)


def test_a_cast_of_the_number_stays() -> None:
    rewrite(added(lambda b, x, i: b.cast(i, FLOAT)), EARLY).nothing()


def test_a_row_stays() -> None:
    rewrite(added(row), EARLY).nothing()


def test_a_column_is_made_a_row() -> None:
    run = rewrite(added(lambda b, x, i: row(b, x, i, axis=1)), EARLY, x=X[:4, :4].copy(),
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
    run = rewrite(wide(of), EARLY, h=h, x=X[:, :1].copy())
    assert run.fired and run.inside["Mul"] == (not taken)


def test_rows_as_large_as_what_they_are_made_of() -> None:
    x = np.stack([WIDE] * 5)
    run = rewrite(wide(lambda b, r: b.Abs(b.Neg(r))), EARLY, h=WIDE * 0, x=x)
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
    run = rewrite(body, EARLY)
    assert run.fired and +run.inside == Counter(inside)


def test_two_stacks_keep_their_places() -> None:
    def body(b: GraphBuilder, x: oir.Value, i: oir.Value, h: oir.Value) -> Any:
        return [b.Sin(h)], [b.Exp(row(b, x, i)), b.Cos(h), row(b, x, i), b.Tan(h)]

    run = rewrite(body, EARLY)
    assert run.fired and +run.inside == Counter(Sin=1, Cos=1, Tan=1)


def test_random_numbers_are_drawn_in_each_trip() -> None:
    """They are no stack of one draw."""

    def build(b: GraphBuilder, h: oir.Value) -> Any:
        def body(trip: oir.Value, h: oir.Value) -> Any:
            drawn = b.op("RandomUniform", dtype=1, shape=[4], types=[(FLOAT, (4,))])
            return [b.Sin(h)], [b.Mul(drawn, b.const(np.float32(0))), b.Cos(h)]

        return loop(b, 5, [h], body)

    LoopRewrite(build, {"h": H}, EARLY, opset=21).nothing()


def test_a_stack_of_drawn_numbers_is_no_stack_of_one() -> None:
    def build(b: GraphBuilder, h: oir.Value) -> Any:
        def body(trip: oir.Value, h: oir.Value) -> Any:
            drawn = b.op("RandomUniform", dtype=1, shape=[4], low=2.0, high=2.0,
                         types=[(FLOAT, (4,))])  # fmt: skip
            return [b.Sin(h)], [drawn]

        return loop(b, 5, [h], body)

    LoopRewrite(build, {"h": H}, EARLY, opset=21).nothing()


@pytest.mark.parametrize("rule", [EARLY, LATE, LoopToScan()])
def test_loops_with_a_condition_stay(rule: Any) -> None:
    body: Body = lambda b, x, i, h: ([b.Exp(row(b, x, i))], [b.Exp(h)])  # noqa: E731
    rewrite(body, rule, stopped=True).nothing()


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
    "beside-what-is-sorted": (
        lambda b, x, i, h: (
            [b.Sin(h)],
            [b.outputs("TopK", h, b.i64([4]), axis=0, n_outputs=2)[0], b.Abs(b.Exp(h))],
        ),
        {"Sin": 1, "TopK": 1},
    ),
    "a-copy": (stacked(lambda b, x, i, h: b.Identity(b.Exp(h))), {"Sin": 1}),
    "what-is-sorted": (
        stacked(lambda b, x, i, h: b.Abs(b.outputs("TopK", h, b.i64([4]), axis=0, n_outputs=2)[0])),
        {"Sin": 1, "TopK": 1},
    ),
}


@pytest.mark.parametrize("name", POSTPONED)
def test_postponed(name: str) -> None:
    body, inside = POSTPONED[name]
    run = rewrite(body, LATE)
    assert run.fired and +run.inside == Counter(inside)


def test_all_stacks_are_postponed_at_once() -> None:
    body: Body = lambda b, x, i, h: ([b.Sin(h)], [b.Exp(h), b.Abs(b.Neg(h))])  # noqa: E731
    run = rewrite(body, LATE)
    assert run.fired == {"part": 1}
    assert +run.inside == Counter(Sin=1)


KEPT: dict[str, Body] = {
    "state": stacked(lambda b, x, i, h: h),
    "state-after": lambda b, x, i, h: (lambda after: ([after], [after]))(b.Sin(h)),
    "copy-of-the-state": stacked(lambda b, x, i, h: b.Identity(b.Identity(h))),
    "read-in-the-body": lambda b, x, i, h: (lambda e: ([b.Sin(e)], [e]))(b.Exp(h)),
    "read-through-a-copy": (lambda b, x, i, h: (lambda e: ([b.Sin(e)], [b.Identity(e)]))(b.Exp(h))),
    "sorted": stacked(lambda b, x, i, h: b.outputs("TopK", h, b.i64([4]), axis=0, n_outputs=2)[0]),
    "row": stacked(lambda b, x, i, h: row(b, x, i)),
    "row-computed": stacked(lambda b, x, i, h: b.Exp(row(b, x, i))),
}


@pytest.mark.parametrize("name", KEPT)
def test_not_postponed(name: str) -> None:
    rewrite(KEPT[name], LATE).nothing()


@pytest.mark.parametrize(("width", "fires"), [(40_000, True), (240_000, False)])
def test_large_states_are_not_stacked_for_small_rows(width: int, fires: bool) -> None:
    body = stacked(lambda b, x, i, h: b.ReduceMax(h, b.i64([0]), keepdims=0))
    run = rewrite(body, LATE, h=np.arange(width, dtype=np.float32) % 7)
    assert bool(run.fired) == fires


def test_large_states_for_rows_half_as_large() -> None:
    body = stacked(lambda b, x, i, h: b.slice(b.Exp(h), [0], [120_000], axes=[0]))
    run = rewrite(body, LATE, h=np.arange(240_000, dtype=np.float32) % 7)
    assert run.fired

"""Single bodies that do the same to two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    numbers,
    stepped,
)

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.horizontal_fusion import HorizontalFusion

Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]


def thirds(b: GraphBuilder, x: Value, axis: int = 0) -> list[Value]:
    return list(b.outputs("Split", x, b.i64([1, 1, 1]), axis=axis, n_outputs=3))


def flux(b: GraphBuilder, parts: list[Value], by: Value | None = None) -> Value:
    """Five nodes of three rows."""
    u, v, w = parts
    made: Value = b.concat([b.Mul(u, v), b.Abs(b.Add(w, u if by is None else by)), b.Neg(v)], 0)
    return made


def of_both(f: Any, after: Any = None, g: Any = None) -> Step:
    """f of the state and of its negative, subtracted."""

    def step(b: GraphBuilder, x: Value) -> Value:
        y = b.Relu(x)
        one, other = f(b, thirds(b, x)), (g or f)(b, thirds(b, y))
        return (after or b.Sub)(one, other)  # type: ignore[no-any-return]

    return step


def deep(b: GraphBuilder, parts: list[Value]) -> Value:
    return b.Abs(b.Neg(flux(b, parts)))  # type: ignore[no-any-return]


TWINS: dict[str, tuple[Step, bool]] = {
    "seven-nodes": (of_both(deep), True),
    "four-nodes-saved": (of_both(flux), True),
    "three-nodes-saved": (
        of_both(lambda b, p: b.concat([b.Mul(p[0], p[1]), b.Abs(b.Add(p[2], p[0])), p[1]], 0)),
        False,
    ),
    "numbers": (of_both(lambda b, p: b.Abs(flux(b, p, b.const(np.float32(2))))), True),
    "a-column": (
        of_both(lambda b, p: b.Abs(flux(b, p, b.const(np.full((1, 1), 2, np.float32))))),
        True,
    ),
    "a-row": (
        of_both(lambda b, p: b.Abs(b.Neg(flux(b, p, b.const(numbers(1, 5)))))),
        False,
    ),
    "little": (of_both(lambda b, p: b.concat([b.Neg(p[0]), b.Abs(p[1]), p[2]], 0)), False),
    "unlike": (of_both(deep, g=lambda b, p: b.Floor(b.Relu(b.concat(p, 0)))), False),
    "another-order": (of_both(deep, g=lambda b, p: deep(b, [p[1], p[2], p[0]])), False),
    "softmax": (of_both(lambda b, p: flux(b, [b.Softmax(x, axis=1) for x in p])), False),
    "first-read-too-early": (
        of_both(lambda b, p: b.Abs(b.Neg(b.ReduceMax(flux(b, p), b.i64([1]), keepdims=1)))),
        False,
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_twins(name: str) -> None:
    step, fires = TWINS[name]
    run = stepped(step, numbers(3, 5), HorizontalFusion())
    assert bool(run.fired) == fires
    assert run.inside["Mul"] == (
        1 if fires else 2 - (name in ("little", "unlike")) - (name == "little")
    )


@pytest.mark.parametrize(("columns", "fires"), [(426, True), (427, False)])
def test_twins_that_are_large(columns: int, fires: bool) -> None:
    """Six nodes are saved, less the one that is read; five are as many as 1280 elements take."""
    run = stepped(of_both(deep), numbers(3, columns), HorizontalFusion())
    assert run.fired if fires else True


def test_twins_outside_of_bodies_stay() -> None:
    LoopRewrite(
        lambda b, x: of_both(deep)(b, x), {"x": numbers(3, 5)}, HorizontalFusion()
    ).nothing()


def test_single_columns_are_no_twins() -> None:
    stepped(of_both(deep), numbers(3, 1), HorizontalFusion()).nothing()


def test_two_columns_are_twins() -> None:
    assert stepped(of_both(deep), numbers(3, 2), HorizontalFusion()).fired


def test_splits_along_the_first_axis_by_default() -> None:
    def parts(b: GraphBuilder, x: Value) -> list[Value]:
        return list(b.outputs("Split", x, b.i64([1, 1, 1]), n_outputs=3))

    def step(b: GraphBuilder, x: Value) -> Value:
        made: Value = b.Sub(deep(b, parts(b, x)), deep(b, parts(b, b.Relu(x))))
        return made

    assert stepped(step, numbers(3, 5), HorizontalFusion()).fired


@pytest.mark.parametrize(("late", "fires"), [(False, True), (True, False)])
def test_what_both_read_is_made_before_both_are_split(late: bool, fires: bool) -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        y = b.Relu(x)
        before = b.ReduceMax(x, b.i64([0, 1]), keepdims=1)
        one, other = thirds(b, x), thirds(b, y)
        by = b.ReduceMin(x, b.i64([0, 1]), keepdims=1) if late else before
        made: Value = b.Add(b.Sub(flux(b, one, by), flux(b, other, by)), before)
        return made

    assert bool(stepped(step, numbers(3, 5), HorizontalFusion()).fired) == fires


def test_the_second_twin_reads_the_first() -> None:
    def step(b: GraphBuilder, x: Value) -> Value:
        one = deep(b, thirds(b, x))
        return deep(b, thirds(b, one))

    stepped(step, numbers(3, 5), HorizontalFusion()).nothing()


def test_twins_that_are_cut_along_the_last_axis_stay() -> None:
    def of(b: GraphBuilder, x: Value) -> Value:
        u, v, w = thirds(b, x, 1)
        return b.Abs(b.Neg(b.concat([b.Mul(u, v), b.Abs(b.Add(w, u)), b.Neg(v)], 1)))  # type: ignore[no-any-return]

    stepped(
        lambda b, x: b.Sub(of(b, x), of(b, b.Relu(x))), numbers(4, 3), HorizontalFusion()
    ).nothing()


def test_splits_into_one_along_the_last_axis_stay() -> None:
    def of(b: GraphBuilder, x: Value) -> Value:
        (whole,) = b.node("Split", [x, b.i64([5])], {"axis": 1}, [(x.dtype, (3, 5))])
        made: Value = b.Mul(b.Abs(b.Neg(b.Floor(b.Relu(b.Neg(b.Abs(whole)))))), whole)
        return made

    def step(b: GraphBuilder, x: Value) -> Value:
        made: Value = b.Sub(of(b, x), of(b, b.Relu(x)))
        return made

    stepped(step, numbers(3, 5), HorizontalFusion()).nothing()

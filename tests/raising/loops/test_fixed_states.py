"""States that never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, either, loop
from loop_parts import FIXED
from rewriting import Rewrite
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of

X = np.array([1, -2, 3], np.float32)
T = oir.DataType
Value = oir.Value


def selected(b: GraphBuilder, x: Value, first: Value, second: Value) -> Value:
    condition = b.Less(b.ReduceSum(x, b.i64([0]), keepdims=0), b.scalar(9, T.FLOAT))
    chosen: Value = b.Where(condition, first, second)
    return chosen


def code(b: GraphBuilder, item: float, dtype: oir.DataType = T.FLOAT) -> Value:
    return b.scalar(item, dtype)


Step = Callable[[GraphBuilder, Value, Value], Value]
KEEPS: dict[str, Step] = {
    "itself": lambda b, x, s: b.Identity(s),
    "the same constant": lambda b, x, s: b.Identity(code(b, np.inf)),
    "one branch": lambda b, x, s: either(b, x, [code(b, np.inf)], [s])[0],
    "both branches": lambda b, x, s: either(b, x, [s], [s])[0],
    "selection": lambda b, x, s: selected(b, x, s, code(b, np.inf)),
    "selection of a branch": lambda b, x, s: selected(
        b, x, either(b, x, [s], [code(b, np.inf)])[0], s
    ),
}
CHANGES: dict[str, Step] = {
    "another constant": lambda b, x, s: b.Identity(code(b, -np.inf)),
    "another branch": lambda b, x, s: either(b, x, [s], [code(b, 0)])[0],
    "another choice": lambda b, x, s: selected(b, x, code(b, 1), s),
    "computed": lambda b, x, s: b.Neg(s),
}


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("name", [*KEEPS, *CHANGES])
def test_states(name: str, stopped: bool) -> None:
    after = (KEEPS | CHANGES)[name]

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def step(i: Value, y: Value, s: Value) -> tuple[list[Value], list[Value]]:
            return [b.Add(y, s), after(b, y, s)], [b.Neg(s)]

        y, s, rows = loop(b, 3, [x, code(b, np.inf)], step, stopped)
        return [b.Exp(y), b.Abs(s), rows]

    rewrite = LoopRewrite(build, {"x": X}, FIXED)
    assert bool(rewrite.fired) == (name in KEEPS)


def test_a_zero_of_the_other_sign_is_another_state() -> None:
    for item, fires in ((0.0, True), (-0.0, False)):

        def build(b: GraphBuilder, x: Value) -> Value:
            def step(i: Value, s: Value) -> tuple[list[Value], list[Value]]:
                return [b.Identity(code(b, item))], []  # noqa: B023

            return b.Reciprocal(loop(b, 3, [code(b, 0.0)], step)[0])

        assert bool(Rewrite(build, {"x": X}, FIXED).fired) == fires


def test_a_loop_of_constants_vanishes() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        step = lambda i, s: ([either(b, x, [s], [code(b, 7)])[0]], [])  # noqa: E731
        return [loop(b, 3, [code(b, 7)], step)[0], b.Neg(x)]

    LoopRewrite(build, {"x": X}, FIXED).gives("Identity", "Neg")


def test_states_that_are_inputs_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        step = lambda i, y: ([either(b, x, [y], [b.const(X)])[0]], [])  # noqa: E731
        return b.Neg(loop(b, 3, [x], step)[0])

    Rewrite(build, {"x": X}, FIXED).nothing()


def solver(x: Array) -> Any:
    """A solver whose code of errors stays 0, and whose cache only one branch writes."""

    def step(s: Any) -> Any:
        k, y, result, cache = s
        y, result, cache = lax.cond(
            y[0] > 0,
            lambda: (y * 0.5, jnp.int32(0), y * 3),
            lambda: (y - 0.25, result, cache),
        )
        return k + 1, y, jnp.where(jnp.isfinite(y).all(), result, 0), cache

    going = lambda s: (s[0] < 12) & (s[2] == 0)  # noqa: E731
    return lax.while_loop(going, step, (0, x, jnp.int32(0), x))[1:3]


def test_a_solver() -> None:
    program = verified(solver, X)
    assert program.report.rules["partition-loop"]
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    assert [shape_of(x) for x in loop.attributes["body"].as_graph().inputs] == [(), (), (3,)]


@pytest.mark.parametrize("count", [60, 1200])
def test_many_choices(count: int) -> None:
    """Each of so many choices is read by two others: there are more paths than a translation
    follows, and they are longer than Python's stack."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, y: Value, s: Value) -> tuple[list[Value], list[Value]]:
            before, after = b.scalar(2, T.FLOAT), s
            for k in range(count):
                condition = b.Less(y, b.scalar(k, T.FLOAT))
                before, after = after, b.Where(condition, after, before)
            return [b.Add(y, s), after], []

        return loop(b, 3, [x, b.scalar(2, T.FLOAT)], trip)

    rewrite = LoopRewrite(build, {"x": np.array(0.5, np.float32)}, FIXED)
    assert rewrite.fired

"""States that only sum up what trips compute are summed after the loop."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, loop
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.sum_after_loop import SumAfterLoop

X = np.array([0.5, -2, np.nan, np.inf, -0.0], np.float32)
Value = oir.Value
Step = Callable[[GraphBuilder, Value, Value, Value], tuple[list[Value], list[Value]]]
"""`step(b, x, s, t)` gives s and t after a trip, and rows of stacks."""


def adds(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    return [b.Add(s, b.Mul(t, x)), b.Neg(t)], [b.Abs(t)]


def reshaped(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    term = b.reshape(b.Mul(t, x), (5, 1))
    return [b.reshape(b.Add(term, b.reshape(s, (5, 1))), (5,)), b.Neg(t)], []


def itself(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    return [b.Add(s, s), b.Neg(t)], []


def read(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    return [b.Add(s, b.Mul(t, x)), b.Neg(s)], []


def stacked(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    total = b.Add(s, b.Mul(t, x))
    return [total, b.Neg(t)], [b.Abs(total)]


def constant(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    return [b.Add(s, x), b.Neg(t)], []


def broadcast(b: GraphBuilder, x: Value, s: Value, t: Value) -> tuple[list[Value], list[Value]]:
    return [b.Add(s, b.ReduceMax(t, b.i64([0]), keepdims=1)), b.Neg(t)], []


def rewritten(
    step: Step, count: int = 8, stopped: bool = False, x: np.ndarray[tuple[int], np.dtype] = X
) -> LoopRewrite:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, *states: Value) -> tuple[list[Value], list[Value]]:
            return step(b, x, states[0], states[1])

        return [b.Neg(y) for y in loop(b, count, [x, b.Neg(x)], trip, stopped)]

    return LoopRewrite(build, {"x": x}, SumAfterLoop())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("step", [adds, reshaped])
def test_sums_after_the_loop(step: Step, dtype: type) -> None:
    x = X if dtype in (np.float32, np.float64) else np.array([3, -2, 2**30, 0, 7])
    rewrite = rewritten(step, x=x.astype(dtype))
    assert rewrite.fired and "Add" not in rewrite.inside


@pytest.mark.parametrize("step", [itself, read, stacked, constant, broadcast])
def test_other_states_stay(step: Step) -> None:
    assert not rewritten(step).fired


def test_a_condition_or_few_trips() -> None:
    assert not rewritten(adds, stopped=True).fired
    assert not rewritten(adds, count=5).fired


def test_large_sums_stay() -> None:
    assert not rewritten(adds, x=np.ones(1000, np.float32)).fired


@pytest.mark.parametrize("start", [0.0, -0.0])
def test_signs_of_zeros(start: float) -> None:
    """Sums of -0 alone are -0."""

    def run(s: Array, x: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            total, y = carry
            return (total + jnp.sin(y), jnp.tanh(y)), None

        (total, y), _ = lax.scan(step, (s, x), length=12)
        return 1 / total, y

    program = verified(run, np.full(2, start, np.float32), np.array([-0.0, 0.3], np.float32))
    assert program.report.rules["sum-after-loop"] == 1


def test_diagonals_of_rows() -> None:
    """What a filter sums up needs elements of the matrices that it carries."""

    def run(x: Array) -> tuple[Array, Array]:
        def step(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
            total, y = carry
            return (total + jnp.sum(jnp.log(jnp.abs(jnp.diag(y)))), jnp.sin(y @ x)), None

        sums: tuple[Array, Array] = lax.scan(step, (jnp.float32(1), x), length=100)[0]
        return sums

    program = verified(run, np.array([[1, 2], [-0.5, 3]], np.float32))
    inside = {
        node.op_type
        for outer in program.model.graph
        for body in outer.attributes.values()
        if body.type == oir.AttributeType.GRAPH
        for node in body.as_graph()
    }
    assert "Sin" in inside and inside.isdisjoint({"Log", "Abs", "GatherND"})

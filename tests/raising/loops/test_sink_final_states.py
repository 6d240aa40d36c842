"""States of which only the last values matter are computed after the loop."""

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
from hlo2onnx.raising.rules.loops.sink_final_states import SinkFinalStates

X = np.array([0.5, -2, np.nan, np.inf, -0.0], np.float32)
T = oir.DataType
Value = oir.Value
Step = Callable[[GraphBuilder, Value, Value, Value, Value], list[Value]]
"""`step(b, trip, x, s, t)` gives s and t after a trip."""


def density(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    after = b.Add(s, x)
    return [after, b.Neg(b.Exp(after))]


def shared(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    """The root is needed for both, and is computed once more."""
    after = b.Add(s, x)
    root = b.Sqrt(after)
    return [after, b.Neg(b.Exp(root)), b.Sub(b.Abs(root), s)]


def numbered(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    return [b.Add(s, x), b.Mul(x, b.Cast(i, to=T.FLOAT))]


def before(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    """A third state holds what the first one was."""
    return [b.Add(s, x), b.Neg(b.Exp(s)), b.Identity(s)]


def alike(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    after = b.Add(s, x)
    return [after, b.Identity(after)]


def passed(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    """What the state was before the last trip is not known after it."""
    return [b.Add(s, x), b.Neg(b.Exp(s))]


def read(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    return [b.Add(s, t), b.Neg(b.Exp(b.Add(s, x)))]


def returned(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    return [b.Add(s, x), b.Exp(s), b.Identity(t)]


def much(b: GraphBuilder, i: Value, x: Value, s: Value, t: Value) -> list[Value]:
    """Nearly all that computes the density is needed in each trip."""
    after = b.Add(s, x)
    terms = [after]
    for _ in range(6):
        terms.append(b.Sin(terms[-1]))
    return [after, b.Neg(terms[-1]), b.Add(terms[-1], s)]


def rewritten(step: Step, count: int = 3, stopped: bool = False) -> LoopRewrite:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, *states: Value) -> tuple[list[Value], list[Value]]:
            after = step(b, i, x, states[0], states[1])
            kept = [*after, *states[len(after) :]]
            # The third state is read in each trip.
            kept[2] = b.Add(kept[2], states[2]) if len(after) == 3 else kept[2]
            return kept, [b.Abs(states[0])]

        return [b.Reciprocal(y) for y in loop(b, count, [x, b.Neg(x), b.Cos(x)], trip, stopped)]

    return LoopRewrite(build, {"x": X}, SinkFinalStates())


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize(
    ("step", "gone"), [(density, {"Exp", "Neg"}), (shared, {"Exp", "Neg"}), (numbered, {"Mul"})]
)
def test_sinks(step: Step, gone: set[str], stopped: bool) -> None:
    """The number of the last trip is known only if no condition ends the loop."""
    rewrite = rewritten(step, 3, stopped)
    sinks = not (stopped and step is numbered)
    assert bool(rewrite.fired) == sinks
    assert gone.isdisjoint(rewrite.inside) == sinks


@pytest.mark.parametrize("step", [passed, read, returned, much])
def test_stays(step: Step) -> None:
    assert not rewritten(step, 2).fired


def test_equal_states_of_the_last_trip() -> None:
    assert rewritten(alike).fired == {"sink-final-states": 1}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_trips(count: int) -> None:
    """A loop without trips gives the state that it starts from; of one trip nothing is saved."""
    assert bool(rewritten(density, count).fired) == (count == 2)


def test_states_before_the_trip() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def trip(i: Value, *states: Value) -> tuple[list[Value], list[Value]]:
            return before(b, i, x, states[0], states[1]), [b.Sin(states[2])]

        return [b.Reciprocal(y) for y in loop(b, 3, [x, x, b.Cos(x)], trip)]

    rewrite = LoopRewrite(build, {"x": X}, SinkFinalStates())
    assert rewrite.fired and "Exp" not in rewrite.inside


def test_leapfrog() -> None:
    """A sampler keeps the density of the last place."""

    def run(x: Array, v: Array) -> tuple[Array, Array, Array]:
        def step(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, v, _ = carry
            x = x + 0.1 * v
            return x, v - 0.1 * jnp.sinh(x), -jnp.sum(jnp.cosh(x))

        return lax.fori_loop(0, 40, step, (x, v, jnp.float32(0)))

    args = np.array([1, -2, 3], np.float32), np.array([0.5, 0, 1], np.float32)
    program = verified(run, *args)
    assert program.report.rules["sink-final-states"] == 1
    inside = [
        node.op_type
        for outer in program.model.graph
        for body in outer.attributes.values()
        if body.type == oir.AttributeType.GRAPH
        for node in body.as_graph()
    ]
    assert "Sinh" in inside and "Cosh" not in inside

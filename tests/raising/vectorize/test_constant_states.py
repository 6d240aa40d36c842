"""Loops whose trips follow from constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, loop
from loop_parts import CONSTANT
from verified import verified

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import const_ints, dtype_of, shape_of

X = np.array([0.5, -2.0, 3.0], np.float32)
NAME = "partition-loop"
T = oir.DataType
Value = oir.Value


def equal(function: Callable[..., Any], *args: Any, **options: Any) -> hlo2onnx.OnnxProgram:
    """The translation of a function, with the bits that XLA computes."""
    program = hlo2onnx.translate(jax.jit(function), *args, **options)
    got, want = jax.tree.leaves(program(*args)), jax.tree.leaves(jax.jit(function)(*args))
    for x, y in zip(got, want, strict=True):
        np.testing.assert_array_equal(x, y)
    return program


def conditions(program: hlo2onnx.OnnxProgram) -> int:
    """How many loops compute in a trip whether there is another one."""
    return sum(
        node.op_type == "Loop"
        and node.attributes["body"].as_graph().outputs[0].producer().op_type != "Identity"  # type: ignore[union-attr]
        for node in all_nodes(program.model.graph)
    )


# -- the number of trips ---------------------------------------------------------------------------


def until(
    test: Callable[[Any], Any], step: Callable[[Any], Any], first: Any = 0.0
) -> Callable[[Array], Any]:
    """Adds up t and its largest values in x while `test` of t holds."""

    def function(x: Array) -> Any:
        body = lambda s: (step(s[0]), jnp.maximum(s[1], x) + s[0])  # noqa: E731
        return lax.while_loop(lambda s: test(s[0]), body, (jnp.asarray(first), x))

    return function


ENDS: dict[str, tuple[Callable[..., Any], int]] = {
    "time": (until(lambda t: t < 1, lambda t: t + 0.0625), 16),
    "rounded time": (until(lambda t: t < 1, lambda t: t + 0.1), 10),
    "halved": (until(lambda t: t > 0.01, lambda t: t / 2, 1.0), 7),
    "clipped": (until(lambda t: t < 1, lambda t: jnp.where(t + 0.3 > 0.99, 1, t + 0.3)), 4),
    "NaN": (until(lambda t: t < 9, lambda t: jnp.sqrt(t - 2), 3.0), 2),
    "wraps": (until(lambda k: k > 0, lambda k: k * 3, np.int8(5)), 3),
    "a vector": (
        until(lambda v: v.sum() < 99, lambda v: v[::-1] * 2 + 1, np.arange(3, dtype=np.int32)),
        5,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_number_of_trips_is_known(name: str) -> None:
    function, count = ENDS[name]
    without = {"loop-unroll", "loop-to-scan"}
    program = equal(function, X, without=without)
    assert program.report.rules[NAME]
    (node,) = (node for node in program.model.graph if node.op_type == "Loop")
    assert const_ints(node.inputs[0]) == (count,) and not conditions(program)


def test_values_that_depend_on_the_time_are_computed_before() -> None:
    def function(x: Array) -> Any:
        def body(s: Any) -> Any:
            t, y = s
            return t + 0.125, y * 0.5 + jnp.exp(-t * x) * x

        return lax.while_loop(lambda s: s[0] < 1, body, (0.0, x))[1]

    program = verified(function, X, without={"loop-unroll"})
    (node,) = (node for node in program.model.graph if node.op_type == "Scan")
    assert "Exp" not in {inner.op_type for inner in node.attributes["body"].as_graph()}


def test_a_loop_of_constants_vanishes() -> None:
    function = lambda x: x * lax.while_loop(lambda t: t < 50, lambda t: t * 3 + 1, 1.0)  # noqa: E731
    assert sorted(equal(function, X).report.nodes) == ["Mul"]


def test_an_inner_loop_ends_alike_in_each_trip() -> None:
    def function(x: Array) -> Any:
        halve = lambda s: (s[0] / 2, s[1] + s[0])  # noqa: E731
        return lax.fori_loop(
            0, 50, lambda i, y: lax.while_loop(lambda s: s[0] > 0.1, halve, (1.0, y))[1] * 0.5, x
        )

    program = equal(function, X)
    assert program.report.rules[NAME] and not conditions(program)


def test_states_that_branches_choose() -> None:
    """A branch gives a number that follows from constants, beside one that does not."""

    def function(x: Array) -> Any:
        def body(s: Any) -> Any:
            k, t, y = s
            up = lambda: (k + 1, t * 2, jnp.cumsum(y))  # noqa: E731
            down = lambda: (k + 3, t + 0.5, y - t)  # noqa: E731
            return lax.cond(k % 2 == 0, up, down)

        return lax.while_loop(lambda s: s[0] < 9, body, (0, 1.0, x))

    program = equal(function, X)
    assert program.report.rules[NAME] and not conditions(program)
    (branch,) = (node for node in all_nodes(program.model.graph) if node.op_type == "If")
    assert len(branch.outputs) == 1


def test_a_state_of_floats_without_a_condition() -> None:
    """Its exponentials are computed before the loop, and constants."""

    def function(x: Array) -> Any:
        def body(_: Any, s: Any) -> Any:
            t, y = s
            return t + 0.1, y * 0.5 + jnp.sqrt(t) * 3

        return lax.fori_loop(0, 30, body, (0.0, x))

    program = equal(function, X)
    assert program.report.rules[NAME]
    assert "Sqrt" not in program.report.nodes


# -- near misses -----------------------------------------------------------------------------------

NEAR_MISSES: dict[str, Callable[..., Any]] = {
    "from an input": lambda x: until(lambda t: t < 9, lambda t: t + 1.5, x[0])(x),
    "by an input": lambda x: until(lambda t: t < 9, lambda t: t + jnp.abs(x[1]))(x),
    "to an input": lambda x: until(lambda t: t < x[2], lambda t: t + 0.5)(x),
    "sums of floats": lambda x: lax.while_loop(
        lambda s: s[0].sum() < 9, lambda s: (s[0] @ s[0].T + 1, s[1] * 2), (jnp.eye(2), x)
    ),
    "too many trips": until(lambda t: t < 4.5e4, lambda t: t + 0.5),
    "a large state": lambda x: lax.while_loop(
        lambda s: s[0][0] < 40, lambda s: (s[0] * 2 + 1, s[1] + s[0][0]), (jnp.arange(17.0), x)
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    program = equal(NEAR_MISSES[name], X)
    assert not program.report.rules[NAME] and conditions(program)


Step = Callable[..., tuple[Sequence[Value], Sequence[Value]]]


def graph(
    step: Callable[[GraphBuilder, Value, Value, Value], list[Value]],
    limit: int | None,
    going: bool | None = None,
    rows: bool = False,
) -> Callable[[GraphBuilder, Value], list[Value]]:
    """A loop of a float from 0 and of x; `step` gives the condition and both after a trip."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        first = b.scalar(0.0, T.FLOAT)
        inputs = [b.value("trip", T.INT64, ()), b.value("on", T.BOOL, ())]
        states = [b.value("t", T.FLOAT, ()), b.value("y", T.FLOAT, shape_of(x))]
        with b.subgraph([*inputs, *states], "body") as body:
            body.outputs.extend(step(b, inputs[0], *states))
            if rows:
                body.outputs.extend([b.Identity(states[0]), b.Identity(states[1])])
        types = [(T.FLOAT, ()), (T.FLOAT, shape_of(x))]
        if rows:
            types += [(T.FLOAT, (oir.SymbolicDim(None),))]
            types += [(T.FLOAT, (oir.SymbolicDim(None), *shape_of(x)))]
        given = [
            None if limit is None else b.i64(limit),
            None if going is None else b.const(np.array(going)),
        ]
        made = b.node("Loop", [*given, first, x], {"body": body}, types)
        return [b.Neg(value) for value in made]

    return build


def timed(b: GraphBuilder, trip: Value, t: Value, y: Value) -> list[Value]:
    """t is 0, 0.25, 0.5, ... up to 2."""
    after = b.Add(t, b.scalar(0.25, T.FLOAT))
    return [b.Less(after, b.scalar(2.0, T.FLOAT)), after, b.Add(y, t)]


def numbered(b: GraphBuilder, trip: Value, t: Value, y: Value) -> list[Value]:
    """The condition reads the number of the trip."""
    return [b.Less(trip, b.i64(5)), b.Neg(t), b.Add(y, t)]


def ending(b: GraphBuilder, trip: Value, t: Value, y: Value) -> list[Value]:
    """It makes one trip, whatever happens."""
    return [b.Identity(b.const(np.array(False))), b.Exp(t), b.Add(y, t)]


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("going", [None, True])
@pytest.mark.parametrize(
    ("step", "limit", "count"),
    [
        (timed, None, 8),
        (timed, 8, 8),
        (timed, 9, 8),
        (timed, 3, 3),
        (numbered, None, 6),
        (ending, None, 1),
        (ending, 4, 1),
    ],
)
def test_limits(step: Any, limit: int | None, count: int, going: bool | None, rows: bool) -> None:
    """The loop ends by its condition or its limit, whichever is first."""
    made = LoopRewrite(graph(step, limit, going, rows), {"x": X}, CONSTANT)
    assert made.fired
    (node,) = (node for node in made.model.graph if node.op_type == "Loop")
    assert const_ints(node.inputs[0]) == (count,)


@pytest.mark.parametrize(
    ("limit", "going"), [(0, None), (0, True), (-1, None), (-1, True), (None, False), (3, False)]
)
def test_loops_without_trips(limit: int | None, going: bool | None) -> None:
    assert not LoopRewrite(graph(timed, limit, going), {"x": X}, CONSTANT).fired


@pytest.mark.parametrize("step", [timed, numbered])
def test_a_limit_that_is_computed(step: Any) -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def inner(trip: Value, t: Value, y: Value) -> Any:
            return step(b, trip, t, y)[1:], []

        count = b.Size(x)
        return [b.Neg(each) for each in loop(b, count, [b.scalar(0.0, T.FLOAT), x], inner)]

    assert not LoopRewrite(build, {"x": X}, CONSTANT).fired


def test_a_sum_that_depends_on_the_runtime_is_left() -> None:
    """Casts of floats out of range to integers differ."""

    def step(b: GraphBuilder, trip: Value, t: Value, y: Value) -> list[Value]:
        large = b.Mul(b.Add(t, b.scalar(2.0, T.FLOAT)), b.scalar(2e9, T.FLOAT))
        after = b.Cast(b.Cast(large, to=T.INT32), to=T.FLOAT)
        return [b.Less(after, b.scalar(0.5, T.FLOAT)), after, b.Add(y, b.Abs(t))]

    assert not LoopRewrite(graph(step, 1), {"x": X}, CONSTANT).fired


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8, np.bool_])
def test_types_of_states(dtype: Any) -> None:
    """Every type has a table, and its final value is an output."""

    def function(x: Array) -> Any:
        def body(_: Any, s: Any) -> Any:
            state, y = s
            after = ~state if dtype == np.bool_ else state * 3 + 7
            return after, y * 2 + state.astype(y.dtype)

        return lax.fori_loop(0, 40, body, (jnp.zeros((), dtype), x))

    with jax.enable_x64(True):
        program = equal(function, X)
    assert program.report.rules[NAME]
    assert dtype_of(program.model.graph.outputs[0]).numpy() == dtype


def test_large_values() -> None:
    """What a trip computes on the way to a small state counts too."""

    def function(x: Array) -> Any:
        large = jnp.arange(1 << 17, dtype=jnp.int32) & 7

        def body(s: Any) -> Any:
            k, y = s
            return (large * k).max() // 7 + 1, y + k

        return lax.while_loop(lambda s: s[0] < 100, body, (jnp.int32(0), x))

    program = equal(function, X)
    assert not program.report.rules[NAME] and conditions(program)


@pytest.mark.parametrize("direct", [False, True])
def test_swapped_states(direct: bool) -> None:
    """A body may have no node."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        def swap(i: Value, s: Value, t: Value, y: Value) -> tuple[list[Value], list[Value]]:
            return [t, s, y], []

        states = [b.scalar(1.0, T.FLOAT), b.scalar(2.0, T.FLOAT), x]
        return [b.Identity(item) for item in loop(b, 5, states, swap, direct=direct)]

    assert LoopRewrite(build, {"x": X}, CONSTANT).fired

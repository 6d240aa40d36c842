"""Loops whose condition counts their trips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from rewriting import Rewrite
from verified import verified

import hlo2onnx
from hlo2onnx.ir.values import const_ints
from hlo2onnx.raising.rules.loops.trip_limit import TripLimit

X = np.array([0.5, 2.0, 3.0], np.float32)
NAME = "trip-limit"


def bounded(
    test: Callable[[Any], Any], first: float = 0, step: int = 1, dtype: Any = jnp.int32
) -> Callable[[Array], Any]:
    """Halves x while it is large and `test` of the counter holds."""

    def function(x: Array) -> Any:
        start = (x, jnp.asarray(first, dtype))
        return lax.while_loop(
            lambda s: (s[0].sum() > 0.5) & test(s[1]), lambda s: (s[0] / 2, s[1] + step), start
        )

    return function


def limit_of(function: Callable[..., Any], *args: Any) -> int | None:
    program = verified(function, *args)
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    assert bool(program.report.rules[NAME]) == (loop.inputs[0] is not None)
    trips = const_ints(loop.inputs[0])
    return trips[0] if trips else None


LIMITS: dict[str, tuple[Callable[..., Any], int]] = {
    "less": (bounded(lambda k: k < 7), 7),
    "greater": (bounded(lambda k: jnp.greater(7, k)), 7),
    "less or equal": (bounded(lambda k: k <= 7), 8),
    "greater or equal": (bounded(lambda k: jnp.greater_equal(7, k)), 8),
    "from another number": (bounded(lambda k: k < 7, first=-2), 9),
    "unsigned": (bounded(lambda k: k < 7, dtype=jnp.uint32), 7),
    "at least one trip": (bounded(lambda k: k < 2, first=1), 1),
    "of one element": (
        lambda x: lax.while_loop(
            lambda s: ((s[0][:1] > 0.5) & (s[1] < 7))[0], lambda s: (s[0] / 2, s[1] + 1), (x, 0)
        ),
        7,
    ),
    "a float": (bounded(lambda k: k < 7, dtype=jnp.float32), 7),
    "a float up to a fraction": (bounded(lambda k: k < 6.5, dtype=jnp.float32), 7),
    "a float up to a fraction or equal": (bounded(lambda k: k <= 6.5, dtype=jnp.float32), 7),
    "a float from a negative number": (bounded(lambda k: k <= 6, -2, dtype=jnp.float32), 9),
    "two limits": (bounded(lambda k: (k < 9) & (k < 7)), 7),
}


@pytest.mark.parametrize("name", LIMITS)
def test_the_number_of_trips_is_bounded(name: str) -> None:
    """It ends by the limit, by the other condition, or before the first trip."""
    function, limit = LIMITS[name]
    compiled = jax.jit(function)
    program = hlo2onnx.translate(compiled.lower(X))
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    assert const_ints(loop.inputs[0]) == (limit,)
    for scale in (1, 1e9, 0, np.nan):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), compiled(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


NEAR_MISSES: dict[str, Callable[..., Any]] = {
    "steps of two": bounded(lambda k: k < 7, step=2),
    "backwards": bounded(lambda k: k > -7, step=-1),
    "either": lambda x: lax.while_loop(
        lambda s: (s[0].sum() > 0.5) | (s[1] < 3), lambda s: (s[0] / 2, s[1] + 1), (x, 0)
    ),
    "never ends": bounded(lambda k: k <= 2**31 - 1),
    "not equal": bounded(lambda k: k != 7),
    "a float from a fraction": bounded(lambda k: k < 7, 0.5, dtype=jnp.float32),
    "a float that may round": bounded(lambda k: k < 2**24, dtype=jnp.float32),
    "a float up to NaN": bounded(lambda k: k < jnp.float32(jnp.nan), dtype=jnp.float32),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    assert limit_of(NEAR_MISSES[name], X * 9) is None


def test_more_trips_than_an_int64_counts() -> None:
    with jax.enable_x64(True):
        assert limit_of(bounded(lambda k: k < 2**63 - 1, first=-5, dtype=jnp.int64), X) is None


def test_the_other_condition_is_invariant() -> None:
    """It is computed before the loop, and an output of the body must be computed in it."""

    def function(x: Array) -> Any:
        start = (x, jnp.zeros((), jnp.int32))
        test = x[0] > 0
        return lax.while_loop(lambda s: test & (s[1] < 5), lambda s: (s[0] / 2, s[1] + 1), start)

    assert limit_of(function, X) == 5
    assert limit_of(function, -X) == 5


def test_a_loop_without_trips() -> None:
    def build(b: Any, x: oir.Value) -> oir.Value:
        int32, boolean = oir.DataType.INT32, oir.DataType.BOOL
        trip, going = b.value("trip", oir.DataType.INT64, ()), b.value("going", boolean, ())
        count, state = b.value("count", int32, ()), b.value("state", oir.DataType.FLOAT, (3,))
        with b.subgraph([trip, going, count, state], "body") as body:
            after = b.Add(count, b.scalar(1, int32))
            body.outputs.extend([b.Less(after, b.scalar(5, int32)), after, b.Sin(state)])
        types = [(int32, ()), (oir.DataType.FLOAT, (3,))]
        start = [b.scalar(0, int32), x]
        return b.outputs("Loop", b.i64(0), None, *start, body=body, n_outputs=2, types=types)[1]

    made = Rewrite(build, {"x": X}, TripLimit())
    assert made.fired


def test_a_limit_that_is_computed() -> None:
    def function(x: Array, n: Array) -> Any:
        return bounded(lambda k: k < n)(x)

    assert limit_of(function, X * 9, np.int32(3)) is None


def test_a_condition_that_is_a_state_keeps_its_value() -> None:
    """The state ends as false when the counter ends the loop."""

    def function(x: Array) -> Any:
        def step(s: Any) -> Any:
            x, k, _ = s
            return x / 2, k + 1, (x.sum() > 0.5) & (k + 1 < 3)

        return lax.while_loop(lambda s: s[2], step, (x, 0, x.sum() > 0))

    for scale in (1e9, 1.0, -1.0):
        verified(function, X * np.float32(scale))


def test_the_counter_is_dropped() -> None:
    program = verified(lambda x: bounded(lambda k: k < 7)(x)[0], X * 9)
    (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
    assert len(loop.inputs) == 3 and isinstance(loop, oir.Node)
    assert "Less" not in program.report.nodes


def test_in_batches() -> None:
    verified(jax.vmap(bounded(lambda k: k < 7)), np.stack([X, X * 1e9, -X]))

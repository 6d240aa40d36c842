"""States that are the condition of their loop."""

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

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.rules.loops.known_conditions import KnownStates

NAME = "known-state"
X = np.array([0.5, 2.0, 3.0], np.float32)


def fired(function: Callable[..., Any], *args: Any) -> int:
    return int(verified(function, *args).report.rules[NAME])


def halved(x: Array) -> Any:
    """A while loop with a condition that is false at once for small numbers."""

    def goes_on(s: Any) -> Any:
        return (s[0].sum() > 1) & (s[1] < 50)

    return lax.while_loop(goes_on, lambda s: (s[0] / 2, s[1] + 1), (x, 0))


@pytest.mark.parametrize("scale", [1, 1e3, 0, -1, np.nan, np.inf])
def test_one_lane_needs_no_mask(scale: float) -> None:
    """A `vmap` over one lane keeps the states that are masked with the condition."""
    x = X[None] * np.float32(scale)
    program = verified(jax.vmap(halved), np.minimum(x, np.float32(1e30)))
    assert program.report.rules[NAME]
    operators = {node.op_type for node in all_nodes(program.model.graph)}
    assert not operators & {"Where", "If"}


def test_two_lanes_need_masks() -> None:
    assert not fired(jax.vmap(halved), np.stack([X, X * 1e3]))


def carried(x: Array) -> Any:
    """Both operands of the condition are states."""

    def trip(s: Any) -> Any:
        x, above, few, count = s
        x = jnp.where(above, x / 2, x * 3) + jnp.where(few, 1, 2)
        return x, x.sum() > 4, count < 5, count + 1

    return lax.while_loop(lambda s: s[1] & s[2], trip, (x, x.sum() > 4, True, 0))


@pytest.mark.parametrize("scale", [1, 1e3, 0])
def test_parts_of_a_condition(scale: float) -> None:
    assert fired(carried, X * np.float32(scale))


def stopped(x: Array) -> Any:
    """The state says that the loop has ended."""

    def trip(s: Any) -> Any:
        x, done = s
        x = jnp.where(done, x * 3, x / 2)
        return x, x.sum() < 1

    return lax.while_loop(lambda s: ~s[1], trip, (x, False))


@pytest.mark.parametrize("scale", [1, 1e3, 0])
def test_a_condition_that_is_false(scale: float) -> None:
    assert fired(stopped, X * np.float32(scale))


def either(x: Array) -> Any:
    """One of two states is true in each trip, not both."""

    def trip(s: Any) -> Any:
        x, above, few, count = s
        x = jnp.where(above, x / 2, x / 3) + jnp.where(few, 0.1, 0.2)
        return x, x.sum() > 4, count < 5, count + 1

    return lax.while_loop(lambda s: s[1] | s[2], trip, (x, x.sum() > 4, True, 0))


def test_an_alternative_is_not_known() -> None:
    assert not fired(either, X)


def doubled(b: GraphBuilder, x: oir.Value, start: oir.Value, going: oir.Value) -> oir.Value:
    """Loop(while p: x = Where(p, x + x, -x), p = sum(x) < 40), with any p in the first trip."""
    number, again, p = (
        b.value("trip", oir.DataType.INT64, []),
        b.value("again", oir.DataType.BOOL, []),
        b.value("p", oir.DataType.BOOL, [1]),
    )
    state = b.value("state", oir.DataType.FLOAT, [3])
    with b.subgraph([number, again, state, p], "body") as body:
        after = b.Where(p, b.Add(state, state), b.Neg(state))
        less = b.Less(b.ReduceSum(after, b.i64([0]), keepdims=1), b.const(np.float32([40])))
        body.outputs.extend([b.Squeeze(less, b.i64([0])), after, less])
    types = [(oir.DataType.FLOAT, (3,)), (oir.DataType.BOOL, (1,))]
    made: oir.Value = b.node("Loop", [b.i64(9), going, x, start], {"body": body}, types)[0]
    return made


def rewritten(start: Callable[[GraphBuilder, oir.Value], oir.Value], going: bool) -> Rewrite:
    """The loop whose first trip is certain, or depends on the start."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        p = start(b, x)
        return doubled(b, x, p, b.const(np.array(True)) if going else b.Squeeze(p, b.i64([0])))

    return Rewrite(build, {"x": X}, KnownStates())


def computed(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.Less(b.ReduceSum(x, b.i64([0]), keepdims=1), b.const(np.float32([0])))


@pytest.mark.parametrize(
    "start, going, known",
    [
        (lambda b, x: b.const(np.array([True])), True, True),
        (lambda b, x: b.const(np.array([False])), True, False),
        (computed, True, False),
        (computed, False, True),
    ],
)
def test_the_first_trip(
    start: Callable[[GraphBuilder, oir.Value], oir.Value], going: bool, known: bool
) -> None:
    assert bool(rewritten(start, going).fired) == known

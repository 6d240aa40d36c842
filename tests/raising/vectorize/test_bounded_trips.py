"""Values that depend on the number of a trip, computed before loops with a condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from target_costs import use_costs

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.rules.loops.partition import Partition

TABLE = Partition.name
KEY = np.array([3, 1234], np.uint32)


def fired(function: Callable[..., Any], *args: Any) -> int:
    """Compares ONNX with XLA; returns how often the rule fired."""
    return rules_of(function, [args])


def rules_of(function: Callable[..., Any], calls: Any) -> int:
    program = hlo2onnx.translate(function, *calls[0], without={"loop-unroll"})
    compiled = jax.jit(function)
    for args in calls:
        got, want = jax.tree.leaves(program(*args)), jax.tree.leaves(compiled(*args))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)
    return program.report.rules[TABLE]


def loop(
    draw: Callable[..., Any], limit: Any, start: Any = 0, shape: tuple[int, ...] = (), step: int = 1
) -> Any:
    """Adds up what is drawn for each number, until the sum has a rare value."""

    def body(state: Any) -> Any:
        count, total = state
        return count + step, total * 3 + draw(count)

    def goes_on(state: Any) -> Any:
        return (state[0] < limit) & jnp.all(state[1] != 7)

    start = jnp.asarray(start)
    return lax.while_loop(goes_on, body, (start, jnp.zeros(shape, jnp.uint32)))


def folded(key: Any, count: Any, shape: tuple[int, ...] = ()) -> Any:
    return random.bits(random.fold_in(key, count), shape)


def mixed(count: Any) -> Any:
    """Twelve operations on a number."""
    x = jnp.asarray(count).astype(jnp.uint32)
    for shift in (3, 5, 7):
        x = (x ^ (x << shift)) * jnp.uint32(2654435761) + (x >> 2)
    return x


# -- all trips -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 3, 100])
def test_folded_keys_are_drawn_for_before_the_loop(limit: int) -> None:
    assert fired(lambda key: loop(lambda i: folded(key, i), limit), KEY) == 1


def test_the_body_draws_nothing() -> None:
    function = lambda key: loop(lambda i: folded(key, i), 3)  # noqa: E731
    program = hlo2onnx.translate(function, KEY)
    (body,) = [
        node.attributes["body"].as_graph() for node in program.model.graph if node.op_type == "Loop"
    ]
    assert "MatMul" not in {node.op_type for node in body}
    assert len(list(body)) <= 8


@pytest.mark.wide
def test_shapes_of_rows_are_kept() -> None:
    draw = lambda key, i: folded(key, i, (2, 3))  # noqa: E731
    assert fired(lambda key: loop(lambda i: draw(key, i), 5, shape=(2, 3)), KEY) == 1


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.uint32])
def test_counters_start_anywhere(dtype: type) -> None:
    calls = [(KEY, dtype(start)) for start in (0, 100, np.iinfo(dtype).min, np.iinfo(dtype).max)]

    def function(key: Any, start: Any) -> Any:
        """The limit is on another counter."""

        def body(state: Any) -> Any:
            count, other, total = state
            return count + 1, other + 1, total * 3 + folded(key, other)

        goes_on = lambda s: (s[0] < 5) & (s[2] != 7)  # noqa: E731
        return lax.while_loop(goes_on, body, (0, start, jnp.uint32(0)))

    assert rules_of(function, calls) == 1


def test_the_range_of_the_limit_bounds_the_trips() -> None:
    calls = [(KEY, np.int32(limit)) for limit in (-5, 0, 1, 20, 100)]

    def function(key: Any, limit: Any) -> Any:
        return loop(lambda i: folded(key, i), jnp.clip(limit, 0, 20))

    assert rules_of(function, calls) == 1


@pytest.mark.wide
def test_tables_of_inner_loops_leave_the_outer_one() -> None:
    def function(key: Any) -> Any:
        def draw(count: Any) -> Any:
            part = random.fold_in(key, count)
            return loop(lambda i: folded(part, i), count + 2)[1]

        return loop(draw, 3)

    program = hlo2onnx.translate(function, KEY)
    (outer,) = [node for node in program.model.graph if node.op_type == "Loop"]
    assert "MatMul" not in {node.op_type for node in all_nodes(outer.attributes["body"].as_graph())}
    fired(function, KEY)


def test_tables_of_constants_are_constants() -> None:
    function = lambda x: loop(lambda i: mixed(i) ^ x, 40)  # noqa: E731
    program = hlo2onnx.translate(function, np.uint32(5))
    assert program.report.rules[TABLE] == 1
    assert {"Mul", "BitShift"}.isdisjoint(
        node.op_type for node in program.model.graph if node.op_type != "Loop"
    )
    assert fired(function, np.uint32(5)) == 1


# -- near misses -----------------------------------------------------------------------------------


def test_keys_that_are_states() -> None:
    def function(key: Any) -> Any:
        body = lambda s: (s[0] + 1, random.bits(s[1], (2,)))  # noqa: E731
        return lax.while_loop(lambda s: (s[0] < 3) & (s[1][0] != 7), body, (0, key))

    assert fired(function, KEY) == 0


def test_counters_in_other_steps() -> None:
    assert fired(lambda key: loop(lambda i: folded(key, i), 9, step=2), KEY) == 0


def test_floats_that_count_round_in_each_trip() -> None:
    def function(x: Any, start: Any) -> Any:
        def body(state: Any) -> Any:
            count, other, total = state
            total = total * 3 + mixed(lax.bitcast_convert_type(other, jnp.uint32) ^ x)
            return count + 1, other + 1, total

        goes_on = lambda s: (s[0] < 5) & (s[2] != 7)  # noqa: E731
        return lax.while_loop(goes_on, body, (0, start, jnp.uint32(0)))

    assert rules_of(function, [(np.uint32(5), np.float32(-1.1))]) == 0


def test_counters_that_may_stand_still() -> None:
    def function(key: Any) -> Any:
        def body(state: Any) -> Any:
            count, other, total = state
            total = total * 3 + folded(key, other)
            return count + 1, jnp.where(total % 2 == 0, other, other + 1), total

        goes_on = lambda s: (s[0] < 5) & (s[2] != 7)  # noqa: E731
        return lax.while_loop(goes_on, body, (0, 0, jnp.uint32(0)))

    assert fired(function, KEY) == 0


@pytest.mark.wide
def test_many_numbers_stay() -> None:
    draw = lambda key, i: folded(key, i, (50,))  # noqa: E731
    run = lambda key: loop(lambda i: draw(key, i), 20, shape=(50,))  # noqa: E731
    assert fired(run, KEY) == 1  # the folded keys, but not the draws
    assert fired(lambda key: loop(lambda i: random.bits(key, (50,)) + i, 5, shape=(50,)), KEY) == 0


def test_few_nodes_stay() -> None:
    few = lambda i: jnp.uint32(i) * 3 + 1  # noqa: E731
    assert fired(lambda x: loop(lambda i: few(i) ^ x, 40), np.uint32(5)) == 0


def test_rows_after_the_last_one_are_not_read() -> None:
    """A row of a table of three, with an index that is in range within a trip only."""

    def function(key: Any, limit: Any) -> Any:
        table = random.split(key, 3)
        draw = lambda i: folded(table.at[i].get(mode="promise_in_bounds"), i)  # noqa: E731
        return loop(draw, jnp.minimum(limit, 3))

    calls = [(KEY, np.int32(limit)) for limit in (0, 1, 3)]
    rules_of(function, calls)  # compares the results


def test_divisors_that_the_condition_keeps_from_zero() -> None:
    """x[3 - i] is not 0 in a trip that the loop makes."""

    def function(x: Any, limit: Any) -> Any:
        draw = lambda i: mixed(jnp.uint32(100) // (limit - i).astype(jnp.uint32))  # noqa: E731
        return loop(draw, limit)

    calls = [(np.int32(5), np.int32(limit)) for limit in (0, 1, 5)]
    assert rules_of(function, calls) == 0


def test_targets_that_take_as_long_for_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, small_elements=0)
    assert fired(lambda key: loop(lambda i: folded(key, i), 3), KEY) == 0

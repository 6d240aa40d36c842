"""Inner loops whose decisions say what their states are, looked up in tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax, random
from target_costs import use_costs

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.rules.loops import decision_tree
from hlo2onnx.raising.rules.loops.decision_tree import DecisionTree

NAME = DecisionTree.name
STEPS = (0.3, 0.07, 0.011)
COUNT = 5
State = tuple[Array, Array]
Trip = Callable[[Array, Array, State], State]


def fired(function: Callable[..., Any], *calls: Any, without: tuple[str, ...] = ()) -> int:
    """Compares ONNX with XLA, bit by bit; returns how often the rule fired."""
    program = hlo2onnx.translate(function, *calls[0], without=without)
    compiled = jax.jit(function)
    for args in calls:
        got, want = jax.tree.leaves(program(*args)), jax.tree.leaves(compiled(*args))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)
    return program.report.rules[NAME]


def explained(function: Callable[..., Any]) -> str:
    """Why the rule did not fire."""
    return str(hlo2onnx.translate(function, *CALLS[0]).explain(NAME))


def mixed(x: Array) -> Array:
    """Some operations on integers, which lose no bit."""
    return (x * 40503 ^ x >> 7) * 9 + (x ^ 12345) * 3


def halved(x: Array, i: Array, state: State) -> State:
    """A trip: whether x is above the middle says how a number goes on."""
    low, total = state
    middle = low + jnp.asarray(0.5 ** np.arange(1, 12), jnp.float32)[i]
    above = x > middle
    return jnp.where(above, middle, low), jnp.where(above, mixed(total), total + 77)


def solver(
    trip: Trip = halved,
    count: int = COUNT,
    start: Callable[[Array, Array, Array], Any] = lambda seed, x, total: seed,
    most: int | None = None,
) -> Callable[..., Any]:
    """Steps of a size that is an argument; in each one an inner loop of few trips.

    Args:
        start: What the number of the inner loop starts from.
        most: Steps, if their number is known.
    """

    def function(step: Any, seed: Any) -> Any:
        def body(state: tuple[Array, Array, Array]) -> Any:
            x, total, steps = state
            first = (jnp.float32(0), start(seed, x, total))
            low, found = lax.fori_loop(0, count, lambda i, s: trip(x, i, s), first)
            return x + step, total * 3 + found + (low * 1024).astype(jnp.uint32), steps + 1

        def goes_on(state: tuple[Array, Array, Array]) -> Any:
            return state[0] < 1 if most is None else state[2] < most

        return lax.while_loop(goes_on, body, (jnp.float32(0), jnp.uint32(1), jnp.int32(0)))

    return function


CALLS = [(np.float32(step), np.uint32(seed)) for seed, step in enumerate((*STEPS, 2.0), 3)]


@pytest.mark.parametrize("count", [2, 7, 8, 9, 11, 20])
def test_trips(count: int) -> None:
    """The halves of more than 7 trips follow each other. Of more than 10, 10 are looked up."""
    assert fired(solver(count=count), *CALLS) == 1


def test_no_trip_of_the_outer_loop() -> None:
    def function(x: Any, seed: Any) -> Any:
        def body(state: State) -> State:
            x, total = state
            first = (jnp.float32(0), seed)
            found = lax.fori_loop(0, COUNT, lambda i, s: halved(x, i, s), first)[1]
            return x + 0.1, total + found

        return lax.while_loop(lambda s: s[0] < 1, body, (x, seed))

    calls = [(np.float32(x), np.uint32(5)) for x in (0.2, 1.5, np.nan, -0.3)]
    assert fired(function, *calls) == 1


def test_it_saves_nodes() -> None:
    """No loop and no choice is left in the body: the cast of a state is in its table. One Cast
    counts the limits below x."""
    program = hlo2onnx.translate(solver(), *CALLS[0])
    (body,) = [
        graph
        for graph in program.model.graph.subgraphs()
        if any(node.op_type == "ReduceSum" for node in graph)
    ]
    operators = [node.op_type for node in all_nodes(body)]
    assert {"Loop", "Scan", "BitwiseXor"}.isdisjoint(operators)
    assert operators.count("Gather") == 2 and operators.count("Cast") == 1


def test_where_it_stands_in_the_condition() -> None:
    """NaN is not above, and a condition may hold to the left."""

    def trip(x: Array, i: Array, state: State) -> State:
        low, total = state
        middle = low + 0.5 / (1 + i).astype(jnp.float32)
        below = ~(x * x >= middle) | jnp.isnan(x)
        return jnp.where(below, low, middle), jnp.where(below, mixed(total), total ^ 5)

    assert fired(solver(trip), *CALLS) == 1


def test_condition_on_the_number_of_the_trip() -> None:
    def trip(x: Array, i: Array, state: State) -> State:
        low, total = state
        odd = ((x * 64).astype(jnp.int32) >> i) % 2 == 1
        return low + 1, jnp.where(odd, mixed(total), mixed(total) ^ 9)

    assert fired(solver(trip), *CALLS) == 1


def test_tensors() -> None:
    """Rows of states with axes, a condition of one element, and a vector from outside."""

    def function(step: Any, seed: Any, by: Any) -> Any:
        def trip(x: Array, i: Array, state: State) -> State:
            low, total = state
            above = x > low[:1] + 1 / (i + 2).astype(jnp.float32)
            low = jnp.where(above, low + by, low[::-1])
            total = jnp.where(above[:, None], mixed(total.T).T, total[:, ::-1] + seed)
            return low, total

        def body(state: State) -> State:
            x, total = state
            first = (by * 0.5, jnp.full((2, 3), seed))
            low, found = lax.fori_loop(0, COUNT, lambda i, s: trip(x, i, s), first)
            return x + step, total + found.sum(0) + low[1].astype(jnp.uint32)

        return lax.while_loop(lambda s: s[0] < 1, body, (jnp.float32(0), jnp.zeros(3, jnp.uint32)))

    by = np.array([0.25, 0.75], np.float32)
    assert fired(function, *((step, seed, by) for step, seed in CALLS)) == 1


def test_keys() -> None:
    """A tree of keys, and random bits of the last one."""

    def function(step: Any, key: Any) -> Any:
        def trip(x: Array, i: Array, state: State) -> State:
            low, key = state
            middle = low + jnp.asarray(0.5 ** np.arange(1, 9), jnp.float32)[i]
            left, right = random.split(key)
            return jnp.where(x > middle, middle, low), jnp.where(x > middle, right, left)

        def body(state: State) -> State:
            x, total = state
            first = (jnp.float32(0), random.fold_in(key, 7))
            _, last = lax.fori_loop(0, COUNT, lambda i, s: trip(x, i, s), first)
            return x + step, total * 3 + random.bits(last, (2,))

        return lax.while_loop(lambda s: s[0] < 1, body, (jnp.float32(0), jnp.zeros(2, jnp.uint32)))

    key = np.array([3, 1234], np.uint32)
    calls = [(np.float32(step), key) for step in STEPS]
    assert fired(function, *calls) == 1
    inside = [
        {node.op_type for node in all_nodes(graph)}
        for graph in hlo2onnx.translate(function, *calls[0]).model.graph.subgraphs()
        if any(node.op_type == "ReduceSum" for node in graph)
    ]
    assert len(inside) == 1 and "BitwiseXor" not in inside[0]


def odd(x: Array, i: Array, state: State) -> State:
    """A trip that decides by a bit of x. The limits are in no order."""
    low, total = state
    holds = ((x * 4096).astype(jnp.int32) >> i) % 2 == (total >> 3) % 2
    return jnp.where(holds, low + 0.125, low), jnp.where(holds, mixed(total), total + 77)


@pytest.mark.parametrize("count", [7, 8, 9, 10])
def test_halves(count: int) -> None:
    """More than 7 trips are decided in two parts."""
    step = solver(odd, count=count)
    assert fired(step, *CALLS) == 1
    assert len(leaf_searches(step)) == (1 if count < 8 else 2)


def leaf_searches(function: Callable[..., Any]) -> list[str]:
    """The nodes that find a leaf by the sides of all conditions."""
    nodes = all_nodes(hlo2onnx.translate(function, *CALLS[0]).model.graph)
    return [node.op_type for node in nodes if node.op_type == "ArgMax"]


def compared(name: str, flipped: bool, falls: bool) -> Callable[..., Any]:
    """A solver that compares x with a limit, which is larger or smaller on the side where the
    comparison holds."""
    compare = getattr(jnp, name)

    def trip(x: Array, i: Array, state: State) -> State:
        limit, total = state
        by = jnp.asarray(0.5 ** np.arange(2, 13), jnp.float32)[i] * (-1 if falls else 1)
        holds = compare(limit, x) if flipped else compare(x, limit)
        return jnp.where(holds, limit + by, limit - by), jnp.where(holds, mixed(total), total + 77)

    def function(x: Any, seed: Any) -> Any:
        def body(state: State) -> State:
            x, total = state
            first = (jnp.float32(0.5), seed)
            limit, found = lax.fori_loop(0, 4, lambda i, s: trip(x, i, s), first)
            return x + 1 / 32, total * 3 + found + (limit * 1024).astype(jnp.uint32)

        return lax.while_loop(lambda s: s[0] < 1, body, (x, seed))

    return function


@pytest.mark.parametrize(
    ("name", "flipped", "falls", "is_counted"),
    [
        ("greater", False, False, True),
        ("greater_equal", False, False, True),
        ("less", True, False, True),
        ("less_equal", True, False, True),
        ("less", False, True, True),
        ("greater_equal", True, True, True),
        ("greater", False, True, False),
        ("less", False, False, False),
        ("greater", True, False, False),
        ("less_equal", True, True, False),
    ],
)
def test_limits_in_order(name: str, flipped: bool, falls: bool, is_counted: bool) -> None:
    """They are counted if those that hold come first."""
    function = compared(name, flipped, falls)
    calls = [(np.float32(x), np.uint32(9)) for x in (0, 0.017, -0.5, np.nan)]
    assert fired(function, *calls) == 1
    assert (not leaf_searches(function)) == is_counted


def test_states_that_read_one_another() -> None:
    """Two states in a circle, one that follows them, one that is the same in all trips, one that
    is a state before, and a row of an argument for each trip."""

    def function(step: Any, seed: Any, rows: Any) -> Any:
        def trip(x: Array, i: Array, state: Any) -> Any:
            low, one, two, three, _, same = state
            holds = ((x * 64).astype(jnp.int32) >> i) % 2 == 1
            first = jnp.where(holds, mixed(two), one ^ same) + rows[i]
            second = one * 3 + jnp.where(holds, jnp.uint32(4), jnp.uint32(9))
            return low + rows[i], first, second, three + first * 7, one, same

        def body(state: State) -> State:
            x, total = state
            start = (jnp.uint32(1), seed, seed + 1, jnp.uint32(3), jnp.uint32(5), seed * 2)
            found = lax.fori_loop(0, COUNT, lambda i, s: trip(x, i, s), start)
            return x + step, sum(found, total * 3)

        return lax.while_loop(lambda s: s[0] < 1, body, (jnp.float32(0), jnp.uint32(1)))

    rows = np.array([7, 1, 12, 900, 41], np.uint32)
    assert fired(function, *((step, seed, rows) for step, seed in CALLS)) == 1


# -- near misses ----------------------------------------------------------------------------------


def two_conditions(x: Array, i: Array, state: State) -> State:
    low, total = halved(x, i, state)
    return low, jnp.where(x * 5 % 1 > state[0], total, mixed(total))


def takes_x(x: Array, i: Array, state: State) -> State:
    low, total = halved(x, i, state)
    return low, total + (x * 8).astype(jnp.uint32)


def takes_a_place(x: Array, i: Array, state: State) -> State:
    """The place may lie outside where no trip goes."""
    low, total = halved(x, i, state)
    return low, total + jnp.arange(9, dtype=jnp.uint32)[(total % 9).astype(jnp.int32)]


def divides(x: Array, i: Array, state: State) -> State:
    low, total = halved(x, i, state)
    return low, mixed(total) // jnp.maximum(total % 7, 1)


def learns_a_number(x: Array, i: Array, state: State) -> State:
    low, total = halved(x, i, state)
    return low, total + (x > low).astype(jnp.uint32)


def few_nodes(x: Array, i: Array, state: State) -> State:
    low, total = state
    return jnp.where(x > low, low + 0.1, low), total


@pytest.mark.parametrize(
    ("trip", "reason"),
    [
        (two_conditions, "not one condition decides"),
        (takes_x, "a state takes a value of the outer loop"),
        (takes_a_place, "a node may fail"),
        (divides, "a node may fail"),
        (learns_a_number, "not one condition decides"),
        (few_nodes, "its trips have few nodes"),
    ],
)
def test_near_misses(trip: Trip, reason: str) -> None:
    assert fired(solver(trip), *CALLS) == 0
    assert reason in explained(solver(trip))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"count": 21}, "would have many leaves"),
        ({"start": lambda seed, x, total: total}, "a state starts from one of the outer loop"),
        (
            {"start": lambda seed, x, total: seed + (x * 9).astype(jnp.uint32)},
            "a state starts from one of the outer loop",
        ),
        ({"most": 6}, ""),
    ],
    ids=["many leaves", "a state", "a value of the body", "known steps"],
)
def test_other_loops(options: dict[str, Any], reason: str) -> None:
    assert fired(solver(**options), *CALLS) == 0
    assert reason in explained(solver(**options))


def test_no_outer_loop_and_stacks() -> None:
    def alone(x: Any, seed: Any) -> Any:
        return lax.fori_loop(0, COUNT, lambda i, s: halved(x, i, s), (jnp.float32(0), seed))

    def stacks(step: Any, seed: Any) -> Any:
        def body(state: Any) -> Any:
            x, total = state
            trip = lambda s, i: ((s := halved(x, i, s)), s[1])  # noqa: E731
            rows = lax.scan(trip, (jnp.float32(0), seed), jnp.arange(COUNT))[1]
            return x + step, total + rows

        start = (jnp.float32(0), jnp.zeros(COUNT, jnp.uint32))
        return lax.while_loop(lambda s: s[0] < 1, body, start)

    assert fired(alone, *CALLS) == 0
    assert fired(stacks, *CALLS) == 0


@pytest.mark.parametrize(("most", "count"), [(2000, 1), (8, 0)])
def test_many_nodes(monkeypatch: pytest.MonkeyPatch, most: int, count: int) -> None:
    """The nodes of all trips are written beside each other."""
    monkeypatch.setattr(decision_tree, "_MOST_NODES", most)
    assert fired(solver(), CALLS[0]) == count


@pytest.mark.parametrize(("size", "count"), [(20, 1), (21, 0)])
def test_costs(monkeypatch: pytest.MonkeyPatch, size: int, count: int) -> None:
    """The states for all leaves must be small."""

    def wide(step: Any, seed: Any) -> Any:
        def body(state: State) -> State:
            x, total = state
            first = (jnp.float32(0), jnp.full(size, seed))
            found = lax.fori_loop(0, COUNT, lambda i, s: halved(x, i, s), first)[1]
            return x + step, total + found

        start = (jnp.float32(0), jnp.zeros(size, jnp.uint32))
        return lax.while_loop(lambda s: s[0] < 1, body, start)

    use_costs(monkeypatch, hoisted_elements=32, hoisted_ratio=4)
    assert fired(wide, CALLS[0]) == count

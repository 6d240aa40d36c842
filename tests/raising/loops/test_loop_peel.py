"""The first trip of an inner loop runs in front of it where it takes a known branch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.verify.checks import numbers_of
from hlo2onnx.verify.model_graphs import Scope

X = np.array([0.5, 2.0, 3.0, 70.0], np.float32)
NAME = "loop-peel"


def grow(s: Any) -> Any:
    """Looks for the end of an interval."""
    found, low, high, x = s
    found = jnp.sum(high) > jnp.sum(x)
    return found, jnp.where(found, low, high), jnp.where(found, high, high * 2 + 1), x


def halve(s: Any) -> Any:
    """Makes the interval shorter."""
    found, low, high, x = s
    middle = ((low + high) / 2).astype(low.dtype)
    below = jnp.sum(middle) < jnp.sum(x)
    return found, jnp.where(below, middle, low), jnp.where(below, high, middle), x


def search(first: Callable[[Array], Any], dtype: Any = jnp.float32) -> Callable[[Array], Any]:
    """The root of a function of each row, which is looked for in an inner loop."""

    def one(carry: Array, row: Array) -> Any:
        x = row.astype(dtype) + carry
        low = jnp.minimum(row, 0).astype(dtype)
        start = (first(row), low, low + 2, x)
        step = lambda s: lax.cond(s[0], halve, grow, s)  # noqa: E731
        # NaN ends it, too.
        found = lax.while_loop(lambda s: ~(s[0] & ~(s[2] - s[1] > 1)) & (s[2] < 999), step, start)
        return found[2], found[1]

    return lambda x: lax.scan(one, jnp.zeros((), dtype), x)


def known(row: Array) -> Array:
    return jnp.array(False)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.int32])
def test_the_first_trip_takes_a_known_branch(dtype: Any) -> None:
    function = search(known, dtype)
    program = verified(function, X)
    assert program.report.rules[NAME] == 1
    (outer,) = (node for node in program.model.graph if node.op_type in ("Loop", "Scan"))
    nodes = list(outer.attributes["body"].as_graph())
    assert not any(node.op_type == "Loop" for node in nodes)
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={NAME})
    for scale in (1, 0, -1, 1e-9, 1e9, np.nan, np.inf):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), plain(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_limit_is_one_less() -> None:
    """The loop makes at most three trips: one before it and two in it."""

    def one(carry: Array, row: Array) -> Any:
        def step(s: Any) -> Any:
            k, grown, y, x = s
            return k + 1, True, lax.cond(grown, lambda y: y * 2, lambda y: jnp.sin(x) + y, y), x

        start = (0, False, jnp.float32(1), row + carry)
        last = lax.while_loop(lambda s: (s[0] < 3) & (s[2] < 1.8), step, start)[2]
        return last, last

    function = lambda x: lax.scan(one, jnp.float32(0), x)  # noqa: E731
    program = verified(function, X)
    assert program.report.rules["trip-limit"]
    assert program.report.rules[NAME]
    limits = [node.inputs[0] for node in all_nodes(program.model.graph) if node.op_type == "Loop"]
    assert [x.const_value.numpy().tolist() for x in limits if x is not None and x.const_value] == [
        2
    ]
    for scale in (1, 0, 25, np.nan):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), jax.jit(function)(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def marked(first: Any = True, after: Any = False) -> Callable[[Array], Any]:
    """A solver that marks its first step."""

    def step(s: Any) -> Any:
        is_first, size, x = s
        restarts = is_first | (jnp.sum(x) > 9)
        size = jnp.where(restarts, 1, size + 1)
        return after, size, jnp.tanh(x) / (1 + size)

    start = lambda x: (jnp.array(first), jnp.float32(3), x)  # noqa: E731
    return lambda x: lax.while_loop(lambda s: jnp.max(s[2]) > 0.1, step, start(x))


def trips_of(program: Any) -> list[oir.Node]:
    return [node for node in all_nodes(program.model.graph) if node.op_type == "Loop"]


def test_a_first_step_is_marked() -> None:
    """It may run no trip: then the states are the first ones."""
    function = marked()
    program = verified(function, X)
    assert program.report.rules[NAME] == 1
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={NAME})
    (loop,), (longer,) = trips_of(program), trips_of(plain)
    assert len(loop.inputs) == len(longer.inputs) - 1  # no mark
    nodes = [node for node in all_nodes(program.model.graph) if node.op_type == "Tanh"]
    assert len(nodes) == 2
    assert len({node.metadata_props["jax.source"] for node in nodes}) == 1
    assert len(loop.attributes["body"].as_graph()) < len(longer.attributes["body"].as_graph())
    for scale in (1, 1e-9, 0, -1, 1e9, np.nan, np.inf):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), plain(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def uncertain(carry: Array, row: Array) -> Any:
    """The first trip is not certain."""
    start = (jnp.array(False), jnp.float32(0), jnp.float32(2), row + carry)
    step = lambda s: lax.cond(s[0], halve, grow, s)  # noqa: E731
    last = lax.while_loop(lambda s: (s[2] < s[3]) & ~(s[2] - s[1] < 1), step, start)
    return last[1], last[2]


def test_no_trip() -> None:
    function = lambda x: lax.scan(uncertain, jnp.float32(0), x)  # noqa: E731
    program = verified(function, X)
    assert program.report.rules[NAME] == 1
    for scale in (1, 0, -1, 1e9, np.nan):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), jax.jit(function)(x), strict=True):
            np.testing.assert_array_equal(found, wanted)


def without_branch(carry: Array, row: Array) -> Any:
    start = (jnp.array(False), jnp.float32(0), jnp.float32(2), row + carry)
    last = lax.while_loop(lambda s: ~s[0] & (s[2] < 999), grow, start)
    return last[1], last[2]


def counted(carry: Array, row: Array) -> Any:
    start = (jnp.array(False), jnp.float32(0), jnp.float32(2), row + carry)
    last = lax.fori_loop(0, 5, lambda k, s: lax.cond(s[0], halve, grow, s), start)
    return last[1], last[2]


def draws(limit: int, x: Array) -> Array:
    """A trip draws a number by its own number."""
    key = jax.random.key(7)

    def step(s: Any) -> Any:
        k, is_first, total = s
        drawn = jax.random.uniform(jax.random.fold_in(key, k))
        return k + 1, False, total + jnp.where(is_first, 2, 1) * drawn * (k % 3)

    going = lambda s: (s[0] < limit) & (s[2] < 7)  # noqa: E731
    return lax.while_loop(going, step, (0, True, x[0]))[2]


@pytest.mark.wide
def test_a_trip_reads_its_number() -> None:
    function = lambda x: draws(12, x)  # noqa: E731
    program = verified(function, X)
    assert program.report.rules[NAME] == 1
    for scale in (1, -9, 20, np.nan):
        x = X * np.float32(scale)
        np.testing.assert_allclose(program(x), jax.jit(function)(x), rtol=1e-6)


@pytest.mark.wide
@pytest.mark.parametrize(("without", "number"), [((), 4), ((NAME,), 5)])
def test_the_bisection_counts_the_trips_of_the_program(without: Any, number: int) -> None:
    """Trip 5 of the program is trip 4 of the loop behind the first trip."""
    program = hlo2onnx.translate(jax.jit(lambda x: draws(12, x)).lower(X), without=without)
    (loop,) = (oir.to_proto(node) for node in trips_of(program))
    found = numbers_of(Scope(None, ["number", "going"], owner=loop), 5)
    np.testing.assert_equal(found, {"number": number, "going": True})
    assert not program.bisect(X)


STAYS: dict[str, Callable[[Array], Any]] = {
    "unknown branch": search(lambda row: row > 1),
    "branch in a loop that runs once": lambda x: search(known)(x[:1]),
    "no branch": lambda x: lax.scan(without_branch, jnp.float32(0), x),
    "counted": lambda x: lax.scan(counted, jnp.float32(0), x),
    "no mark": marked(False),
    "computed mark": lambda x: marked(after=x[0] > 1)(x),
}


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    assert not verified(STAYS[name], X).report.rules[NAME]


@pytest.mark.parametrize(("nodes", "fires"), [(0, False), (8, False), (30, True)])
def test_few_nodes_are_there_twice(tmp_path: Path, nodes: int, fires: bool) -> None:
    table = tmp_path / "mine.json"
    table.write_text(json.dumps({"extends": "ort-cpu", "costs": {"peeled_nodes": nodes}}))
    program = hlo2onnx.translate(jax.jit(marked()).lower(X), target=str(table))
    assert bool(program.report.rules[NAME]) == fires


def pair(last: int, start: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Newton's method for each row, in so many trips or until it has converged."""

    def root(carry: Array, row: Array) -> Any:
        def step(s: Any) -> Any:
            x, _, k = s
            return x - (x * x - row) / (2 * x), x, k + 1

        going = lambda s: (jnp.abs(s[0] - s[1]) > 1e-3) & (s[2] < last)  # noqa: E731
        x, _, k = lax.while_loop(going, step, start(row))
        return carry + x, (x, k)

    return lambda x: lax.scan(root, jnp.zeros((), jnp.float32), x)


def from_constants(row: Array) -> Any:
    return row, jnp.float32(np.inf), jnp.int32(0)


@pytest.mark.parametrize("last", [1, 2, 3])
def test_two_trips_become_branches(last: int) -> None:
    program = verified(pair(last, from_constants), X)
    (outer,) = (node for node in program.model.graph if node.op_type in ("Loop", "Scan"))
    kinds = [node.op_type for node in all_nodes(outer.attributes["body"].as_graph())]
    assert bool(program.report.rules[NAME]) == ("If" in kinds) == (last == 2)
    assert last != 2 or "Loop" not in kinds
    plain = hlo2onnx.translate(jax.jit(pair(last, from_constants)).lower(X), without={NAME})
    for scale in (1, 0, -1, 1e-9, 1e30, np.nan, np.inf):
        x = X * np.float32(scale)
        pairs = zip(jax.tree.leaves(program(x)), jax.tree.leaves(plain(x)), strict=True)
        for found, wanted in pairs:
            np.testing.assert_array_equal(found, wanted)

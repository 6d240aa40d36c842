"""Selections with one condition for all elements become results of a branch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from verified import verified

import hlo2onnx
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.raising.rules.loops import where_to_branch

X = np.array([0.5, -2.0, 3.0, -0.0], np.float32)
NAME = "where-to-branch"
SCALES = (1, 0, -1, 1e-9, 1e30, np.nan, np.inf)
Step = Callable[[Array], Any]


def loop(step: Callable[[Array], Array], dtype: Any = jnp.float32) -> Callable[[Array], Array]:
    """Repeats a step while the sum is below a limit."""
    going = lambda s: (s[0] < 9) & (jnp.sum(s[1]) < 1000)  # noqa: E731
    body = lambda s: (s[0] + 1, step(s[1]))  # noqa: E731
    return lambda x: lax.while_loop(going, body, (jnp.sum(x > 9), x.astype(dtype)))[1]


def choose(x: Array) -> tuple[Array, Array]:
    """Two of four values, by one comparison."""
    down = jnp.sum(x) > 4
    near, far = (x * 3 + 1) * x, (x - 7) * x
    return jnp.where(down, jnp.abs(near), far + 1), jnp.where(down, x, (x + 2) * 2)


def both(x: Array) -> Array:
    one, two = choose(x)
    return one - two


def in_order(x: Array) -> Array:
    """The last selection needs nothing that is computed from the first one, and comes late."""
    down = jnp.sum(x) > 4
    one = jnp.where(down, x * 3 + 1, x - 7)
    between = jnp.tanh(one) * 5
    two = jnp.where(down, (x + 2) * 2, x * x)
    return between + two + one


def chained(x: Array) -> Array:
    """The second selection needs what is computed from the first one, which one side reads."""
    down = jnp.sum(x) > 4
    one = jnp.where(down, x * 3 + 1, x - 7)
    return jnp.where(down, (one + 2) * one, jnp.tanh(x) * 2 + 1)


def two_groups(x: Array) -> Array:
    """The third selection needs what both sides of the others lead to."""
    down = jnp.sum(x) > 4
    one = jnp.where(down, x * 3 + 1, (x - 7) * x)
    mean = jnp.sum(one) / 4
    return jnp.where(down, x * mean - 1, (mean - 2) * x) + mean


def beside_branch(x: Array) -> Array:
    """A branch has the condition, too."""
    down = jnp.sum(x) > 4
    slow = lax.cond(down, lambda y: jnp.sin(y) * y, lambda y: y - 1, x)
    return slow + jnp.where(down, 1.0, jnp.exp2(x[0]))


def in_branch(x: Array) -> Array:
    """A branch with the condition reads the selection."""
    down = jnp.sum(x) > 4
    step = jnp.where(down, x * 0.5, x + 3)
    return lax.cond(down, lambda: jnp.sin(step) * x, lambda: step - 1)


STEPS: dict[str, Callable[[Array], Array]] = {
    "both": both,
    "in order": in_order,
    "chained": chained,
    "two groups": two_groups,
    "beside a branch": beside_branch,
    "in a branch": in_branch,
}


def selections(program: hlo2onnx.OnnxProgram) -> int:
    return program.report.nodes["Where"]


def assert_same(program: hlo2onnx.OnnxProgram, function: Callable[[Array], Any]) -> None:
    """Both outcomes, and other numbers, give what the model without the rule gives."""
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={NAME})
    assert selections(plain) > selections(program)
    for scale in SCALES:
        with np.errstate(all="ignore"):
            x = X * np.float32(scale)
        np.testing.assert_array_equal(program(x), plain(x))


@pytest.mark.parametrize("name", STEPS)
def test_one_branch_runs(name: str) -> None:
    function = loop(STEPS[name])
    program = verified(function, X)
    assert program.report.rules[NAME]
    assert not selections(program)
    assert_same(program, function)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.int32, jnp.uint8])
def test_types(dtype: Any) -> None:
    function = loop(both, dtype)
    program = verified(function, X)
    assert program.report.rules[NAME]
    assert_same(program, function)


def test_nodes_of_one_side_move() -> None:
    program = verified(loop(both), X)
    (branching,) = (node for node in all_nodes(program.model.graph) if node.op_type == "If")
    chosen, other = ([node.op_type for node in graph] for graph in subgraphs(branching))
    assert sorted(chosen) == ["Abs", "Add", "Identity", "Mul", "Mul"]
    assert sorted(other) == ["Add", "Add", "Mul", "Mul", "Sub"]


def test_groups_in_a_row() -> None:
    """Each needs what the one before has led to. None is split, and no two become one."""

    def step(x: Array) -> Array:
        down = jnp.sum(x) > 4
        for shift in (2, 3, 5):
            one = jnp.where(down, x * shift + 1, (x - 7) * x)
            other = jnp.where(down, (x + shift) * x, x * x - shift)
            x = one * jnp.sum(other) / 4 + other
        return x

    program = verified(loop(step), X)
    assert not selections(program)
    assert program.report.nodes["If"] == 3
    assert_same(program, loop(step))


def test_a_condition_of_one_element() -> None:
    """It is a vector."""

    def step(x: Array) -> Array:
        down = jnp.sum(x, keepdims=True) > 4
        return jnp.where(down, x * 3 - 1, (x - 7) * x)

    program = verified(loop(step), X)
    assert program.report.rules[NAME]
    assert not selections(program)


def per_element(x: Array) -> Array:
    return jnp.where(x > 4, (x * 3 + 1) * x, (x - 7) * x)


def expanded(x: Array) -> Array:
    down = jnp.sum(x, keepdims=True)[None] > 4
    return jnp.where(down, (x * 3 + 1) * x, (x - 7) * x)[0]


def shared(x: Array) -> Array:
    near, far = (x * 3 + 1) * x, (x - 7) * x
    return jnp.where(jnp.sum(x) > 4, near, far) + near - far


STAYS: dict[str, Callable[[Array], Array]] = {
    "runs once": lambda x: both(x),
    "condition per element": loop(per_element),
    "little work": loop(lambda x: jnp.where(jnp.sum(x) > 4, -x, x)),
    "read elsewhere": loop(shared),
    "expanded by the condition": loop(expanded),
}


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    program = verified(STAYS[name], X)
    assert not program.report.rules[NAME]
    assert selections(program)


@pytest.mark.parametrize(
    ("settings", "fires"),
    [
        ({}, True),
        ({"no_if": True}, False),
        ({"no_outer_values_in_branches": True}, False),
        ({"costs": {"branch_nodes": 30}}, False),
    ],
)
def test_targets(tmp_path: Path, settings: dict[str, Any], fires: bool) -> None:
    table = tmp_path / "mine.json"
    table.write_text(json.dumps({"extends": "ort-cpu", **settings}))
    program = hlo2onnx.translate(jax.jit(loop(both)).lower(X), target=str(table))
    assert bool(program.report.rules[NAME]) == fires


def test_a_group_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of its members."""
    made: list[object] = []

    class Counted(where_to_branch._Group):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    def groups(count: int) -> int:
        def step(x: Array) -> Array:
            down, rows = jnp.sum(x) > 4, [x * k for k in range(3, 3 + count)]
            chosen = [jnp.where(down, row, x) for row in rows]
            return sum((jnp.sin(one) * row for one, row in zip(chosen, rows, strict=True)), x)

        made.clear()
        program = hlo2onnx.translate(jax.jit(loop(step)).lower(X))
        assert selections(program) == count
        return len(made)

    monkeypatch.setattr(where_to_branch, "_Group", Counted)
    assert 0 < groups(16) == groups(8)

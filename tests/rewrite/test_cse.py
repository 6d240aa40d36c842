"""Equal nodes become one, and so do equal stacks of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import Run, against_xla
from jax import lax
from rule_names import LOOP_RULE_NAMES

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def against_jax(function: Callable[..., Any], *arguments: Any) -> Run:
    text = jax.jit(function).lower(*arguments).as_text()
    return against_xla(text, *arguments, without=LOOP_RULE_NAMES).close()


def loops(run: Run) -> list[oir.Node]:
    return [node for node in run.program.model.graph.all_nodes() if node.op_type == "Loop"]


def outputs(run: Run) -> list[int]:
    """How many outputs each loop has, outer before inner."""
    return [len(loop.outputs) for loop in loops(run)]


def test_equal_nodes() -> None:
    run = against_jax(lambda x: jnp.sin(x) + jnp.cos(x) * jnp.sin(x), X)
    assert run.nodes["Sin"] == 1


def test_equal_stacks() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = jnp.tanh(c + row)
            return c, (c, c * 2, c)

        _, (one, other, again) = lax.scan(step, x[0], x)
        return one.sum(0) + other.prod(0) - again.max(0)

    assert outputs(against_jax(f, X)) == [3]  # the state, and two stacks


@pytest.mark.parametrize("depth", [2, 3])
def test_equal_stacks_of_equal_stacks(depth: int) -> None:
    def nested(level: int, c: Any, x: Any) -> Any:
        if level == 0:
            c = jnp.tanh(c + x)
            return c, (c, c)
        return lax.scan(lambda c, _: nested(level - 1, c, x), c, length=2)

    def f(x: Any) -> Any:
        c, (one, other) = nested(depth, x, x)
        return c, one * other

    assert outputs(against_jax(f, X)) == [2] * depth


def test_results_of_the_program_stay_apart() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            c = jnp.tanh(c + 1)
            return c, (c, c)

        return lax.scan(step, x, length=3)

    run = against_jax(f, X)
    assert outputs(run) == [3]
    assert len(run.program.output_names) == 3


def test_unlike_stacks_stay_apart() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            new = jnp.tanh(c + 1)
            return new, (c, new)

        _, (before, after) = lax.scan(step, x, length=3)
        return before * after

    assert outputs(against_jax(f, X)) == [3]


def test_residuals_that_are_results_are_stacked_once() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = jnp.tanh(c * row)
            return c, c

        return jnp.sum(lax.scan(step, x[0], x)[1] ** 2)

    run = against_jax(jax.grad(f), X)
    forwards, _ = loops(run)
    made = [value.producer() for value in forwards.attributes["body"].as_graph().outputs]
    copied = [node.inputs[0] if node and node.op_type == "Identity" else None for node in made]
    sources = [source for source in copied if source is not None]
    assert len(sources) == len(set(sources))


def test_results_of_the_program_that_are_read_as_well() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            c = jnp.tanh(c + 1)
            return c, (c, c)

        _, (one, other) = lax.scan(step, x, length=3)
        return one, other, other.sum(0)

    assert outputs(against_jax(f, X)) == [3]

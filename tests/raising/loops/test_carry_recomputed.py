"""Values that the condition and the next trip both need are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from rewriting import fires
from verified import verified

import hlo2onnx
from hlo2onnx.raising.rules.loops.carry_recomputed import CarryRecomputed

X = np.array([0.5, 2.0, 3.0], np.float32)
NAME = "carry-recomputed"


def loop(measure: Callable[[Any], Any], step: Callable[[Any, Any], Any]) -> Callable[[Array], Any]:
    """Repeats a step, which takes a measure of its state, while the measure is above 0.5."""

    def function(x: Array) -> Any:
        return lax.while_loop(lambda s: measure(s) > 0.5, lambda s: step(s, measure(s)), x)

    return function


def norm(x: Array) -> Array:
    return jnp.sqrt(jnp.sum(x * x))


def narrowed(s: Any) -> Any:
    return jnp.exp2(-s[0].astype(jnp.float32))


def start(x: Array) -> Array:
    """0, which is not known before the program runs."""
    return (x[0] * 0).astype(jnp.int32)


def outer(x: Array) -> Any:
    """The measure reads what is computed before the loop."""
    scale = jnp.tanh(x) + 2
    return loop(lambda s: norm(s * scale), lambda s, size: s / (size + 1))(x)


FIRES: dict[str, Callable[[Array], Any]] = {
    "norm": loop(norm, lambda x, size: x / (1 + size)),
    "read twice": loop(norm, lambda x, size: x / (1 + size) - size / 99),
    "counter": lambda x: lax.while_loop(
        lambda s: narrowed(s) > 0.01, lambda s: (s[0] + 1, s[1] * narrowed(s)), (start(x), x)
    )[1],
    "value before the loop": outer,
    "no trip": lambda x: loop(norm, lambda x, size: x / (1 + size))(x * 1e-9),
}


@pytest.mark.parametrize("name", FIRES)
def test_it_is_computed_once(name: str) -> None:
    function = FIRES[name]
    program = verified(function, X)
    assert program.report.rules[NAME]
    (body,) = (each for each in program.model.graph if each.op_type == "Loop")
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={NAME})
    (longer,) = (each for each in plain.model.graph if each.op_type == "Loop")
    nodes = [len(each.attributes["body"].as_graph()) for each in (body, longer)]
    assert nodes[0] < nodes[1]
    for scale in (1, 1e9, 0, np.nan, np.inf):
        x = X * np.float32(scale)
        np.testing.assert_array_equal(program(x), plain(x))


STAYS: dict[str, Callable[[Array], Any]] = {
    "another measure": lambda x: lax.while_loop(
        lambda s: jnp.sum(s * s) > 0.5, lambda s: s / (1 + jnp.sum(s * s * s)), x
    ),
    "another state": lambda x: lax.while_loop(
        lambda s: jnp.max(s[0]) > 0.5,
        lambda s: (s[1] / 2, s[0] / 2 + jnp.max(s[1]) / 9),
        (x, x + 1),
    ),
    "counted": lambda x: lax.fori_loop(
        0, 60, lambda k, s: jnp.sin(s) + jnp.exp(s[::-1]) / (k + 1), x
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    assert not verified(STAYS[name], X).report.rules[NAME]


def test_results_that_are_read_stay() -> None:
    """A value that the body returns is computed there, whatever else reads it."""

    def step(s: Any) -> Any:
        x, _ = s
        return x / (1 + norm(x)), norm(x)

    function = lambda x: lax.while_loop(lambda s: norm(s[0]) > 0.5, step, (x, x[0]))  # noqa: E731
    program = verified(function, X)
    for scale in (1, 1e9, 0):
        x = X * np.float32(scale)
        for found, wanted in zip(program(x), jax.jit(function)(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("op_type", ["Gather", "Sin"])
@pytest.mark.parametrize("first", ["certain", "limit of 1", "limit", "condition"])
def test_what_may_fail_does_not_run_before_the_loop(op_type: str, first: str) -> None:
    """The loop may make no trip, and the first place may be none of the table."""
    wanted = op_type == "Sin" or first in ("certain", "limit of 1")

    def build(b: Any, x: oir.Value) -> oir.Value:
        integer, boolean = oir.DataType.INT64, oir.DataType.BOOL
        trip, going = b.value("trip", integer, ()), b.value("going", boolean, ())
        place, total = b.value("place", integer, ()), b.value("total", oir.DataType.FLOAT, ())

        def at(k: oir.Value) -> Any:
            number = b.cast(k, oir.DataType.FLOAT)
            return b.Gather(x, k) if op_type == "Gather" else b.Sin(number)

        with b.subgraph([trip, going, place, total], "body") as body:
            after = b.Add(place, b.i64(1))
            total_after = b.Add(total, at(place))
            body.outputs.extend(
                [b.Less(at(after), b.scalar(5, oir.DataType.FLOAT)), after, total_after]
            )
        types = [(integer, ()), (oir.DataType.FLOAT, ())]
        start = [
            b.ReduceSum(b.cast(x, integer), b.i64([0]), keepdims=0),
            b.scalar(0, oir.DataType.FLOAT),
        ]
        integers = b.cast(x, integer)
        any_number = b.ReduceMin(integers, b.i64([0]), keepdims=0)
        limits = {"limit of 1": b.i64(1), "limit": any_number}
        going = b.Less(any_number, b.i64(9)) if first == "condition" else None
        given = [limits.get(first), going, *start]
        return b.outputs("Loop", *given, body=body, n_outputs=2, types=types)[1]

    assert fires(build, {"x": X}, CarryRecomputed()) == wanted

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
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.raising.rules.loops.carry_recomputed import CarryRecomputed

X = np.array([0.5, 2.0, 3.0], np.float32)
NAME = "carry-recomputed"
INNER = "carry-inner-loops"


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


def newton(x: Any, steps: int = 5, start: float = 1.0, parts: int = 3) -> Any:
    """A cube root by an inner loop, whose length depends on x."""
    return lax.while_loop(
        lambda s: (s[0] < steps) & (jnp.abs(s[1] ** 3 - x) > 1e-6),
        lambda s: (s[0] + 1, (2 * s[1] + x / s[1] ** 2) / parts),
        (0, jnp.float32(start)),
    )[1]


def ends(first: Callable[[Any], Any], second: Callable[[Any], Any], stop: Any = 3.0) -> Any:
    """Steps from a to b that compute a function at both ends."""

    def function(x: Array) -> Any:
        def step(s: Any) -> Any:
            a, b, total = s
            return b, b + 0.1 + x[0] / 9, total + second(b) * x - first(a)

        return lax.while_loop(lambda s: s[0] < stop, step, (0.0, 0.5, x))[2]

    return function


def branch(x: Any) -> Any:
    return lax.cond(x > 1, lambda: newton(x), lambda: newton(x + 1, 3))


def clamped(x: Array) -> Any:
    """The next trip starts at the end of this one, which is never above 1, as in diffrax."""

    def step(s: Any) -> Any:
        a, b, total = s
        after = b + 0.25
        after = jnp.where(after > 0.99, 1.0, after)
        return jnp.minimum(b, 1.0), after, total + newton(b) * x - newton(a)

    return lax.while_loop(lambda s: s[0] < 1, step, (0.0, 0.1, x))[2]


BOTH_ENDS = {
    "clamped ends": clamped,
    "loop": ends(newton, newton),
    "branch with loops": ends(branch, branch),
    "more around the loop": ends(*[lambda a: jnp.sin(newton(a + 2))] * 2),
    "keys": ends(
        lambda a: jax.random.normal(jax.random.key(jnp.int32(newton(a) * 99))),
        lambda b: jax.random.normal(jax.random.key(jnp.int32(newton(b) * 99))),
    ),
}


@pytest.mark.parametrize("name", BOTH_ENDS)
def test_inner_loops_at_both_ends(name: str) -> None:
    """One of them runs in each trip, with the same numbers. Known ends are computed beforehand, if
    there are not too many of them."""
    function, known = BOTH_ENDS[name], {"constant-trips"}
    program = verified(function, X, without=known)
    assert program.report.rules[INNER] == 1
    plain = hlo2onnx.translate(jax.jit(function).lower(X), without={INNER, NAME, *known})
    inner = [inner_loops(each.model) for each in (program, plain)]
    assert inner[0] < inner[1]
    for scale in (1, -1, 0, np.nan):
        x = X * np.float32(scale)
        np.testing.assert_array_equal(program(x), plain(x))


def inner_loops(model: oir.Model) -> int:
    """Nodes with bodies in the body of the last loop."""
    last = [node for node in model.graph if node.op_type == "Loop"][-1]
    return sum(bool(subgraphs(node)) for node in all_nodes(last.attributes["body"].as_graph()))


def shifted(x: Array) -> Any:
    """The second end is not where the next trip starts."""
    step = lambda s: (s[1] + 0.125, s[1] + 0.1, s[2] + newton(s[1]) - newton(s[0]))  # noqa: E731
    return lax.while_loop(lambda s: s[0] < 3, step, (0.0, 0.5, x))[2]


OTHERS: dict[str, Callable[[Array], Any]] = {
    "another start": ends(newton, lambda b: newton(b, start=2.0)),
    "another limit": ends(newton, lambda b: newton(b, 6)),
    "another body": ends(newton, lambda b: newton(b, parts=4)),
    "another place": shifted,
    "no trip": ends(newton, newton, stop=-1.0),
    "no loop": ends(jnp.sin, jnp.sin),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_at_both_ends(name: str) -> None:
    assert not verified(OTHERS[name], X).report.rules[INNER]

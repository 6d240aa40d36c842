"""States that hold the row of an earlier trip become rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from verified import verified

import hlo2onnx
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import shape_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 4)).astype(np.float32)
V = RNG.normal(size=(9, 4)).astype(np.float32)
LAST = RNG.normal(size=(4,)).astype(np.float32)
NAME = "shifted-carry"


class Translated:
    """A function in ONNX, compared with XLA; what is left in the bodies of its loops."""

    def __init__(self, function: Callable[..., Any], *args: Any, without: Any = ()) -> None:
        kept = {"loop-unroll", *without}
        program = verified(function, *args, without=kept)
        self.fired = program.report.rules[NAME]
        loops = [node for node in program.model.graph if subgraphs(node)]
        self.loops = len(loops)
        self.inside = Counter(n.op_type for loop in loops for g in subgraphs(loop) for n in g)


def advantages(rewards: jax.Array, values: jax.Array, last: jax.Array) -> jax.Array:
    """Generalized advantage estimation: what a trip knows of the next value is its row."""

    def step(carry: Any, row: Any) -> Any:
        total, following = carry
        reward, value = row
        total = reward + 0.99 * following - value + 0.9 * total
        return (total, value), total

    return lax.scan(step, (jnp.zeros(4), last), (rewards, values), reverse=True)[1]


def test_advantages() -> None:
    run = Translated(advantages, X, V, LAST)
    assert run.fired == 1
    assert run.inside == Counter(Add=1, Mul=1, Identity=1)
    assert Translated(advantages, X, V, LAST, without=[NAME]).inside["Mul"] == 2


def differences(x: jax.Array) -> Any:
    """Nothing is left of a loop whose only state is the row before."""
    return lax.scan(lambda h, row: (row, row - h), x[0] * 2, x)


def two_before(x: jax.Array) -> Any:
    """A state of a state: the row of two trips before."""
    return lax.scan(lambda h, row: ((row, h[0]), row - h[1]), (x[0], x[-1]), x)


def of_what_is_made(x: jax.Array) -> Any:
    """What is made of a row, and of the number of the trip."""

    def step(h: jax.Array, row: Any) -> Any:
        return jnp.exp(row[0]) * row[1], h * h

    return lax.scan(step, x[-1], (x, jnp.arange(float(len(x)))))


def backwards(x: jax.Array) -> Any:
    return lax.scan(lambda h, row: (row, row - h), x[0], x, reverse=True)


@pytest.mark.parametrize("function", [differences, two_before, of_what_is_made, backwards])
@pytest.mark.parametrize("trips", [1, 2, 9])
def test_nothing_is_left(function: Any, trips: int) -> None:
    run = Translated(function, X[:trips])
    assert not run.loops and (run.fired or trips == 1)


def test_one_trip_less_than_rows() -> None:
    """The rows a loop does not read are no states either."""

    def function(x: jax.Array) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: (x[i], c[1] * c[0] + x[i]), (x[8], x[7]))

    run = Translated(function, X)
    assert run.fired and run.inside["Mul"] == run.inside["Add"] == 1


def test_integers_and_truth_values() -> None:
    def function(x: jax.Array) -> Any:
        def step(h: Any, row: Any) -> Any:
            return (row, row > 3), jnp.where(h[1], h[0], -row)

        return lax.scan(step, (jnp.int32(7), True), x)

    assert not Translated(function, np.arange(8, dtype=np.int32)).loops


STAYS: dict[str, Callable[..., Any]] = {
    "a state is added": lambda x: lax.scan(lambda h, row: (h + row, h), x[0], x),
    "exchanged": lambda x: lax.scan(lambda h, row: ((h[1], h[0]), h[0] * row), (x[0], x[1]), x),
    "chosen": lambda x: lax.scan(lambda h, row: (jnp.where(h > 0, row, h), h), x[0], x),
    "trips not known": lambda x: lax.fori_loop(
        0, (x[0, 0] * 0 + 5).astype(int), lambda i, h: (x[i], h[1] + h[0]), (x[0], x[0])
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_follows_from_states_stays(name: str) -> None:
    run = Translated(STAYS[name], X)
    assert not run.fired and run.loops


def test_a_mask_is_scanned_as_it_is_made() -> None:
    """What broadcasts in the body is not expanded before it."""

    def function(x: jax.Array, rows: jax.Array) -> Any:
        def step(h: jax.Array, row: Any) -> Any:
            i, place = row
            h = jnp.tanh(h + place)
            return jnp.where(jnp.arange(4) <= i, h, 0.0), None

        return lax.scan(step, x, (jnp.arange(9), rows))[0]

    args = (np.ones((5, 4), np.float32), X)
    program = hlo2onnx.translate(jax.jit(function).lower(*args), without=["loop-unroll"])
    assert program.verify(*args).ok
    (scan,) = (node for node in program.model.graph if node.op_type == "Scan")
    sizes = [
        np.prod(np.array(shape_of(value), int)) for value in scan.inputs[1:] if value is not None
    ]
    assert sizes == [9 * 4, 9 * 4] and "Expand" not in program.report.nodes

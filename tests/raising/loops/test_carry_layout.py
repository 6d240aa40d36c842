"""States whose columns are taken apart and joined are carried with the columns first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.ir.values import shape_of

RNG = np.random.default_rng(0)
N, TRIPS = 12, 5
S = RNG.normal(size=(N, 3)).astype(np.float32)
X = RNG.normal(size=(TRIPS, N, 3)).astype(np.float32)
W = RNG.normal(size=(3, 3)).astype(np.float32)
V = RNG.normal(size=3).astype(np.float32)


def carried(function: Callable[..., Any], *args: Any, **options: Any) -> list[tuple[Any, ...]]:
    """The shapes of the states of the only loop; the numbers are those of XLA."""
    without = {"slp-vectorize", "loop-unroll", *options.pop("without", ())}
    program = hlo2onnx.translate(jax.jit(function).lower(*args), without=without, **options)
    report = program.verify(*args)
    assert report.ok, report
    nodes = list(program.model.graph.all_nodes())
    (loop,) = (node for node in nodes if node.op_type in ("Loop", "Scan"))
    scanned = loop.attributes.get_int("num_scan_inputs", 0) if loop.op_type == "Scan" else 0
    inputs = loop.inputs[: len(loop.inputs) - scanned]
    return [shape_of(x) for x in inputs[2 * (loop.op_type == "Loop") :] if x is not None]


def field(s: jax.Array) -> jax.Array:
    x, y, z = s[..., 0], s[..., 1], s[..., 2]
    return jnp.stack([0.1 * (y - x), x * (0.5 - z) - y, x * y - 0.2 * z], axis=-1)


TURNED: dict[str, Callable[[Any, Any], Any]] = {
    "field": lambda s, x: s + 0.1 * field(s),
    "with-rows": lambda s, x: s + 0.1 * field(s) * x,
    "with-a-vector": lambda s, x: jnp.tanh(field(s) * V + S),
    "with-a-number": lambda s, x: field(s) * x[0, 0],
    "slices": lambda s, x: jnp.concatenate([s[:, 1:], s[:, :1] * 2], axis=-1) + x,
    "splits": lambda s, x: jnp.concatenate(jnp.split(jnp.sin(s), 3, axis=1)[::-1], axis=-1),
    "backwards": lambda s, x: (
        jnp.sin(s)[:, ::-1] * 0.5
        + jnp.pad(s[:, :1] * s[:, 1:2], ((0, 0), (0, 2))) * 0
        + jnp.concatenate([s[:, 2:], s[:, :2]], 1)
    ),
    "other-axis": lambda s, x: jnp.concatenate([s[6:], s[:6]]) + 0.1 * field(s),
    "where": lambda s, x: jnp.where(s > 0, field(s), x),
}


def scanned(step: Callable[[Any, Any], Any], reverse: bool = False) -> Callable[..., Any]:
    def function(s: jax.Array, x: jax.Array) -> Any:
        def body(s: jax.Array, row: jax.Array) -> Any:
            new = step(s, row)
            return new, (new, s)

        return lax.scan(body, s, x, reverse=reverse)

    return function


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", [name for name in TURNED if name != "backwards"])
def test_columns_come_first(name: str, reverse: bool) -> None:
    assert carried(scanned(TURNED[name], reverse), S, X) == [(3, N)]


def test_other_operators_keep_the_numbers() -> None:
    carried(scanned(TURNED["backwards"]), S, X)


def test_a_loop_without_stacks() -> None:
    assert carried(lambda s: lax.fori_loop(0, 4, lambda i, s: s + field(s) / 9, s), S) == [(3, N)]


def test_two_states() -> None:
    """Both are turned, as one is added to the other; the counter and the mass are not."""

    def function(s: jax.Array, v: jax.Array, m: jax.Array) -> Any:
        def body(state: Any, _: None) -> Any:
            s, v, m = state
            v = v + 0.1 * field(s) / m[0]
            return (s + 0.1 * v, v, m * 2), s

        return lax.scan(body, (s, v, m), length=4)

    assert sorted(carried(function, S, S * 2, V[:1])) == [(1,), (3, N), (3, N)]


def test_batches_of_matrices() -> None:
    s = RNG.normal(size=(4, 5, 3)).astype(np.float32)
    function = lambda s: lax.scan(lambda s, _: (s + 0.1 * field(s), s), s, length=4)  # noqa: E731
    assert carried(function, s) == [(3, 4, 5)]


def test_symbolic_rows() -> None:
    (n,) = jax.export.symbolic_shape("n")
    spec = jax.ShapeDtypeStruct((n, 3), np.float32)
    function = lambda s: lax.scan(lambda s, _: (s + 0.1 * field(s), s), s, length=4)  # noqa: E731
    program = hlo2onnx.translate(jax.export.export(jax.jit(function))(spec))
    for rows in (1, N):
        assert program.verify(S[:rows]).ok


STAYS: dict[str, Callable[[Any, Any], Any]] = {
    "nothing-is-taken-apart": lambda s, x: jnp.tanh(s * 2 + x),
    "product": lambda s, x: field(s) @ W,
    "sum": lambda s, x: field(s) / (1 + jnp.abs(s).sum(0)),
    "sorted": lambda s, x: jnp.sort(field(s), axis=0),
    "reshaped": lambda s, x: field(s) + (s * 2).T.reshape(N, 3),
}


@pytest.mark.parametrize("name", STAYS)
def test_the_rest_stays(name: str) -> None:
    assert carried(scanned(STAYS[name]), S, X) == [(N, 3)]


def test_few_rows_stay() -> None:
    assert carried(scanned(TURNED["field"]), S[:2], X[:, :2]) == [(2, 3)]


def test_trips_that_are_not_known_stay() -> None:
    function = lambda s, n: lax.fori_loop(0, n, lambda i, s: s + field(s) / 9, s)  # noqa: E731
    for trips in (0, 3):
        assert carried(function, S, np.int32(trips)) == [(N, 3)]


def test_switched_off() -> None:
    assert carried(scanned(TURNED["field"]), S, X, without={"carry-layout"}) == [(N, 3)]

"""Nodes that depend on no state leave a loop; nodes that depend on one stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import outside_and_inside
from loop_parts import EARLY, LATE
from rewriting import Rewrite
from verified import verified

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3, 4)).astype(np.float32)
W = RNG.normal(size=(4, 4)).astype(np.float32)
RULE = "partition-loop"
V = RNG.normal(size=(4,)).astype(np.float32)


class Translated:
    """A function in ONNX, compared with XLA; the operators around loops and within them."""

    def __init__(self, function: Callable[..., Any], *args: np.ndarray, **options: Any) -> None:
        without = {"loop-to-scan", "loop-unroll", *options.pop("without", ())}
        program = verified(function, *args, without=without, **options)
        self.rules = program.report.rules
        self.graph = program.model.graph
        self.outside, self.inside = outside_and_inside(self.graph)


def recurrent(
    f: Callable[[Any], Any], g: Callable[[Any], Any] = lambda h: h, **options: Any
) -> Any:
    """A scan whose body does f to its row, adds it to a state, and stacks g of the state."""

    def function(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
            h = jnp.tanh(h + f(row))
            return h, g(h)

        row = jax.eval_shape(f, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
        return jax.lax.scan(step, jnp.zeros(row.shape, row.dtype), x, **options)[1]

    return function


BATCHED: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda row: row @ W,
    "matrix-from-the-left": lambda row: W[:3, :3] @ row,
    "own-product": lambda row: row @ row.T,
    "vector": lambda row: row[0] @ W,
    "chain": lambda row: jnp.exp(row * 2 + V) - row,
    "reshape": lambda row: (row + 1).reshape(2, 6),
    "softmax": lambda row: jax.nn.softmax(row, axis=0),
    "concatenate": lambda row: jnp.concatenate([row * 3, jnp.ones((1, 4)), -row]),
    "cumsum": lambda row: jnp.cumsum(jnp.exp(row), axis=1),
    "convert": lambda row: (row * 4).astype(jnp.int32).astype(jnp.float32) / 3,
}


@pytest.mark.costly
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BATCHED)
def test_work_on_rows_leaves_the_body(name: str, reverse: bool) -> None:
    run = Translated(recurrent(BATCHED[name], reverse=reverse), X)
    assert run.rules[RULE]
    assert +run.inside == Counter(Gather=1, Add=1, Tanh=1, Identity=2)


POSTPONED: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda h: h @ W[:, :1] * 2,
    "chain": lambda h: jnp.exp(h * 2 + V) - h,
    "transpose": lambda h: jnp.sin(h).T,
    "sum": lambda h: jnp.cos(h).sum(1),
    "softmax": lambda h: jax.nn.softmax(h),
}


@pytest.mark.parametrize("name", POSTPONED)
def test_work_for_stacks_follows_the_loop(name: str) -> None:
    run = Translated(recurrent(lambda row: row, POSTPONED[name]), X)
    assert run.rules[RULE]
    assert +run.inside == Counter(Gather=1, Add=1, Tanh=1, Identity=2)


def test_stacks_of_rows_and_states() -> None:
    """What is read of a row after all is stacked without the loop."""

    def function(x: jax.Array) -> Any:
        def step(h: jax.Array, row: jax.Array) -> Any:
            new = jnp.tanh(h + row)
            return new, (new * row, h + 1, jnp.exp(row), row, jnp.ones(2))

        return jax.lax.scan(step, jnp.zeros((3, 4)), x)

    run = Translated(function, X)
    assert set(run.inside) <= {"Gather", "Add", "Tanh", "Identity"}
    assert run.inside["Add"] == run.inside["Tanh"] == 1


MAPPED: dict[str, Callable[[Any], Any]] = {
    **BATCHED,
    "itself": lambda row: row,
    "several": lambda row: (row, row + 1, jnp.exp(row).sum()),
    "constant": lambda row: (row + 1, jnp.ones(3)),
    "tiled": lambda row: jnp.tile(row, (3, 4)),
    "wrapped": lambda row: jnp.pad(row, 2, mode="wrap"),
}


@pytest.mark.parametrize("name", MAPPED)
def test_nothing_is_left_of_a_map(name: str) -> None:
    run = Translated(lambda x: jax.lax.map(MAPPED[name], x), X)
    assert not run.outside["Loop"]


def test_the_number_of_the_trip() -> None:
    def function(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, i: jax.Array) -> tuple[jax.Array, None]:
            scale = jnp.exp(-(i.astype(jnp.float32)) / 3)
            return jnp.tanh(h * scale), None

        return jax.lax.scan(step, x, jnp.arange(5))[0]

    run = Translated(function, X)
    assert +run.inside == Counter(Gather=1, Mul=1, Tanh=1, Identity=1)


def test_some_of_the_rows() -> None:
    """The loop reads rows 2 to 5 of 7, from the last to the first."""

    def function(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 4, lambda i, h: jnp.tanh(h + jnp.exp(x[5 - i]) @ W), x[0])

    run = Translated(function, X)
    assert +run.inside == Counter(Gather=1, Add=1, Tanh=1, Identity=1)


def test_embeddings_are_looked_up_at_once() -> None:
    def function(x: jax.Array, tokens: jax.Array) -> jax.Array:
        def step(h: jax.Array, token: jax.Array) -> tuple[jax.Array, None]:
            return jnp.tanh(h + x[token] @ W), None

        return jax.lax.scan(step, jnp.zeros((3, 4)), tokens)[0]

    run = Translated(function, X, np.array([3, 0, 6, 6, 1], np.int32))
    assert +run.inside == Counter(Gather=1, Add=1, Tanh=1, Identity=1)


def test_nested_loops() -> None:
    """The inner loop's rows are batched for each trip of the outer loop."""

    def function(x: jax.Array) -> Any:
        def outer(h: jax.Array, row: jax.Array) -> Any:
            inner = lambda g, v: (jnp.tanh(g + v @ W), None)  # noqa: E731
            h = jax.lax.scan(inner, h, row + h)[0]
            return h, h * 2

        return jax.lax.scan(outer, jnp.ones(4), x)[1]

    run = Translated(function, X)
    assert run.outside["Loop"] == run.inside["Loop"] == run.inside["MatMul"] == 1
    assert Translated(function, X, without={RULE}).inside["MatMul"] == 1
    (body,) = (node for node in run.graph.all_nodes() if node.op_type == "Tanh")
    assert "MatMul" not in {node.op_type for node in body.graph or ()}


STAYS: dict[str, Callable[..., Any]] = {
    "state": recurrent(lambda row: row, lambda h: h),
    "row-times-state": lambda x: jax.lax.scan(
        lambda h, row: (jnp.tanh(h @ row @ W[:, :3]), None), jnp.ones((4, 3)), x
    )[0],
    "trips-not-known": lambda x, n: jax.lax.fori_loop(
        0, n[0], lambda i, h: jnp.tanh(h + jnp.exp(x[i]) @ W), x[0]
    ),
    "condition": lambda x, n: jax.lax.while_loop(
        lambda c: (c[0] < 7) & (jnp.sum(c[1]) < 5),
        lambda c: (c[0] + 1, c[1] + jnp.exp(x[c[0]]) @ W),
        (n[0], x[0]),
    )[1],
}


@pytest.mark.parametrize("name", STAYS)
def test_the_rest_stays(name: str) -> None:
    args = (X, np.array([3], np.int32)) if name in ("trips-not-known", "condition") else (X,)
    run = Translated(STAYS[name], *args)
    assert run.inside == Translated(STAYS[name], *args, without={RULE}).inside


def test_no_trip_at_run_time() -> None:
    def function(x: jax.Array, n: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, n[0], lambda i, h: jnp.tanh(h + jnp.exp(x[i])), x[0])

    Translated(function, X, np.array([0], np.int32))


PLACES = np.array([1, 0, 5, 6, 2, 2, 4], np.int32)

PIECES: dict[str, Callable[[Any, Any], Any]] = {
    "one-hot": lambda h, i: jnp.zeros(7).at[i].set(1.0),
    "of-the-state": lambda h, i: h.at[i].set(-1.0),
    "of-rows": lambda h, i: jnp.zeros(7).at[i].set(h[2]),
    "element": lambda h, i: h.at[i].set(h[i] * 3)[::-1] + 1,
    "window": lambda h, i: jax.lax.dynamic_update_slice(h, -h[:3], (i,)),
    "window-read": lambda h, i: jax.lax.dynamic_slice(h, (i,), (3,)) * 2,
    "both": lambda h, i: jax.lax.dynamic_update_slice(
        h, jax.lax.dynamic_slice(h, (i - 1,), (3,)), (2 - i,)
    ),
    "plane": lambda h, i: jnp.outer(h, h).at[i, 1].set(h[i]),
    "column": lambda h, i: jnp.outer(h, h).at[:, i].set(h),
    "twice": lambda h, i: jnp.zeros(7).at[i].set(1.0).at[6 - i].add(h[0]),
    "rolled": lambda h, i: jnp.roll(h, i),
    "of-a-vector": lambda h, i: jnp.ones((7, 2)).at[i].set(jnp.exp(h[:2])) * h[:, None],
}


@pytest.mark.costly
@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("carries", [True, False])
def test_rows_of_pieces_whose_lengths_differ_from_trip_to_trip(name: str, carries: bool) -> None:
    """`x.at[i].set(y)` joins what is before i, y, and what is behind: no loop stacks the pieces."""

    def function(places: jax.Array, h: jax.Array) -> Any:
        def step(h: jax.Array, i: jax.Array) -> Any:
            row = PIECES[name](h, i)
            return (jnp.sin(h + i) if carries else h), row

        return jax.lax.scan(step, h, places)

    Translated(function, PLACES, RNG.normal(size=7).astype(np.float32))


@pytest.mark.wide
def test_pieces_by_the_number_of_the_trip() -> None:
    """The lengths are known trip by trip, and still differ."""

    def function(h: jax.Array) -> Any:
        def step(h: jax.Array, i: jax.Array) -> Any:
            h = jnp.sin(h + 1)
            return h, (h.at[i].set(0.0), jnp.exp(h.at[6 - i].set(2.0)))

        return jax.lax.scan(step, h, jnp.arange(7))

    Translated(function, RNG.normal(size=7).astype(np.float32))


@pytest.mark.parametrize("width", [4, 12])
def test_rows_in_a_shape_that_follows_from_values(width: int) -> None:
    """The first k elements of each row are reshaped to (k / 2, 2): outside of the body nobody
    knows these extents by name."""
    unknown = oir.SymbolicDim(None)

    def build(b: GraphBuilder, x: oir.Value, k: oir.Value) -> oir.Value:
        trip, on = b.value("trip", oir.DataType.INT64, []), b.value("on", oir.DataType.BOOL, [])
        with b.subgraph([trip, on], "body") as body:
            row = b.Gather(x, trip, axis=0)
            bounds = (b.i64([0]), k, b.i64([0]))
            part = b.op("Slice", row, *bounds, types=[(oir.DataType.FLOAT, (unknown, 2))])
            types = [(oir.DataType.FLOAT, (unknown, 4))]
            turned = b.op("Reshape", part, b.i64([-1, 4]), types=types)
            body.outputs.extend([b.Identity(on), b.ReduceSum(turned, keepdims=0)])
        return b.op("Loop", b.i64(3), None, body=body, types=[(oir.DataType.FLOAT, (3,))])

    x = RNG.normal(size=(3, width, 2)).astype(np.float32)
    Rewrite(build, {"x": x, "k": np.array([4])}, EARLY, LATE)


def test_large_rows_are_not_batched() -> None:
    """A trip would read 400 kB where it makes them of 4 bytes."""
    big = np.arange(100_000, dtype=np.float32)

    def function(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda h, s: (jnp.tanh(h + s * big), None), jnp.asarray(big), x)[0]

    run = Translated(function, X[:, 0, 0])
    assert run.inside["Mul"] == 1


def test_gates_are_taken_apart_in_the_body() -> None:
    """One row is read, not one for each gate."""

    def function(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            first, second = jnp.split(row @ W, 2, axis=1)
            return jnp.tanh(h + first) * second, None

        return jax.lax.scan(step, jnp.zeros((3, 2)), x)[0]

    run = Translated(function, X)
    assert run.inside["Gather"] == 1 and run.inside["MatMul"] == 0


@pytest.mark.parametrize("name", [RULE, "loop-vectorize", "sink-stacked-outputs"])
def test_switched_off(name: str) -> None:
    function = recurrent(lambda row: row @ W, lambda h: jnp.exp(h))
    run = Translated(function, X, without={name})
    assert not run.rules[RULE]
    assert run.inside["Gemm"] and run.inside["Exp"]


def test_rows_too_large_to_batch_are_opened_once() -> None:
    """Each step reads the one before twice: as many paths as there are atoms."""
    big = np.arange(30_000, dtype=np.float32)

    def function(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, s: jax.Array) -> tuple[jax.Array, None]:
            row = s * big
            for _ in range(60):
                row = jnp.sin(row) * row
            return jnp.tanh(h + row), None

        return jax.lax.scan(step, jnp.asarray(big), x)[0]

    program = hlo2onnx.translate(jax.jit(function).lower(X[:, 0, 0]))
    assert program.report.nodes["Sin"] == 60


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, np.float32])
def test_rows_of_narrow_constants_are_widened_in_the_body(dtype: Any) -> None:
    """`qdq-propagation` moves such a Cast behind the Gather."""
    table = np.arange(40).astype(dtype)

    def function(x: jax.Array) -> jax.Array:
        def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, None]:
            return h * 0.5 + row.astype(h.dtype), None

        return jax.lax.scan(step, x, jnp.asarray(table))[0]

    with jax.enable_x64(True):
        run = Translated(function, V.astype(np.float64))
    assert run.inside["Cast"] == 1 or dtype == np.float16

"""Functions of rows of a table are computed for the whole table before the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax
from rewriting import Rewrite
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.raising.rules.loops.loop_vectorize import LoopVectorize

RNG = np.random.default_rng(0)
TABLE = np.sort(RNG.normal(size=50)).astype(np.float32)
X = RNG.normal(size=30).astype(np.float32)
STEPS = np.array([3], np.int32)
NAME = "gather-hoisting"


class Translated:
    """A function in ONNX, compared with XLA; what is left in the bodies of its loops."""

    def __init__(self, function: Callable[..., Any], *args: Any, without: Any = ()) -> None:
        kept = {"loop-unroll", *without}
        program = verified(function, *args, without=kept)
        self.fired = program.report.rules[NAME]
        bodies = [g for node in program.model.graph.all_nodes() for g in subgraphs(node)]
        self.inside = Counter(node.op_type for graph in bodies for node in graph)


ODD = np.array([-np.inf, -2, -0.0, 0.0, 0.5, np.inf, np.nan], np.float32)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("table", [TABLE, ODD], ids=["sorted", "odd"])
def test_places_in_sorted_tables(side: str, table: np.ndarray) -> None:
    """The table is made comparable before the loop that halves ranges."""

    def function(table: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.searchsorted(table, x, side=side)

    x = np.concatenate([X, ODD])
    run = Translated(function, table, x)
    assert run.fired == 1 and "BitCast" not in run.inside
    assert "BitCast" in Translated(function, table, x, without=[NAME]).inside


def looked_up(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """A loop that computes something of the elements it looks up."""

    def function(table: jax.Array, x: jax.Array) -> Any:
        def step(carry: Any, _: Any) -> Any:
            index, h = carry
            return ((index * 7 + 3) % 50, h * 0.5 + f(table[index])), None

        places = jnp.argsort(x).astype(jnp.int32)
        return lax.scan(step, (places, x), None, length=5)[0]

    return function


FIRES: dict[str, Callable[[Any], Any]] = {
    "chain": lambda t: jnp.sin(t) * 2.0 + 1.0,
    "read twice": lambda t: jnp.where(jnp.isnan(t), 0.0, t),
    "two results": lambda t: jnp.exp(t * 2.0) + jnp.cos(t * 2.0),
    "bounds": lambda t: jnp.clip(t, -0.5, 0.5),
}


@pytest.mark.parametrize("name", FIRES)
def test_elementwise(name: str) -> None:
    run = Translated(looked_up(FIRES[name]), TABLE, X)
    assert run.fired == 1 and run.inside["Gather"] == 1
    assert not {"Exp", "Cos", "Sin", "IsNaN"} & run.inside.keys()
    assert not run.inside["Clip"]  # the places are known to be inside


def test_narrow_constants_are_widened_after_the_look_up() -> None:
    """Otherwise the table would be stored in the wide type, or the rules would undo each other."""
    table = jnp.asarray(RNG.integers(-9, 9, 50), jnp.int8)
    run = Translated(lambda x: looked_up(lambda t: t.astype(jnp.float32))(table, x), X)
    assert not run.fired and run.inside["Gather"] == 1 and "Cast" in run.inside


def test_rows_of_a_table() -> None:
    """Of a matrix whose rows are looked up by one number."""
    table = RNG.normal(size=(9, 4)).astype(np.float32)

    def function(table: jax.Array, x: jax.Array) -> Any:
        def step(h: jax.Array, _: Any) -> Any:
            row = table[jnp.argmax(h)]
            return h * 0.5 + jnp.tanh(row * 3.0), None

        return lax.scan(step, x[:4], None, length=5)[0]

    run = Translated(function, table, X)
    assert run.fired and "Tanh" not in run.inside


def of_a_large_table(table: jax.Array, x: jax.Array) -> Any:
    return looked_up(lambda t: jnp.sin(t) * 2.0)(jnp.tile(table, 100), x)


def of_what_changes(table: jax.Array, x: jax.Array) -> Any:
    def step(h: Any, _: Any) -> Any:
        table, x = h
        index = jnp.clip(x.astype(int) % 50, 0, 49)
        return (table[::-1] * 0.9, x * 0.5 + jnp.sin(table[index]) * 2.0), None

    return lax.scan(step, (table, x), None, length=5)[0]


def with_another_operand(table: jax.Array, x: jax.Array) -> Any:
    def step(h: jax.Array, _: Any) -> Any:
        index = jnp.clip(h.astype(int) % 50, 0, 49)
        return table[index] * h, None

    return lax.scan(step, x, None, length=5)[0]


def division_of_integers(table: jax.Array, x: jax.Array) -> Any:
    whole = (table * 9).astype(jnp.int32)

    def step(h: jax.Array, _: Any) -> Any:
        return 7 // jnp.maximum(whole[jnp.clip(h, 0, 49)], 1) + h // 2, None

    return lax.scan(step, (x * 9).astype(jnp.int32), None, length=5)[0]


def in_no_loop(table: jax.Array, x: jax.Array) -> Any:
    index = jnp.clip((x * 9).astype(int), 0, 49)
    return jnp.sin(jnp.cos(table)[index]) * 2.0


STAYS = {
    "large": (of_a_large_table, "Sin"), "changes": (of_what_changes, "Sin"),
    "another operand": (with_another_operand, "Mul"), "integers": (division_of_integers, "Div"),
    "no loop": (in_no_loop, ""), "raw": (looked_up(lambda t: t), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    function, left = STAYS[name]
    run = Translated(function, TABLE, X)
    assert name == "integers" or not run.fired
    assert not left or run.inside[left]


def test_rows_that_only_a_loop_reads() -> None:
    """What is stacked of them is the tensor itself, which nobody else keeps."""

    def build(b: GraphBuilder, x: oir.Value) -> Sequence[oir.Value]:
        table = b.Mul(x, b.scalar_like(2, x))
        number = b.value("number", oir.DataType.INT64, [])
        going = b.value("going", oir.DataType.BOOL, [])
        state = b.value("state", oir.DataType.FLOAT, [])
        with b.subgraph([number, going, state], "body") as body:
            row = b.Gather(table, number, axis=0)
            body.outputs.extend([b.Identity(going), b.Sin(state), row])
        types = [(oir.DataType.FLOAT, ()), (oir.DataType.FLOAT, (4,))]
        given = [b.i64(4), None, b.scalar_like(1, x)]
        made: Sequence[oir.Value] = b.node("Loop", given, {"body": body}, types)
        return [b.Neg(value) for value in made]

    run = Rewrite(build, {"x": X[:4]}, LoopVectorize())
    assert run.fired and run.nodes["Mul"] == 1 and not run.nodes["Gather"]


def test_no_trip_at_run_time() -> None:
    def function(table: jax.Array, x: jax.Array, n: jax.Array) -> Any:
        def step(i: Any, h: jax.Array) -> jax.Array:
            return h + jnp.log(table[jnp.clip(h.astype(int), 0, 49)]) * 2.0

        return lax.fori_loop(0, n[0], step, x)

    assert Translated(function, np.abs(TABLE), X, STEPS).fired
    Translated(function, np.abs(TABLE), X, STEPS * 0)

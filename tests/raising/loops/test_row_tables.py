"""What a body computes from the rows of tables is computed for all rows before the loop."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, loop
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.row_tables import RowTables

T = oir.DataType
Value = oir.Value
B = GraphBuilder
Score = Callable[[B, Value, Value, Value], Value]
"""`score(b, i, x, y)` gives a row of three numbers."""

RNG = np.random.default_rng(0)
INPUTS = {
    "x": RNG.normal(size=(5, 3)).astype(np.float32),
    "y": RNG.integers(-3, 4, size=(5, 3)).astype(np.int32),
    "start": np.array(2, np.int32),
}
LANES = {
    "x": RNG.normal(size=(2, 5, 3)).astype(np.float32),
    "y": RNG.integers(-3, 4, size=(2, 5)).astype(np.int32),
    "start": np.array([2, 4], np.int32),
}
INPUTS["x"][1] = [np.nan, np.inf, -0.0]


def place(b: B, i: Value) -> Value:
    return b.Cast(b.Clip(i, b.const(np.int32(0)), b.const(np.int32(4))), to=T.INT64)


def weighted(b: B, i: Value, x: Value, y: Value) -> Value:
    """Of two rows, along their axis too."""
    row, other = b.Gather(x, place(b, i), axis=0), b.Gather(y, i, axis=0)
    best = b.Sub(row, b.ReduceMax(row, b.i64([0]), keepdims=1))
    scale = b.Sqrt(b.Abs(b.Cast(other, to=T.FLOAT)))
    return b.Mul(b.Softmax(longer(b, b.Exp(best)), axis=0), scale)


def longer(b: B, x: Value) -> Value:
    """Enough nodes for a table."""
    for op_type in ("Sin", "Cos", "Tanh", "Atan"):
        x = b.op(op_type, x)
    return x


def scored(b: B, i: Value, x: Value, y: Value) -> Value:
    row = longer(b, b.Gather(x, i, axis=0))
    total = b.ReduceSum(b.Mul(row, row), b.i64([0]), keepdims=1)
    return b.Div(b.Exp(row), b.Add(b.Sqrt(total), b.scalar(1, T.FLOAT)))


def few(b: B, i: Value, x: Value, y: Value) -> Value:
    return longer(b, b.Exp(b.Sin(b.Gather(x, i, axis=0))))


def two_places(b: B, i: Value, x: Value, y: Value) -> Value:
    """Six nodes are computed from each of two rows, by places that may differ."""
    following = b.Mod(b.Add(i, b.const(np.int32(1))), b.const(np.int32(5)))
    rows = [b.Gather(x, each, axis=0) for each in (i, following)]
    left, right = (longer(b, b.Sin(b.Exp(row))) for row in rows)
    return b.Mul(left, right)


def may_fail(b: B, i: Value, x: Value, y: Value) -> Value:
    """Another row may have a 0, and the loop never reads it."""
    row = b.Gather(y, i, axis=0)
    inverse = b.Div(b.const(np.int32(9)), b.Max(row, b.const(np.int32(1))))
    return longer(b, longer(b, b.Cast(b.Neg(b.Abs(b.Neg(b.Add(inverse, inverse)))), to=T.FLOAT)))


def of_a_state(b: B, i: Value, x: Value, y: Value) -> Value:
    row = b.Gather(b.Neg(b.Add(x, b.Cast(i, to=T.FLOAT))), i, axis=0)
    return longer(b, longer(b, row))


def rewritten(score: Score, count: int = 4, inputs: dict[str, np.ndarray] = INPUTS) -> LoopRewrite:
    def build(b: B, x: Value, y: Value, start: Value) -> list[Value]:
        def trip(n: Value, i: Value, total: Value) -> tuple[list[Value], list[Value]]:
            row = score(b, i, x, y)
            following = b.Mod(b.Add(b.Mul(i, i), b.const(np.int32(1))), b.const(np.int32(5)))
            return [following, b.Add(total, row)], [row]

        sizes = {INPUTS["x"].shape: [3], LANES["x"].shape: [2, 3]}[inputs["x"].shape]
        zeros = b.const(np.zeros(sizes, np.float32))
        return [b.Neg(each) for each in loop(b, count, [start, zeros], trip, stopped=True)]

    return LoopRewrite(build, inputs, RowTables(), tolerance=1e-6)


@pytest.mark.parametrize(("score", "gathers"), [(weighted, 2), (scored, 1)])
def test_tables(score: Score, gathers: int) -> None:
    """The places of `weighted` are equal only if no bound changes one of them."""
    rewrite = rewritten(score)
    assert rewrite.fired == {"row-tables": 1}
    assert rewrite.inside["Gather"] == gathers and not rewrite.inside["Exp"]


def test_one_place() -> None:
    def score(b: B, i: Value, x: Value, y: Value) -> Value:
        clipped = b.Clip(i, b.const(np.int32(0)), b.const(np.int32(4)))
        return weighted_at(b, place(b, i), clipped, x, y)

    rewrite = rewritten(score)
    assert rewrite.fired and rewrite.inside["Gather"] == 1 and not rewrite.inside["Softmax"]


def weighted_at(b: B, i: Value, j: Value, x: Value, y: Value) -> Value:
    row, other = b.Gather(x, i, axis=0), b.Gather(y, j, axis=0)
    best = longer(b, b.Sub(row, b.ReduceMax(row, b.i64([0]), keepdims=1)))
    return b.Mul(b.Softmax(b.Exp(best), axis=0), b.Sqrt(b.Abs(b.Cast(other, to=T.FLOAT))))


@pytest.mark.parametrize("score", [few, two_places, may_fail, of_a_state])
def test_stays(score: Score) -> None:
    assert not rewritten(score).fired


def in_lanes(mixed: bool) -> Score:
    def score(b: B, i: Value, x: Value, y: Value) -> Value:
        whole = b.reshape(place(b, i), [2, 1])
        row = b.GatherND(x, whole, batch_dims=1)
        clipped = b.Clip(i, b.const(np.int32(0)), b.const(np.int32(4)))
        number = b.GatherElements(y, b.reshape(clipped, [2, 1]), axis=1)
        number = b.Cast(b.Abs(number), to=T.FLOAT)
        if mixed:
            row = b.Sub(row, b.ReduceMax(row, b.i64([0]), keepdims=1))
        scale = b.Sqrt(b.Add(b.ReduceSum(b.Mul(row, row), b.i64([1]), keepdims=1), number))
        return b.Mul(b.Softmax(longer(b, row), axis=-1), b.Exp(b.Abs(scale)))

    return score


def test_lanes() -> None:
    rewrite = rewritten(in_lanes(mixed=False), inputs=LANES)
    assert rewrite.fired == {"row-tables": 1}
    assert rewrite.inside["GatherND"] == 1
    assert rewrite.inside.keys().isdisjoint({"Softmax", "Sqrt", "GatherElements"})


def test_mixed_lanes() -> None:
    """A row of another place in one lane would change the largest number of both."""
    rewrite = rewritten(in_lanes(mixed=True), inputs=LANES)
    assert rewrite.inside["Softmax"] == rewrite.inside["ReduceMax"] == 1


def test_large_tables() -> None:
    large = INPUTS | {"x": np.tile(INPUTS["x"], (100, 1))}

    def build(b: B, x: Value, y: Value, start: Value) -> list[Value]:
        def trip(n: Value, i: Value, total: Value) -> tuple[list[Value], list[Value]]:
            return [b.Add(i, b.const(np.int32(1))), b.Add(total, scored(b, i, x, y))], []

        zeros = b.const(np.zeros(3, np.float32))
        return [b.Neg(each) for each in loop(b, 2, [start, zeros], trip, stopped=True)]

    assert not LoopRewrite(build, large, RowTables()).fired


def test_descent_in_a_tree() -> None:
    """Each trip goes to the child with the highest score, in each of three trees."""

    def run(visits: Array, values: Array, prior: Array, children: Array) -> tuple[Array, Array]:
        def descend(visits: Array, values: Array, prior: Array, children: Array) -> Array:
            def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
                node, depth = carry
                count = jnp.sqrt(visits[node].sum())
                score = values[node] + jax.nn.softmax(prior[node]) * count / (visits[node] + 1)
                return children[node, jnp.argmax(score)], depth + 1

            def going(carry: tuple[Array, Array]) -> Array:
                return (carry[0] >= 0) & (carry[1] < 6)

            return jnp.stack(lax.while_loop(going, step, (jnp.int32(0), jnp.int32(0))))

        return jax.vmap(descend)(visits, values, prior, children)  # type: ignore[no-any-return]

    values, prior = RNG.normal(size=(2, 3, 7, 2)).astype(np.float32)
    visits = RNG.integers(0, 5, size=(3, 7, 2)).astype(np.float32)
    children = np.array([[1, 2], [3, 4], [5, 6], *[[-1, -1]] * 4] * 3, np.int32).reshape(3, 7, 2)
    program = verified(run, visits, values, prior, children)
    assert program.report.rules["row-tables"] >= 1

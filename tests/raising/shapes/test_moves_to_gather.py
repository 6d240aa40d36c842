"""Elements that several nodes of a body move are gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import lax, random
from loop_graphs import LoopRewrite, stepped
from rewriting import Rewrite
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of, static_shape
from hlo2onnx.raising.rules.shapes.moves_to_gather import MovesToGather

Value = oir.Value
Step = Callable[[GraphBuilder, Value], Value]

X = np.arange(6, dtype=np.float32)
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


def halves(b: GraphBuilder, x: Value, axis: int = 0) -> list[Value]:
    size = (static_shape(x) or ())[axis]
    sizes = b.i64([size // 2, size - size // 2])
    return list(b.outputs("Split", x, sizes, axis=axis, n_outputs=2))


def part(b: GraphBuilder, x: Value, start: int, stop: int) -> Value:
    return b.slice(x, [start], [stop], axes=[0])


def words(b: GraphBuilder, x: Value) -> Value:
    """Two vectors are stacked, as the words of keys are, and taken apart again."""
    first, second = b.Neg(x), b.Abs(x)
    stacked = b.concat([b.reshape(first, [6, 1]), b.reshape(second, [6, 1])], 1)
    upper, lower = halves(b, stacked)
    return b.Mul(b.reshape(upper, [6]), b.reshape(lower, [6]))  # type: ignore[no-any-return]


FIRES: dict[str, tuple[Step, np.ndarray, dict[str, int]]] = {
    "repeated": (
        lambda b, x: b.Neg(b.reshape(b.expand(b.reshape(part(b, x, 0, 3), [3, 1]), [3, 2]), [6])),
        X,
        {"Gather": 1, "Neg": 1},
    ),
    "a scalar": (
        lambda b, x: b.Mul(x, b.reshape(b.slice(x, [2], [3]), [])),
        X,
        {"Gather": 1, "Mul": 1},
    ),
    "rows": (
        lambda b, x: b.Neg(b.concat([part(b, x, 2, 3), part(b, x, 0, 2)], 0)),
        MATRIX,
        {"Gather": 1, "Neg": 1},
    ),
    "columns": (
        lambda b, x: b.Neg(b.concat(halves(b, x, 1)[::-1], 1)),
        MATRIX,
        {"Gather": 1, "Neg": 1},
    ),
    "a reshape": (
        lambda b, x: b.Neg(b.transpose(b.transpose(b.reshape(x, [2, 3]), [1, 0]), [1, 0])),
        X,
        {"Reshape": 1, "Neg": 1},
    ),
    "words of keys": (
        words,
        X,
        {"Neg": 1, "Abs": 1, "Concat": 1, "Gather": 2, "Mul": 1},
    ),
    "parts of one tensor": (
        lambda b, x: b.concat(
            [b.Neg(y) for y in halves(b, b.reshape(b.reshape(b.Abs(x), [2, 3]), [6]))], 0
        ),
        X,
        {"Abs": 1, "Split": 1, "Neg": 2, "Concat": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRES)
def test_moves(name: str) -> None:
    step, x, inside = FIRES[name]
    rewrite = stepped(step, x, MovesToGather())
    assert rewrite.fired
    assert rewrite.inside == inside


STAYS: dict[str, tuple[Step, np.ndarray]] = {
    "one move": (lambda b, x: b.Neg(b.concat([x], 0)), X),
    "as many nodes": (
        lambda b, x: b.Neg(b.concat([b.Abs(x), b.Exp(x)], 0)), X
    ),
    "many elements": (
        lambda b, x: b.Neg(b.concat(halves(b, x)[::-1], 0)),
        np.zeros(257, np.float32),
    ),
    "a computed place": (
        lambda b, x: b.Neg(b.Gather(b.concat([x, x], 0), b.Cast(x, to=7), axis=0)),
        X,
    ),
    "computed between": (
        lambda b, x: b.concat([b.Neg(y) for y in halves(b, x)], 0),
        X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    step, x = STAYS[name]

    def kept(b: GraphBuilder, s: Value) -> Value:
        y = step(b, s)
        return y if shape_of(y) == shape_of(s) else b.slice(y, [0], list(x.shape))

    stepped(kept, x, MovesToGather()).nothing()


def test_the_main_graph_runs_each_node_once() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        return FIRES["repeated"][0](b, x)

    Rewrite(build, {"x": X}, MovesToGather()).nothing()


def test_only_what_leads_to_one_move() -> None:
    """The Concat would take more nodes: it stays, with the Transpose that it reads."""

    def step(b: GraphBuilder, x: Value) -> Value:
        turned = b.transpose(b.Abs(x), [1, 0])
        both = b.concat([turned, b.Neg(turned)], 1)
        row = b.reshape(b.slice(b.reshape(turned, [12]), [2], [6]), [1, 4])
        return b.Add(b.Mul(x, row), b.ReduceSum(both, b.i64([0, 1]), keepdims=1))  # type: ignore[no-any-return]

    rewrite = stepped(step, MATRIX, MovesToGather())
    assert rewrite.fired
    kept = {"Abs", "Transpose", "Neg", "Concat", "Reshape", "Gather", "Mul", "Add", "ReduceSum"}
    assert rewrite.inside == dict.fromkeys(kept, 1)


def moved(rng: np.random.Generator, b: GraphBuilder, values: list[Value]) -> None:
    """Adds a value with elements of some of these."""
    x = values[rng.integers(len(values))]
    dims = static_shape(x) or ()
    kind = rng.integers(8)
    axis = int(rng.integers(len(dims))) if dims else 0
    if kind == 0:
        y = values[rng.integers(len(values))]
        flat = [b.reshape(z, [int(np.prod(static_shape(z) or (1,)))]) for z in (x, y)]
        values.append(b.concat(flat, 0))
    elif kind == 1:
        values.append(b.unsqueeze(x, [int(rng.integers(len(dims) + 1))]))
    elif kind == 2 and dims:
        values.append(b.transpose(x, rng.permutation(len(dims)).tolist()))
    elif kind == 3 and dims and dims[axis] > 1:
        values.extend(halves(b, x, axis))
    elif kind == 4 and dims:
        index = rng.integers(-dims[axis], dims[axis], rng.integers(1, 3, rng.integers(3)))
        values.append(b.Gather(x, b.const(np.asarray(index, np.int64)), axis=axis))
    elif kind == 5 and dims:
        step = int(rng.choice([1, 2, -1]))
        start, end = (0, dims[axis]) if step > 0 else (dims[axis] - 1, -dims[axis] - 1)
        values.append(b.slice(x, [start], [end], [step], [axis]))
    elif kind == 6:
        values.append(b.expand(x, [int(rng.integers(1, 3)), *dims]))
    else:
        values.append(b.reshape(x, [int(np.prod(dims or (1,)))]))


@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("seed", range(12))
def test_random_moves(seed: int, dtype: Any) -> None:
    """The results are the same, whatever is moved and read."""
    rng = np.random.default_rng([seed, np.dtype(dtype).num])
    x = rng.integers(0, 9, (2, 3)).astype(dtype)

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        kept: list[Value] = []
        with b.subgraph([], "then") as then:
            values = [b.Identity(x), b.Identity(x)]
            for _ in range(int(rng.integers(2, 9))):
                moved(rng, b, values)
                if int(np.prod(static_shape(values[-1]) or (1,))) > 96:
                    values.pop()
            kept = [y for y in values if not y.uses() or rng.random() < 0.2]
            then.outputs.extend([b.Cast(y, to=int(oir.DataType.FLOAT)) for y in kept])
        with b.subgraph([], "else") as other:
            zeros = [b.const(np.zeros(static_shape(y) or (), np.float32)) for y in kept]
            other.outputs.extend([b.Identity(y) for y in zeros])
        flat = b.reshape(b.Cast(x, to=int(oir.DataType.FLOAT)), [6])
        going = b.Less(b.ReduceMax(flat, b.i64([0]), keepdims=0), b.const(np.float32(99)))
        types = [(oir.DataType.FLOAT, shape_of(y)) for y in kept]
        graphs = {"then_branch": then, "else_branch": other}
        return list(b.node("If", [going], graphs, types))

    LoopRewrite(build, {"x": x}, MovesToGather())


@pytest.mark.wide
def test_keys_that_are_split_in_each_trip() -> None:
    def draws(key: Any, limit: Any) -> Any:
        def body(state: Any) -> Any:
            key, total = state
            key, part, other = random.split(key, 3)
            return key, total + random.normal(part, (2,)) * random.uniform(other)

        going = lambda state: state[1][0] < limit  # noqa: E731
        return lax.while_loop(going, body, (key, jnp.zeros(2)))

    args = (jax.random.PRNGKey(3), np.float32(2))
    program = verified(draws, *args)
    without = verified(draws, *args, without=["moves-to-gather"])
    assert program.report.rules["moves-to-gather"]
    assert program.report.nodes.total() < without.report.nodes.total() - 8

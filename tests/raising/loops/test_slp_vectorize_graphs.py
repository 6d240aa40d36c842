"""Rows of single loops that are computed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from loop_graphs import (
    LoopRewrite,
    loop,
    number,
    numbers,
)
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import shape_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.loops import slp_vectorize
from hlo2onnx.raising.rules.loops.horizontal_fusion import HorizontalFusion
from hlo2onnx.raising.rules.loops.slp_vectorize import SlpVectorize
from hlo2onnx.raising.rules.shapes.scatter_to_pad import ScatterToPad
from hlo2onnx.targets import load_target

FLOAT = oir.DataType.FLOAT
Value = oir.Value
Row = Callable[[GraphBuilder, Value], Value]


def rows_of(b: GraphBuilder, s: Value) -> list[Value]:
    return [b.slice(s, [k], [k + 1], axes=[0]) for k in range(shape_of(s)[0])]


def lorenz(b: GraphBuilder, s: Value) -> Value:
    x, y, z = rows_of(b, s)
    return b.concat([
        b.Mul(number(b, 8), b.Sub(y, x)),
        b.Sub(b.Mul(x, b.Sub(number(b, 28), z)), y),
        b.Sub(b.Mul(x, y), b.Mul(number(b, 2), z)),
    ], 0)  # fmt: skip


def exchanged(b: GraphBuilder, s: Value) -> Value:
    """Two products of the same rows in another order."""
    x, y = rows_of(b, s)
    return b.concat([b.Mul(x, y), b.Mul(y, x)], 0)


PACKED: dict[str, tuple[Row, tuple[int, ...], bool]] = {
    "lorenz": (lambda b, s: b.Add(s, b.Mul(number(b, 0.25), lorenz(b, s))), (3, 4), True),
    "exchanged": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 4), True),
    "negated": (
        lambda b, s: (lambda r: b.concat([b.Neg(r[1]), b.Add(r[0], r[1])], 0))(rows_of(b, s)),
        (2, 4),
        True,
    ),
    "as-large-as-fits": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 128), True),
    "large": (lambda b, s: b.Sub(s, exchanged(b, s)), (2, 129), False),
    "one-row": (lambda b, s: b.Add(s, b.concat(rows_of(b, s), 0)), (1, 4), False),
    "another-operator": (
        lambda b, s: (lambda r: b.concat([b.Div(r[0], r[1]), b.Mul(r[1], r[0])], 0))(
            rows_of(b, b.Add(s, number(b, 9)))
        ),
        (2, 4),
        False,
    ),
    "of-columns": (
        lambda b, s: b.transpose(exchanged(b, b.transpose(s, [1, 0])), [1, 0]),
        (4, 2),
        False,
    ),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed(name: str) -> None:
    of, shape, fires = PACKED[name]

    def build(b: GraphBuilder, s: Value) -> Any:
        return [b.Neg(x) for x in loop(b, 3, [s], lambda i, s: ([of(b, s)], [s]))]

    run = LoopRewrite(
        build, {"s": np.random.default_rng(0).normal(size=shape).astype(np.float32)}, SlpVectorize()
    )
    assert bool(run.fired) == fires
    if fires:
        assert not run.inside["Slice"] and not run.inside["Concat"]


def test_no_rule_of_bodies_looks_outside_of_them() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        ends = [b.slice(x, [1], [2], axes=[1]), b.Identity(b.slice(x, [1], [5], axes=[1]))]
        return b.concat(ends, 1)

    rules = (ScatterToPad(), HorizontalFusion())
    LoopRewrite(build, {"x": numbers(3, 5)}, *rules).nothing()


def rotated(b: GraphBuilder, s: Value) -> Value:
    """Every row times the next one."""
    rows = rows_of(b, s)
    return b.concat([b.Mul(x, y) for x, y in zip(rows, [*rows[1:], rows[0]], strict=True)], 0)


@pytest.mark.parametrize(("rows", "fires"), [(2, True), (6, True), (7, False)])
def test_numbers_of_rows(rows: int, fires: bool) -> None:
    def build(b: GraphBuilder, s: Value) -> Any:
        return loop(b, 2, [s], lambda i, s: ([b.Sub(s, rotated(b, s))], []))

    run = LoopRewrite(build, {"s": np.ones((rows, 3), np.float32)}, SlpVectorize())
    assert bool(run.fired) == fires


def halves_joined_beside(b: GraphBuilder, s: Value) -> Value:
    """Columns of a square state, which are joined as columns."""
    x, y = (b.slice(s, [k], [k + 1], axes=[1]) for k in range(2))
    return b.concat([b.Mul(x, y), b.Mul(y, x)], 1)


def rows_joined_beside(b: GraphBuilder, s: Value) -> Value:
    """Rows of a square state, which are turned and joined as columns."""
    x, y = (b.reshape(row, (2, 1)) for row in rows_of(b, s))
    return b.concat([b.Mul(x, y), b.Mul(y, x)], 1)


def of_two_rows_each(b: GraphBuilder, s: Value) -> Value:
    low, high = (b.slice(s, [k], [k + 2], axes=[0]) for k in (0, 2))
    return b.concat([b.Mul(low, high), b.Mul(high, low)], 0)


@pytest.mark.parametrize("of", [halves_joined_beside, rows_joined_beside, of_two_rows_each])
def test_other_pieces_stay(of: Row) -> None:
    def build(b: GraphBuilder, s: Value) -> Any:
        return loop(b, 2, [s], lambda i, s: ([b.Sub(s, of(b, s))], []))

    shape = (4, 2) if of is of_two_rows_each else (2, 2)
    LoopRewrite(build, {"s": numbers(*shape)}, SlpVectorize()).nothing()


READ: dict[str, Callable[..., Any]] = {
    "product-stacked": lambda b, s, p, new: ([new], [p]),
    "product-computed-with": lambda b, s, p, new: ([new], [b.Abs(p)]),
    "product-copied": lambda b, s, p, new: ([new], [b.Identity(p)]),
    "state-computed-with": lambda b, s, p, new: ([new], [b.Abs(s)]),
    "new-state-computed-with": lambda b, s, p, new: ([new], [b.Abs(new)]),
}


@pytest.mark.parametrize("name", READ)
def test_rows_and_states_that_are_read_elsewhere_stay(name: str) -> None:
    def build(b: GraphBuilder, s: Value) -> Any:
        def step(i: Value, s: Value) -> Any:
            x, y = rows_of(b, s)
            product = b.Mul(x, y)
            return READ[name](b, s, product, b.Sub(s, b.concat([product, b.Mul(y, x)], 0)))

        return loop(b, 2, [s], step)

    LoopRewrite(build, {"s": numbers(2, 3)}, SlpVectorize()).nothing()


def test_a_state_that_another_one_becomes_stays() -> None:
    def build(b: GraphBuilder, s: Value) -> Any:
        def step(i: Value, s: Value, t: Value) -> Any:
            return [b.Sub(s, exchanged(b, s)), b.Identity(s)], [b.Abs(t)]

        return loop(b, 2, [s, b.Neg(s)], step)

    LoopRewrite(build, {"s": numbers(2, 3)}, SlpVectorize()).nothing()


def left(step: Row, shape: tuple[int, ...] = (2, 3)) -> LoopRewrite:
    """A loop whose state becomes step(state)."""

    def build(b: GraphBuilder, s: Value) -> Any:
        return loop(b, 2, [s], lambda i, s: ([step(b, s)], []))

    return LoopRewrite(build, {"s": numbers(*shape)}, SlpVectorize())


STAYS: dict[str, Row] = {
    "rows-of-constants-would-move": lambda b, s: b.Add(
        b.Add(s, b.const(np.float32(1))), of_scalars(b, s)
    ),
    "one-row": lambda b, s: b.Add(
        s, b.op("Concat", b.Mul(s_row(b, s), b.Add(s_row(b, s), s_row(b, s))), axis=0)
    ),
}


def s_row(b: GraphBuilder, s: Value) -> Value:
    return b.op("Slice", s, b.i64([0]), b.i64([1]), b.i64([0]), types=[(FLOAT, (1, 3))])  # type: ignore[no-any-return]


def of_scalars(b: GraphBuilder, s: Value) -> Value:
    """Products of rows, one of them with a number."""
    x, y = rows_of(b, s)
    return b.concat([b.Mul(x, y), b.Mul(y, number(b, 5))], 0)


@pytest.mark.parametrize("name", STAYS)
def test_states_that_stay(name: str) -> None:
    left(STAYS[name], (1, 3) if name == "one-row" else (2, 3)).nothing()


def test_constants_are_rows_below() -> None:
    run = left(lambda b, s: b.Sub(s, of_scalars(b, s)))
    assert run.fired
    assert run.outside["Concat"] == 1
    assert run.outside["Slice"] == 1


def test_nothing_is_joined_where_no_constants_are_needed() -> None:
    run = left(lambda b, s: b.Sub(s, exchanged(b, s)))
    assert run.fired
    assert not run.outside["Concat"] + run.outside["Slice"]
    assert run.nodes["Identity"] == 2  # of the flag and of the model's output


def test_whole_states_are_not_gathered() -> None:
    run = left(lambda b, s: b.Sub(s, exchanged(b, s)))
    assert run.inside["Gather"] == 1  # the rows in another order


def test_rows_that_are_cut_by_what_is_computed_stay() -> None:
    def build(b: GraphBuilder, s: Value) -> Any:
        def step(i: Value, s: Value) -> Any:
            zero = b.unsqueeze(b.Mul(i, b.i64(0)), [0])
            types = [(FLOAT, (1, 3))]
            x = b.op("Slice", s, zero, b.i64([1]), b.i64([0]), types=types)
            y = b.slice(s, [1], [2], axes=[0])
            return [b.Sub(s, b.concat([b.Mul(x, y), b.Mul(y, x)], 0))], []

        return loop(b, 2, [s], step)

    LoopRewrite(build, {"s": numbers(2, 3)}, SlpVectorize()).nothing()


def packed_body(step: Row) -> oir.Graph:
    """The body that the rule makes, as it leaves it."""

    def build(b: GraphBuilder, s: Value) -> Any:
        def named(i: Value, s: Value) -> Any:
            s.name = "position"
            return [step(b, s)], [s]

        return loop(b, 2, [s], named)

    model = model_of(build, {"s": numbers(2, 3)})
    assert apply_rules(model, [SlpVectorize()], load_target("ort-cpu"))
    (node,) = (node for node in model.graph if node.op_type == "Loop")
    return node.attributes["body"].as_graph()


def test_nothing_of_the_body_before_is_left_and_states_keep_their_names() -> None:
    body = packed_body(lambda b, s: b.Sub(s, exchanged(b, s)))
    assert all(any(x.uses() or x.is_graph_output() for x in node.outputs) for node in body)
    assert str(body.inputs[2].name).startswith("position")


@pytest.mark.parametrize(("most", "fires"), [(0, True), (-1, False)])
def test_large_bodies_stay(monkeypatch: pytest.MonkeyPatch, most: int, fires: bool) -> None:
    nodes: list[int] = []

    def build(b: GraphBuilder, s: Value) -> Any:
        made = loop(b, 2, [s], lambda i, s: ([b.Sub(s, exchanged(b, s))], []))
        nodes.append(len(made[0].producer().attributes["body"].as_graph()))  # type: ignore[union-attr]
        monkeypatch.setattr(slp_vectorize, "MOST_NODES", nodes[0] + most)
        return made

    assert bool(LoopRewrite(build, {"s": numbers(2, 3)}, SlpVectorize()).fired) == fires

"""States that a loop keeps in lanes that have ended, where nothing reads them any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from jax import Array, lax
from loop_graphs import LoopRewrite, loop
from verified import verified

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.loops.unmask_state import UnmaskState

T = oir.DataType
Value = oir.Value
B = GraphBuilder
TABLE = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
INPUTS = {
    "k": np.array([[1, 2], [3, 4], [0, 9]], np.int32),
    "h": np.array([1, -3, 5], np.float32),
    "table": TABLE,
}
Read = Callable[[B, Value, Value, Value, Value], Value]
"""`read(b, k, h, mask, table)` gives what h may become."""


def column(b: B, k: Value) -> Value:
    return b.Cast(b.reshape(b.slice(k, [1], [2], axes=[1]), [3]), to=T.FLOAT)


def by_column(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    return b.Add(h, column(b, k))


def by_moves(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    """Reductions, moves and products within a lane."""
    wide = b.concat([k, b.Neg(k)], 1)
    turned = b.transpose(b.reshape(wide, [3, 2, 2]), [0, 2, 1])
    first, _ = b.outputs("Split", turned, b.i64([1, 1]), axis=1, n_outputs=2)
    whole = b.expand(b.unsqueeze(b.ReduceMax(first, b.i64([2]), keepdims=0), [2]), [3, 1, 4])
    kept = b.Gather(whole, b.i64([3, 0]), axis=2)
    best = b.ArgMax(b.Softmax(b.Cast(kept, to=T.FLOAT), axis=2), axis=-1, keepdims=0)
    return b.Add(h, b.reshape(b.Cast(best, to=T.FLOAT), [3]))


def clamped(high: list[int], signed: bool = True) -> Read:
    """An element of the lane's table, at a place that is held within these bounds."""

    def read(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
        low = b.Max(k, b.const(np.int32(0))) if signed else b.Mod(k, b.const(np.int32(2)))
        place = b.Cast(b.Min(low, b.const(np.array(high, np.int32))), to=T.INT64)
        return b.Add(h, b.GatherND(table, place, batch_dims=1))

    return read


def mixed(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    return b.Add(h, b.ReduceMax(column(b, k), b.i64([0]), keepdims=1))


def turned(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    return b.Add(h, b.Gather(column(b, k), b.i64([2, 1, 0]), axis=0))


def broadcast(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    """The lanes of the operand become columns."""
    square = b.Add(b.reshape(h, [3, 1]), column(b, k))
    return b.ReduceMax(square, b.i64([1]), keepdims=0)


def divided(b: B, k: Value, h: Value, mask: Value, table: Value) -> Value:
    """It fails if a lane that has ended divides by 0."""
    part = b.slice(k, [0], [1], axes=[1])
    odd = b.Max(b.BitwiseOr(part, b.const(np.int32(1))), b.const(np.int32(1)))
    return b.Add(h, b.Cast(b.reshape(b.Div(part, odd), [3]), to=T.FLOAT))


FIT: dict[str, Read] = {"column": by_column, "moves": by_moves, "gather": clamped([3, 1])}
UNFIT: dict[str, Read] = {
    "lanes are mixed": mixed,
    "lanes change places": turned,
    "lanes become columns": broadcast,
    "a division may fail": divided,
    "a place may be negative": clamped([3, 1], signed=False),
}


def run(read: Read, mask: str = "state", use: str = "kept", unread: bool = True) -> LoopRewrite:
    """A loop of four trips on keys k, numbers h and flags of lanes.

    Args:
        mask: How the mask comes about.
        use: How h uses k.
        unread: Whether nothing reads k after the loop.
    """

    def build(b: B, k: Value, h: Value, table: Value) -> list[Value]:
        def trip(i: Value, k: Value, h: Value, flag: Value) -> tuple[list[Value], list[Value]]:
            small = b.Less(h, b.scalar(6, T.FLOAT))
            late = b.Less(i, b.i64(2))
            is_on = {"state": flag, "numbers": small, "trip": b.And(small, late)}.get(mask, flag)
            wide = b.reshape(is_on, [3, 1])
            new = read(b, k, h, is_on, table)
            following = b.Where(wide, b.Add(b.Mul(k, b.const(np.int32(3))), k), k)
            kept = {
                "kept": lambda: b.Where(is_on, new, h),
                "other": lambda: b.Where(b.Not(flag), new, h),
                "unmasked": lambda: new,
                "both sides": lambda: b.Where(is_on, h, b.Add(new, h)),
                "stacked": lambda: b.Where(is_on, new, h),
            }[use]()
            going = b.Less(kept, b.scalar(6, T.FLOAT))
            ended = b.And(flag, going) if mask != "restarted" else going
            rows = [column(b, k)] if use == "stacked" else []
            return [following, kept, ended], rows

        flags = b.const(np.array([True, True, True]))
        made = loop(b, 4, [k, h, flags], trip)
        read_after = [b.Neg(made[0])] if not unread else []
        return [*read_after, b.Neg(made[1]), b.Not(made[2]), *map(b.Neg, made[3:])]

    return LoopRewrite(build, INPUTS, UnmaskState())


@pytest.mark.parametrize("mask", ["state", "numbers"])
@pytest.mark.parametrize("name", FIT)
def test_keys_run_freely(name: str, mask: str) -> None:
    rewrite = run(FIT[name], mask)
    assert rewrite.fired == {"unmask-state": 1}
    assert rewrite.inside["Where"] == 1


@pytest.mark.parametrize("name", UNFIT)
def test_other_lanes(name: str) -> None:
    assert not run(UNFIT[name]).fired


@pytest.mark.parametrize("use", ["other", "unmasked", "both sides", "stacked"])
def test_lanes_that_ended_are_read(use: str) -> None:
    assert not run(by_column, use=use).fired


def test_places_beyond_the_table() -> None:
    """The bound of the second place is that of the first one."""

    def build(b: B, k: Value, h: Value, table: Value) -> list[Value]:
        def trip(i: Value, k: Value, h: Value, m: Value) -> tuple[list[Value], list[Value]]:
            low = b.Max(b.Mod(k, b.const(np.int32(2))), b.const(np.int32(0)))
            place = b.Cast(b.Min(low, b.const(np.array([3, 3], np.int32))), to=T.INT64)
            new = b.Add(h, b.GatherND(table, place, batch_dims=1))
            following = b.Where(b.reshape(m, [3, 1]), b.Add(k, k), k)
            kept = b.Where(m, new, h)
            return [following, kept, b.And(m, b.Less(kept, b.scalar(6, T.FLOAT)))], []

        made = loop(b, 3, [k, h, b.const(np.array([True, True, True]))], trip)
        return [b.Neg(made[1]), b.Not(made[2])]

    assert not LoopRewrite(build, INPUTS, UnmaskState()).fired


@pytest.mark.parametrize("whole", ["columns", "rows"])
def test_square_states(whole: str) -> None:
    """A mask of three lanes that Expand repeats holds for columns, not for lanes."""

    def build(b: B, k: Value, h: Value) -> list[Value]:
        def trip(i: Value, k: Value, h: Value, m: Value) -> tuple[list[Value], list[Value]]:
            lanes = m if whole == "columns" else b.reshape(m, [3, 1])
            wide = b.expand(lanes, [3, 3])
            following = b.Where(wide, b.Add(k, k), k)
            kept = b.Where(wide, b.Add(h, k), h)
            small = b.reshape(b.Less(b.slice(h, [0], [1], axes=[1]), b.scalar(4, T.FLOAT)), [3])
            return [following, kept, b.And(m, small)], []

        made = loop(b, 4, [k, h, b.const(np.array([True, True, True]))], trip)
        return [b.Neg(made[1]), b.Not(made[2])]

    square = np.array([[1, 2, 3], [0.5, 0.2, 0.1], [0, 9, 8]], np.float32)
    rewrite = LoopRewrite(build, {"k": square, "h": square}, UnmaskState())
    assert rewrite.fired == ({"unmask-state": 1} if whole == "rows" else {})


@pytest.mark.parametrize("mask", ["trip", "restarted"])
def test_lanes_may_start_again(mask: str) -> None:
    """`trip`: lanes end by the number of the trip, which changes where they have ended."""
    assert not run(by_column, mask).fired


def test_the_key_is_read_after_the_loop() -> None:
    assert not run(by_column, unread=False).fired


def walk(keys: Array, limits: Array) -> Any:
    """Random steps until a limit, in each lane."""

    def one(key: Array, limit: Array) -> Array:
        def step(carry: Any) -> Any:
            key, total = carry
            key, own = jax.random.split(key)
            return key, total + jax.random.uniform(own)

        return lax.while_loop(lambda s: s[1] < limit, step, (key, jnp.float32(0)))[1]

    return jax.vmap(one)(keys, limits)


def test_vmap() -> None:
    keys = np.arange(8, dtype=np.uint32).reshape(4, 2)
    limits = np.array([0, 1, 2.5, 0.2], np.float32)
    assert verified(walk, keys, limits).report.rules["unmask-state"] == 1

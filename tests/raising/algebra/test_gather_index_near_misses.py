"""Near misses of the rules for indices."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.algebra.gather_indices import (
    BoundsCheck,
    NegativeIndex,
    WidenIndex,
    counted_from_the_end,
)

T = oir.DataType
TABLE = np.arange(15, dtype=np.float32).reshape(5, 3)
INDICES = np.array([0, 4, 3, -1, -5, -2, 2, 1], np.int32)


def k(b: GraphBuilder, number: int, dtype: T = T.INT32) -> oir.Value:
    return b.scalar(number, dtype)


def clamped(b: GraphBuilder, i: oir.Value) -> oir.Value:
    return b.Clip(i, k(b, 0), k(b, 4))


def less(b: GraphBuilder, i: oir.Value) -> oir.Value:
    return b.Less(i, k(b, 0))


SHIFTS: dict[str, Build] = {
    "not chosen": lambda b, i: b.Add(i, k(b, 5)),
    "less than one": lambda b, i: b.Where(b.Less(i, k(b, 1)), b.Add(i, k(b, 5)), i),
    "at most": lambda b, i: b.Where(b.LessOrEqual(i, k(b, 0)), b.Add(i, k(b, 5)), i),
    "subtracted": lambda b, i: b.Where(less(b, i), b.Sub(i, k(b, -5)), i),
    "another is less": lambda b, i: b.Where(less(b, b.Neg(i)), b.Add(i, k(b, 5)), i),
    "another is shifted": lambda b, i: b.Where(less(b, i), b.Add(b.Neg(i), k(b, 5)), i),
    "another is kept": lambda b, i: b.Where(less(b, i), b.Add(i, k(b, 5)), b.Neg(i)),
    "the other way round": lambda b, i: b.Where(less(b, i), i, b.Add(i, k(b, 5))),
    "more axes": lambda b, i: b.Where(
        less(b, i), b.Add(i, b.const(np.array([[5]], np.int32))), i
    ),
    "twice": lambda b, i: b.Where(less(b, i), b.Add(i, i), i),
}  # fmt: skip


@pytest.mark.parametrize("name", SHIFTS)
def test_other_shifts(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, clamped(b, SHIFTS[name](b, i)), axis=0)  # type: ignore[arg-type]

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).nothing()


def test_the_order_of_the_sum() -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, clamped(b, b.Where(less(b, i), b.Add(k(b, 5), i), i)), axis=0)

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).gives("Clip", "Gather")


CLAMPS: dict[str, Build] = {
    "none": lambda b, x, w: b.Gather(x, w, axis=0),
    "from below": lambda b, x, w: b.Gather(x, b.Clip(w, k(b, 0)), axis=0),
    "shared inside": lambda b, x, w: [b.Gather(x, clamped(b, w), axis=0), b.Neg(w)],
    "free extent": lambda b, x, w: b.Gather(free(b, x, "n", 3), clamped(b, w), axis=0),
    "in another operator": lambda b, x, w: [
        (lambda c: [b.Gather(x, c, axis=0), b.Abs(c)])(clamped(b, w))
    ][0],
}


@pytest.mark.parametrize("name", CLAMPS)
def test_other_clamps(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return CLAMPS[name](b, x, b.Where(less(b, i), b.Add(i, k(b, 5)), i))  # type: ignore[return-value]

    Rewrite(build, {"x": TABLE, "i": INDICES}, NegativeIndex()).nothing()


def test_what_counts_from_the_end() -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        value = b.Where(less(b, i), b.Add(i, k(b, 5)), i)
        assert counted_from_the_end(value, 5) is i
        assert counted_from_the_end(value, 4) is None
        assert counted_from_the_end(i, 5) is None
        return b.Identity(value)

    Rewrite(build, {"i": INDICES}, NegativeIndex()).nothing()


# -- intervals and wide integers ----------------------------


def test_intervals_of_other_shapes_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    def larger(b: GraphBuilder, i: oir.Value) -> oir.Value:
        low = b.GreaterOrEqual(i, b.const(np.zeros((1, 1), np.int32)))
        return b.Not(b.And(low, b.LessOrEqual(i, k(b, 4))))

    def plain(b: GraphBuilder, i: oir.Value) -> oir.Value:
        return b.Not(b.And(b.GreaterOrEqual(i, k(b, 0)), b.LessOrEqual(i, k(b, 4))))

    Rewrite(larger, {"i": INDICES}, BoundsCheck()).nothing()
    Rewrite(plain, {"i": INDICES}, BoundsCheck()).gives("Clip", "Equal", "Not")
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    Rewrite(plain, {"i": INDICES}, BoundsCheck()).nothing()


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 4), (0, 5), (-5, 4)])
def test_an_interval_of_what_counts_from_the_end(low: int, high: int) -> None:
    """Only all of 0 to n - 1 is that of -n to n - 1 before."""

    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        w = b.Where(less(b, i), b.Add(i, k(b, 5)), i)
        return b.Not(b.And(b.LessOrEqual(w, k(b, high)), b.GreaterOrEqual(w, k(b, low))))

    more = ["Where", "Less", "Add"] if (low, high) != (0, 4) else []
    Rewrite(build, {"i": INDICES}, BoundsCheck()).gives("Clip", "Equal", "Not", *more)


BOUNDS: dict[str, Build] = {
    "less than all": lambda b, i: b.And(
        b.GreaterOrEqual(i, k(b, -(2**31))), b.Less(i, k(b, -(2**31)))
    ),
    "greater than all": lambda b, i: b.And(
        b.Greater(i, k(b, 2**31 - 1)), b.LessOrEqual(i, k(b, 2**31 - 1))
    ),
    "between neighbours": lambda b, i: b.And(b.Greater(i, k(b, 3)), b.Less(i, k(b, 4))),
    "two upper ones": lambda b, i: b.And(b.LessOrEqual(i, k(b, 3)), b.LessOrEqual(i, k(b, 4))),
    "two upper ones, one swapped": lambda b, i: b.And(
        b.GreaterOrEqual(k(b, 3), i), b.LessOrEqual(i, k(b, 4))
    ),
    "given": lambda b, i: b.And(b.IsNaN(b.cast(i, T.FLOAT)), b.LessOrEqual(i, k(b, 4))),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_other_bounds(name: str) -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        return b.Not(BOUNDS[name](b, i))

    Rewrite(build, {"i": INDICES}, BoundsCheck()).nothing()


def near(b: GraphBuilder, i: oir.Value, low: int = 0, high: int = 2) -> oir.Value:
    clipped = b.Clip(i, b.scalar(low, T.INT64), b.scalar(high, T.INT64))
    return b.Cast(clipped, to=T.INT32)


WIDE: dict[str, tuple[Build, list[str] | None]] = {
    "a cast": (lambda b, i: near(b, i), []),
    "a sum": (lambda b, i: b.Add(near(b, i), near(b, i)), ["Add"]),
    "a difference": (lambda b, i: b.Sub(k(b, 3), near(b, i)), ["Sub"]),
    "a product": (lambda b, i: b.Mul(near(b, i), k(b, 2)), None),
    "a cast of another type": (
        lambda b, i: b.Cast(b.Cast(near(b, i), to=T.INT8), to=T.INT32),
        None,
    ),
    "a sum with a narrow one": (lambda b, i: b.Add(near(b, i), b.Abs(near(b, i))), None),
    "a cast of anything": (lambda b, i: b.Cast(i, to=T.INT32), None),
    "a constant alone": (lambda b, i: k(b, 3), []),
    "an axis more": (lambda b, i: b.unsqueeze(near(b, i), [0]), ["Unsqueeze"]),
    "an axis more of a product": (lambda b, i: b.unsqueeze(b.Abs(near(b, i)), [0]), None),
    "an axis less": (lambda b, i: b.squeeze(b.unsqueeze(near(b, i), [0]), [0]), None),
    "wide already": (lambda b, i: b.Clip(i, b.scalar(0, T.INT64), b.scalar(4, T.INT64)), None),
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_indices(name: str) -> None:
    index, left = WIDE[name]

    def build(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Neg(b.Gather(x, index(b, i), axis=0))  # type: ignore[arg-type]

    rewrite = Rewrite(build, {"x": TABLE, "i": np.array(1)}, WidenIndex())
    if left is None:
        rewrite.nothing()
    else:
        assert rewrite.fired and rewrite.nodes["Cast"] == 0
        assert rewrite.nodes.total() - rewrite.nodes["Clip"] - 2 == len(left)


def test_wide_indices_of_another_axis_and_several() -> None:
    def another(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, near(b, i), axis=1)

    def several(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, b.Sub(near(b, i), b.const(np.zeros(2, np.int32))), axis=1)

    def added(b: GraphBuilder, x: oir.Value, i: oir.Value) -> oir.Value:
        return b.Gather(x, b.Sub(near(b, i), k(b, 0)), axis=1)

    for build, inputs in ((another, np.array(1)), (several, np.array(1)), (added, np.arange(3))):
        rewrite = Rewrite(build, {"x": TABLE, "i": inputs}, WidenIndex())
        rewrite.gives("Clip", "Gather") if build is another else rewrite.nothing()

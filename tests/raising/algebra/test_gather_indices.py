"""Negative indices are Gather's own; loops count in i64."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, rewrites
from rewriting import Rewrite
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
INDICES = np.array([0, 4, 5, -1, -5, -6, 2**31 - 1, -(2**31)], np.int32)
INSIDE = np.array([0, 4, 3, -1, -5, -2, 2, 1], np.int32)
INPUTS = {
    "x": TABLE, "i": INDICES, "j": INSIDE, "f": INDICES[3:8], "p": np.stack([INDICES[:5]] * 2, 1),
}  # fmt: skip


def back(b: GraphBuilder, i: oir.Value, count: int = 5) -> oir.Value:
    return b.Where(b.Less(i, b.scalar_like(0, i)), b.Add(i, b.scalar_like(count, i)), i)


def from_the_end(
    b: GraphBuilder, i: oir.Value, count: int = 5, bounds: tuple[int, int] = (0, 4)
) -> oir.Value:
    return b.Clip(back(b, i, count), b.scalar_like(bounds[0], i), b.scalar_like(bounds[1], i))


CONSTANTS = {
    "from_the_end": from_the_end,
    "back": back,
    "FIVE": np.array([[5]], np.int32),
    "ZEROS": np.zeros((2, 1), np.int32),
    "ZERO": np.zeros((1, 1), np.int32),
}
NEGATIVE: dict[str, str] = {
    "Gather(x, from_the_end(i), axis=0)": "Clip Gather",
    "Gather(x, from_the_end(Cast(i, INT64)), axis=0)": "Cast Clip Gather",
    "Gather(x, Clip(Where(Less(j, 0), 5 + j, j), 0, 4), axis=0)": "Clip Gather",
    "GatherElements(x, from_the_end(p, 3, (0, 2)), axis=1)": "Clip GatherElements",
    "GatherElements(x, reshape(from_the_end(f, 3, (0, 2)), (5, 1)), axis=1)":
        "Clip Reshape GatherElements",
    # Two Gathers share their indices.
    "(w := from_the_end(i), Gather(x, w, axis=0), Gather(Neg(x), w, axis=0))[1:]":
        "Clip Clip Gather Gather Neg",
    # Other numbers mean something else.
    "Gather(x, from_the_end(i, 4), axis=0)": NOTHING,
    "Gather(x, from_the_end(i, 5, (0, 3)), axis=0)": NOTHING,
    "Gather(x, from_the_end(i, 5, (1, 4)), axis=0)": NOTHING,
    # Others read the indices, or equal ones that are not merged yet.
    "(w := from_the_end(i), Gather(x, w, axis=0), Neg(w))[1:]": NOTHING,
    "(w := from_the_end(f, 3, (0, 2)), GatherElements(x, reshape(w, (5, 1)), axis=1), Neg(w))[1:]":
        NOTHING,
    "(Gather(x, from_the_end(i), axis=0), Neg(from_the_end(i)))": NOTHING,
    "(c := from_the_end(j), Gather(x, c, axis=0), Abs(c))[1:]": NOTHING,
    # Other clamps.
    "Gather(x, back(j), axis=0)": NOTHING,
    "Gather(x, Clip(back(j), 0), axis=0)": NOTHING,
    "(w := back(j), Gather(x, Clip(w, 0, 4), axis=0), Neg(w))[1:]": NOTHING,
    # Other shifts.
    **{f"Gather(x, Clip({text}, 0, 4), axis=0)": NOTHING for text in (
        "j + 5", "Where(Less(j, 1), j + 5, j)", "Where(LessOrEqual(j, 0), j + 5, j)",
        "Where(Less(j, 0), j - -5, j)", "Where(Less(Neg(j), 0), j + 5, j)",
        "Where(Less(j, 0), Neg(j) + 5, j)", "Where(Less(j, 0), j + 5, Neg(j))",
        "Where(Less(j, 0), j, j + 5)", "Where(Less(j, 0), j + FIVE, j)",
        "Where(Less(j, 0), j + j, j)",
    )},
}  # fmt: skip
LEAST, MOST = -(2**31), 2**31 - 1
BOUNDS: dict[str, str] = {
    **{f"And(GreaterOrEqual(i, {low}), LessOrEqual(i, {high}))": "Clip Equal"
       for low, high in ((0, 4), (-3, 3), (5, 5))},
    **{f"And(GreaterOrEqual({high}, i), LessOrEqual({low}, i))": "Clip Equal"
       for low, high in ((0, 4), (-3, 3), (5, 5))},
    **{f"And(Greater(i, {low}), Less(i, {high}))": "Clip Equal"
       for low, high in ((-1, 5), (2, 4), (LEAST, MOST))},
    **{f"And(Less({low}, i), Greater({high}, i))": "Clip Equal"
       for low, high in ((-1, 5), (2, 4), (LEAST, MOST))},
    # Only all of 0 to n - 1 is the interval -n to n - 1 before it counts from the end.
    "(w := back(j), And(LessOrEqual(w, 4), GreaterOrEqual(w, 0)))[1]": "Clip Equal",
    **{f"(w := back(j), And(LessOrEqual(w, {high}), GreaterOrEqual(w, {low})))[1]":
       "Clip Equal Where Less Add" for low, high in ((1, 4), (0, 5), (-5, 4))},
    **{f"And({pair})": NOTHING for pair in (
        "GreaterOrEqual(i, 0), GreaterOrEqual(i, 4)",
        "GreaterOrEqual(i, 5), LessOrEqual(i, 4)",
        "GreaterOrEqual(i, 0), LessOrEqual(Neg(i), 4)",
        "GreaterOrEqual(i, 0), LessOrEqual(i, Neg(i))",
        "GreaterOrEqual(i, ZEROS), LessOrEqual(i, 4)",
        "GreaterOrEqual(i, ZERO), LessOrEqual(i, 4)",
        f"GreaterOrEqual(i, {LEAST}), Less(i, {LEAST})",
        f"Greater(i, {MOST}), LessOrEqual(i, {MOST})",
        "Greater(i, 3), Less(i, 4)",
        "LessOrEqual(i, 3), LessOrEqual(i, 4)",
        "GreaterOrEqual(3, i), LessOrEqual(i, 4)",
        "IsNaN(Cast(i, FLOAT)), LessOrEqual(i, 4)",
        # Floats, and long integers that the target clips wrongly.
        "GreaterOrEqual(x, 0), LessOrEqual(x, 4)",
        "GreaterOrEqual(x, 0), LessOrEqual(x, inf)",
        "GreaterOrEqual(x, 0), LessOrEqual(x, nan)",
        "(l := Cast(i, INT64), GreaterOrEqual(l, 0))[1], LessOrEqual(l, 4)",
    )},
    "Or(GreaterOrEqual(i, 0), LessOrEqual(i, 4))": NOTHING,
}  # fmt: skip
CASES = [
    *((NegativeIndex(), text, left) for text, left in NEGATIVE.items()),
    *((BoundsCheck(), text, left) for text, left in BOUNDS.items()),
]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: NegativeIndex | BoundsCheck, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, constants=CONSTANTS)


def test_a_free_extent_and_a_target_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def gathered(b: GraphBuilder, x: oir.Value, j: oir.Value) -> oir.Value:
        return b.Gather(free(b, x, "n", 3), from_the_end(b, j), axis=0)

    Rewrite(gathered, {"x": TABLE, "j": INSIDE}, NegativeIndex()).nothing()
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    rewrites("And(GreaterOrEqual(i, 0), LessOrEqual(i, 4))", NOTHING, INPUTS, BoundsCheck())


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_inside_of_what_counts_from_the_end(dtype: type) -> None:
    text = (
        "(w := back(i), c := reshape(w, [8, 1]), And(GreaterOrEqual(c, 0), LessOrEqual(c, 4)),"
        " Gather(x, Clip(w, 0, 4), axis=0))[2:]"
    )
    inputs, rules = {"x": TABLE, "i": INDICES.astype(dtype)}, (BoundsCheck(), NegativeIndex())
    left = "Clip Equal Reshape Clip Gather"  # equal nodes are shared elsewhere
    rewrites(text, left, inputs, *rules, constants=CONSTANTS)


def test_what_counts_from_the_end() -> None:
    def build(b: GraphBuilder, i: oir.Value) -> oir.Value:
        value = back(b, i)
        assert counted_from_the_end(value, 5) is i
        assert counted_from_the_end(value, 4) is None
        assert counted_from_the_end(i, 5) is None
        return b.Identity(value)

    Rewrite(build, {"i": INSIDE}).nothing()


# -- wide integers --------------------------------------------------------------------------------

WIDE: dict[str, str] = {
    "Gather(x, near(n), axis=0)": "Clip Gather",
    "Gather(x, near(n), axis=1)": "Clip Gather",
    "Gather(x, near(n) + near(n), axis=0)": "Clip Clip Add Gather",
    "Gather(x, 3 - near(n), axis=0)": "Clip Sub Gather",
    "Gather(x, unsqueeze(near(n), [0]), axis=0)": "Clip Unsqueeze Gather",
    "Gather(x, scalar(3, INT32), axis=0)": "Gather",
    **{f"Gather(x, {text}, axis=0)": NOTHING for text in (
        "near(n) * 2", "Cast(Cast(near(n), INT8), INT32)", "near(n) + Abs(near(n))",
        "Cast(n, INT32)", "unsqueeze(Abs(near(n)), [0])", "squeeze(unsqueeze(near(n), [0]), [0])",
        "Clip(n, 0, 4)", "Clip(j, 0, 3) + 1",
    )},
    # Several, and those that may wrap.
    "Gather(x, near(n) - TWO, axis=1)": NOTHING,
    "Gather(x, near(r) - 0, axis=1)": NOTHING,
    "Gather(x, Cast(far, INT32), axis=0)": NOTHING,
    "Gather(x, Cast(Clip(n, 2147483647, 2147483647), INT32) + 2147483647, axis=0)": NOTHING,
}  # fmt: skip


@pytest.mark.parametrize("text", WIDE)
def test_wide_indices(text: str) -> None:
    near = lambda b, i: b.Cast(b.Clip(i, b.i64(0), b.i64(2)), to=T.INT32)  # noqa: E731
    numbers = {"n": np.array(1), "r": np.arange(3), "far": np.array(2**32 + 3)}
    inputs = {"x": TABLE, "j": INSIDE, **numbers}
    constants = {"near": near, "TWO": np.zeros(2, np.int32)}
    left = WIDE[text] if WIDE[text] == NOTHING else f"{WIDE[text]} Neg"
    rewrites(f"Neg({text})", left, inputs, WidenIndex(), constants=constants)

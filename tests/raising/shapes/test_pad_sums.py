"""Sums of padded tensors: what is joined, what is not, and that no bit changes."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, rewrites
from rewriting import Build, Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.pad_sums import PadSumToConcat

ROW = np.array([[-0.0, 0.0, np.nan, np.inf, 1.5]], np.float32)
ROWS = np.array([[0.0, -0.0, -0.0, 2.0, -np.inf], [3.0, -0.0, 1e-40, -1.0, 0.0]], np.float32)
MATRIX = np.array([[-0.0, 0.0, -1.5, 7.0, -0.0]] * 4, np.float32)
INPUTS = {"x": ROW, "y": ROWS, "z": ROW.copy(), "s": MATRIX, "t": MATRIX[:3]}


def rows(b: GraphBuilder, x: oir.Value, above: int, below: int, zero: float = 0.0) -> oir.Value:
    return b.Pad(x, b.i64([above, 0, below, 0]), b.scalar_like(zero, x))


CONSTANTS = {
    "rows": rows,
    "ONE": np.float32(1),
    "ZEROS": np.zeros(5, np.float32),
    "SOME": np.float32([0] * 4 + [3]),
    "MORE": np.zeros((1, 1, 1), np.float32),
}
JOINED: dict[str, str] = {
    "rows(x, 1, 2) + rows(y, 2, 0)": "Concat Pad Add",
    "rows(y, 2, 0) + rows(x, 1, 2)": "Concat Pad Add",
    "rows(x, 0, 2) + rows(y, 1, 0)": "Concat Add",
    "rows(x, 0, 3) + rows(y, 1, 1) + rows(z, 3, 0)": "Concat Add",
    "rows(z, 3, 0) + rows(y, 1, 1) + rows(x, 0, 3)": "Concat Add",
    "rows(x, 0, 3) + rows(z, 3, 0) + rows(y, 1, 1)": "Concat Add",
    # Added to a sum, in any order, which may have more axes or fewer.
    "s + rows(x, 0, 3) + rows(y, 1, 1)": "Concat Pad Add Add",
    "t + rows(x, 0, 2) + rows(y, 1, 0)": "Concat Add Add",
    "rows(y, 1, 0) + (rows(x, 0, 2) + t)": "Concat Add Add",
    "unsqueeze(t, [0]) + rows(x, 0, 2) + rows(y, 1, 0)": "Unsqueeze Concat Add Add",
    "slice(t, [0, 0], [1, 1]) + rows(x, 0, 2) + rows(y, 1, 0)": "Slice Concat Add Add",
    # What had its zero added, or something else.
    "rows(x, 0, 2) + 0 + rows(y, 1, 0)": "Concat Add",
    "rows(x, 0, 2) + ONE + rows(y, 1, 0)": "Concat Add Add",
    "rows(x, 0, 2) + ZEROS + rows(y, 1, 0)": "Concat Add Add",
    "rows(x, 0, 2) + SOME + rows(y, 1, 0)": "Concat Add Add",
    # A tensor padded with -0 is padded with 0 once 0 is added.
    "rows(x, 0, 2, -0.0) + 0.0 + rows(y, 1, 0, -0.0)": "Concat Add",
    "Pad(x, [1, 2, 3, 9], 0) + Pad(Neg(x), [1, 7, 3, 4], 0)": "Neg Concat Pad Add",
    # Reciprocals tell the zeros apart.
    "Reciprocal(rows(x, 0, 3) + rows(y, 1, 1))": "Concat Pad Add Reciprocal",
    "Reciprocal(rows(x, 0, 3, -0.0) + rows(y, 1, 1, -0.0))": "Concat Pad Reciprocal",
    "Reciprocal(s + rows(x, 0, 3) + rows(y, 1, 1))": "Concat Pad Add Add Reciprocal",
    "Reciprocal(s + rows(x, 0, 3, -0.0) + rows(y, 1, 1, -0.0))": "Concat Pad Add Reciprocal",
    "Reciprocal(rows(x, 1, 2) + rows(Neg(x), 1, 2))": "Neg Add Pad Reciprocal",
    "Reciprocal(rows(x, 1, 2, -0.0) + rows(Neg(x), 1, 2, -0.0))": "Neg Add Pad Reciprocal",
    # Parts that are joined already, along this axis or the other one.
    "rows(Concat(x, Neg(x), axis=0), 0, 2) + rows(y, 2, 0)": "Neg Concat Add",
    "rows(Concat(x, x, axis=1), 0, 2) + rows(Concat(y, y, axis=1), 1, 0)":
        "Concat Concat Concat Add",
    "(j := Concat(x, Neg(x), axis=0), rows(j, 0, 2) + rows(y, 2, 0), Abs(j))[1:]":
        "Neg Concat Concat Add Abs",
}  # fmt: skip
NEAR_MISSES = [
    "(p := rows(x, 0, 2), (p + rows(y, 1, 0)) * p)[1:]",
    "(p := rows(x, 0, 2), p + rows(y, 1, 0))",
    "(t1 := t + rows(x, 0, 2), (t1 + rows(y, 1, 0)) * t1)[1:]",
    "(t1 := t + rows(x, 0, 2), t1 + rows(y, 1, 0))",
    # A gap between them, overlapping, no zeros, and unlike zeros.
    "rows(x, 0, 3) + rows(y, 2, 0)",
    "rows(x, 1, 2) + rows(y, 1, 1)",
    "rows(x, 0, 3, 1.0) + rows(y, 1, 1, 1.0)",
    "rows(x, 0, 3) + rows(y, 1, 1, -0.0)",
    "Pad(x, [0, 0, 1, 5], 0) + Pad(z, [1, 5, 0, 0], 0)",
    "rows(x, 0, 2) + Pad(y, [1, 0, 0, 0], 0, mode='reflect')",
    "t + Neg(t) + rows(y, 1, 0)",
    "t * rows(x, 0, 2) + rows(y, 1, 0)",
    "t + rows(y, 1, 0)",
    "t + rows(x, 0, 2) + rows(x, 2, 0)",
    "rows(x, 0, 2) + Pad(reshape(y, (1, 2, 5)), [0, 1, 0, 0, 0, 0], 0)",
    "rows(x, 0, 2) + MORE + Pad(reshape(y, (1, 2, 5)), [0, 1, 0, 0, 0, 0], 0)",
    "rows(x, 0, 0) + rows(y, 1, 0)",
    "(rows(x, 0, 2) + t) * t + rows(y, 1, 0)",
    "Pad(x, [0, 0, 2, 0]) + Pad(y, [1, 0, 0, 0])",
    "Pad(Concat(x, x, axis=0), [0, 0, 2, 0], 0) + Pad(Concat(y, y, axis=0), [2, 0, -2, 0], 0)",
    "Pad(x, [0, 0, 2, 0], Neg(scalar(0, FLOAT))) + rows(y, 1, 0)",
    # -0 + 0 + -0 is +0.
    "Reciprocal(rows(x, 1, 2) + 0.0 + rows(Abs(Neg(x)), 1, 2))",
]
CASES = [*JOINED.items(), *((text, NOTHING) for text in NEAR_MISSES)]


@pytest.mark.parametrize(("text", "left"), CASES)
def test_expressions(text: str, left: str) -> None:
    rewrites(text, left, INPUTS, PadSumToConcat(), constants=CONSTANTS)


def test_integers_need_no_zero() -> None:
    inputs = {"x": np.array([[1, 2]], np.int32), "y": np.array([[3, 4], [5, 6]], np.int32)}
    text = "rows(x, 0, 2) + rows(y, 1, 0)"
    rewrites(text, "Concat", inputs, PadSumToConcat(), constants=CONSTANTS)


def padded(b: GraphBuilder, x: oir.Value, *operands: oir.Value | None) -> oir.Value:
    """x padded to three rows of five."""
    return b.op("Pad", x, *operands, types=[(x.dtype, (3, 5))])


def below(b: GraphBuilder, x: oir.Value) -> tuple[oir.Value, oir.Value]:
    return b.i64([0, 0, 2, 0]), b.scalar_like(0, x)


UNKNOWN: dict[str, Build] = {
    "along named axes": lambda b, x, y: b.Add(
        padded(b, x, b.i64([0, 2]), b.scalar_like(0, x), b.i64([0])),
        padded(b, y, b.i64([1, 0]), b.scalar_like(0, x), b.i64([0])),
    ),
    "free": lambda b, x, y: b.Add(padded(b, free(b, x, "n", 5), *below(b, x)), rows(b, y, 1, 0)),
    "computed pads": lambda b, x, y: b.Add(
        padded(b, x, b.Abs(below(b, x)[0]), b.scalar_like(0, x)), rows(b, y, 1, 0)
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_pads_that_are_not_known(name: str) -> None:
    Rewrite(UNKNOWN[name], {"x": ROW, "y": ROWS}, PadSumToConcat()).nothing()

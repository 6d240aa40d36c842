"""Graphs that no handler makes, but a rule may: operands left out, axes left out, nothing in them.

Whatever the rules make of them gives the same numbers.
"""

from __future__ import annotations

import numpy as np
import pytest
from expressions import graph
from rewriting import model_of, run_model

from hlo2onnx.raising import raise_model
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INPUTS = {"x": X, "v": X.reshape(-1), "nothing": np.zeros((0, 3), np.float32)}
CONSTANTS = {
    "COLUMNS": np.zeros((3, 0), np.float32),
    "FIVES": np.ones(5, np.float32),
    "ONE": X[0, 1],
    "HALF": np.full((1, 1, 1), 0.5, np.float32),
    "EPSILON": np.full((1, 1, 1), 1e-3, np.float32),
    "ONES": np.ones((1, 1, 1, 3), np.float32),
    "ZERO": np.zeros((1, 1, 1, 1), np.float32),
    "KNOWN": X,
    "NEXT": X + 1,
}
NORMAL = "(d := x - ReduceMean(x, [1], keepdims=1), d / Sqrt(ReduceMean(d * d, [1]) + {}))[1]"
ODD = [
    "Neg(Clip(reshape(x, (3, 2)), None, 2))",
    "Neg(Clip(transpose(x, (1, 0)), None, 2))",
    "reshape(MatMul(reshape(v, (2, 3)), COLUMNS), (0,))",
    "Exp(reshape(nothing, (0, 5)) + FIVES)",
    "Neg(ReduceMax(transpose(x, (1, 0)), [], noop_with_empty_axes=1, keepdims=0))",
    "ReduceSum(x, [], noop_with_empty_axes=1, keepdims=1) / 1",
    "Neg(ReduceSum(transpose(x, (1, 0)), keepdims=0))",
    "Neg(Max(reshape(x, (3, 2))))",
    "Max(reshape(x, (3, 2)), reshape(Neg(x), (3, 2)), ONE)",
    # Constants of more axes.
    f"HALF * x * (1 + Erf(x * {np.sqrt(0.5)}))",
    NORMAL.format("EPSILON"),
    f"{NORMAL.format('1e-3')} * ONES",
    "Max(ZERO, x) + 1",
    # Slices that end before the first element.
    "concat([Slice(NEXT, [0], [-100], [0]), Slice(KNOWN, [-9], [-100], [0], [-1]), Neg(x)], 0)",
]


@pytest.mark.parametrize("without", [(), ("fold-constants", "implicit-broadcast")])
@pytest.mark.parametrize("text", ODD)
def test_odd_graphs(text: str, without: tuple[str, ...]) -> None:
    model = model_of(graph(text, **CONSTANTS), INPUTS)
    before = run_model(model, INPUTS)
    raise_model(model, load_target("ort-cpu"), frozenset(without), Report())
    for new, old in zip(run_model(model, INPUTS), before, strict=True):
        np.testing.assert_allclose(new, old, rtol=2e-6, atol=1e-6)

"""Reshapes move towards their readers, and reductions keep their axes, where that is legal."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Rewrite, model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import symbol
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.raising.rules.algebra.constant_folding import FoldConstants
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes, EliminateNop, SinkReshape
from hlo2onnx.raising.rules.shapes.unit_dims import (
    MAX_BETWEEN,
    ReduceDropUnitDims,
    ReduceKeepdims,
    ReduceMeanOperator,
    SqueezeBeforeTranspose,
)
from hlo2onnx.targets import load_target

T = oir.DataType
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
INPUTS = {"x": CUBE, "y": CUBE[0], "v": CUBE[0, 0]}
CLEAN = (ComposeReshapes(), EliminateNop(), FoldConstants())
CONSTANTS = {
    "UNITS": np.ones((1, 6, 4), np.float32),
    "COLUMNS": np.ones((2, 1), np.float32),
    "TWELVE": np.arange(12, dtype=np.float32),
    "SIX": np.arange(6, dtype=np.float32).reshape(6, 1),
    "TWO": np.arange(2, dtype=np.float32),
    "FOUR": np.arange(4, dtype=np.float32),
    "THREE": np.full((1, 1), 3, np.float32),
    "THREES": np.full((4,), 3, np.float32),
    "six": lambda b, x: b.reshape(x, (6, 4)),
    "summed": lambda b, x, axes=(1,): b.ReduceSum(x, b.i64(list(axes)), keepdims=0),
}
LATE: dict[str, str] = {
    "(r := six(x), Abs(r))": NOTHING,  # a result
    "(r := six(x), Abs(r), Neg(r))[1:]": NOTHING,
    "(r := unsqueeze(x, [1]), Abs(r), Neg(r))[1:]": "Abs Neg Reshape Reshape",
    "(r := unsqueeze(x, [1]), Abs(r), MatMul(r, Transpose(r, perm=(0, 1, 3, 2))))[1:]": NOTHING,
    "(r := unsqueeze(Cast(x, INT32), [1]), Abs(r), Neg(r))[1:]": NOTHING,
    "(r := six(x), r * r)[1:]": "Mul Reshape",
    "Clip(six(x), 0, 5)": "Clip Reshape",
    "Softmax(six(x), axis=-1)": "Softmax Reshape",
    "Softmax(six(x), axis=0)": NOTHING,
    "LogSoftmax(reshape(x, (2, 12)), axis=-1)": NOTHING,
    "Clip(six(x), None, 5)": "Clip Reshape",
    # Beside numbers, other views, and constants.
    "six(x) * ReduceMax(x, keepdims=0)": "Mul ReduceMax Reshape",
    "six(x) * ReduceMax(x, keepdims=1)": NOTHING,
    "reshape(x, (2, 3, 2, 2)) * reshape(ReduceMax(x), (1, 1, 1, 1))": NOTHING,
    "six(x) * reshape(reshape(x, (2, 12)), (6, 4))": NOTHING,
    "reshape(x, (24,)) * reshape(Abs(x), (24, 1))": NOTHING,
    "unsqueeze(slice(x, [0], [1], axes=[0]), [0]) + Expand(x, [5, 2, 3, 4])": NOTHING,
    "six(x) + UNITS": NOTHING,
    "reshape(x, (2, 12)) + COLUMNS": "Add Reshape Reshape",
    "reshape(x, (2, 12)) + TWELVE": "Add Reshape Reshape",
    "reshape(x, (2, 3, 2, 2)) + TWO": NOTHING,  # a vector that is split
    "six(x) + FOUR": "Add Reshape Reshape",
    "six(x) + SIX": "Add Reshape Reshape",
    "six(x) + v": NOTHING,  # none has the shape before
    "unsqueeze(y, [0]) + x": NOTHING,
    "unsqueeze(y, [0]) + v": "Add Reshape",
}
KEPT: dict[str, str] = {
    "Neg(unsqueeze(ReduceSum(x, [1], keepdims=1), [0]))": NOTHING,
    "Neg(unsqueeze(x, [1]))": NOTHING,
    "Neg(unsqueeze(CumSum(x, scalar(1, INT64)), [1]))": NOTHING,
    "Neg(unsqueeze(Clip(summed(x), 0), [1]))": NOTHING,
    "Neg(unsqueeze(summed(x) + slice(six(x), [0], [2], axes=[0]), [1]))": NOTHING,
    "Neg(unsqueeze(summed(x) + summed(six(x), [0]), [1]))": NOTHING,
    "Neg(reshape(summed(x, [0, 1, 2]), (1, 1, 1)))": NOTHING,
    # Other axes, and those of different reductions.
    "Neg(unsqueeze(summed(x), [0]))": NOTHING,
    "Neg(unsqueeze(summed(x), [2]))": NOTHING,
    "(s := slice(x, [0, 0], [2, 2], axes=[1, 2]), "
    "Neg(unsqueeze(summed(s, [0]) + summed(s), [0])))[1:]": NOTHING,
    "Neg(unsqueeze(ReduceMax(x, [2], keepdims=0), [0, 3]))": "ReduceMax Reshape Neg",
    "Neg(unsqueeze(summed(x) + ReduceMax(x, keepdims=0), [1]))": "ReduceSum ReduceMax Add Neg",
    "Neg(unsqueeze(summed(x, [-2]), [1]))": "ReduceSum Neg",
    "Neg(unsqueeze(summed(x, [2, 0]), [0, 2]))": "ReduceSum Neg",
    "(s := summed(x), Neg(unsqueeze(s * Abs(s), [1])))[1:]": "ReduceSum Abs Mul Neg",
}
REDUCED: dict[str, str] = {
    "ReduceSum(x, [1], keepdims=0)": NOTHING,
    "Neg(ReduceMax(squeeze(unsqueeze(x, [0]), [0]), [1], keepdims=0))":
        "ReduceMax Neg Reshape Reshape",
    "Neg(ReduceSum(reshape(x, (3, 1, 2, 4)), [0], keepdims=0))": NOTHING,
    "Neg(ReduceSum(reshape(x, (2, 1, 3, 4)), [0, 2], keepdims=0))": "ReduceSum Reshape Neg",
    "Neg(ReduceSum(unsqueeze(x, [1]), [1, 3], keepdims=0))": "ReduceSum Neg",
    "Neg(ReduceSum(unsqueeze(x, [1]), [1, 3], keepdims=1))": "ReduceSum Neg Reshape",
    "Neg(ReduceMax(unsqueeze(x, [1]), [1], keepdims=0))": "Neg",
}  # fmt: skip
MEANS: dict[str, str] = {
    "Neg(ReduceSum(x, [0, 2], keepdims=1) / 8)": "ReduceMean Neg",
    "Neg(ReduceSum(x, [0, 2], keepdims=0) / 8)": "ReduceMean Neg",
    "Neg(ReduceSum(x, keepdims=0) / 24)": "ReduceMean Neg",
    "Neg(summed(x) / THREE)": "ReduceMean Neg",
    "Neg(ReduceSum(x, [0, 2], keepdims=0) / 4)": NOTHING,
    "Neg(ReduceSum(Cast(x, INT32), [0, 2], keepdims=0) / 8)": NOTHING,
    "Neg(ReduceSum(x, noop_with_empty_axes=1) / 24)": NOTHING,
    "Neg(summed(x) / THREES)": NOTHING,
    "Neg(ReduceMax(x, [1], keepdims=0) / 3)": NOTHING,
    "Neg(x / 3)": NOTHING,
    "Neg(summed(slice(x, [0], [0], axes=[1])) / 0)": NOTHING,
    "Neg(summed(x) / Abs(scalar(3, FLOAT)))": NOTHING,
}
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (SinkReshape(), LATE), (ReduceKeepdims(), KEPT),
    (ReduceDropUnitDims(), REDUCED), (ReduceMeanOperator(), MEANS),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, constants=CONSTANTS)


MEETINGS: list[tuple[Rule, str, str]] = [
    (SinkReshape(), "Transpose(reshape(Neg(six(x)), (4, 6)), perm=(1, 0))",
     "Neg Reshape Transpose"),
    (SinkReshape(), "Transpose(reshape(Cast(six(x), DOUBLE), (4, 6)), perm=(1, 0))",
     "Cast Reshape Transpose"),
    (SinkReshape(), "Abs(squeeze(Neg(unsqueeze(x, [0])), [0]))", "Abs Neg"),
    (SinkReshape(), "reshape(Softmax(reshape(x, (6, 4)), axis=1), (2, 3, 4))", "Softmax"),
    (SinkReshape(), "reshape(LogSoftmax(reshape(x, (6, 4)), axis=-1), (2, 3, 4))", "LogSoftmax"),
    (SinkReshape(), "reshape(reshape(x, (24,)) + reshape(Abs(x), (24,)), (2, 3, 4))", "Abs Add"),
    (SinkReshape(), "squeeze(unsqueeze(y, [0, 1]) - slice(y, [0], [1], axes=[1]), [0, 1])",
     "Slice Sub"),
    (ReduceKeepdims(), "x - unsqueeze(summed(x) / 3 * ReduceMin(x, [1], keepdims=0), [1])",
     "ReduceSum ReduceMin Div Mul Sub"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "left"), MEETINGS)
def test_what_is_moved_meets_its_inverse(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, *CLEAN, constants=CONSTANTS)


@pytest.mark.parametrize("size", [5, 5000])
def test_late_reshape_leaves_constants_alone(size: int) -> None:
    """Two constants do not take each other's shape in turns, folded or too large for that."""
    constants = {
        "MASK": (np.arange(size) % 3 == 0).reshape(size, 1, 1),
        "OTHER": np.arange(size, dtype=np.float32).reshape(size, 1),
    }
    # Large constants that others read, too, stay as they are.
    text = f"reshape(Where(Reshape(MASK, [{size}, 1]), OTHER, x), ({size}, 1, 1))"
    build = graph(f"({text}, Not(MASK), Abs(OTHER))", **constants)
    run = Rewrite(build, {"x": np.array(3, np.float32)}, SinkReshape(), *CLEAN)
    assert run.fired["sink-reshape"] == 0


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (1, 1), (2, 1, 1), (4,)])
def test_late_reshape_beside_a_constant(shape: tuple[int, ...]) -> None:
    constants = {"CONSTANT": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    text = "reshape(reshape(x, (2, 3, 4)) * CONSTANT, (2, 12))"
    left = NOTHING if shape == (4,) else "Mul"
    inputs = {"x": CUBE.reshape(2, 12)}
    rewrites(text, left, inputs, SinkReshape(), *CLEAN, constants=constants)


@pytest.mark.parametrize("dims", [(1,), (1, 1), (1, 1, 1), (1, 1, 1, 1)])
def test_late_reshape_of_a_scalar(dims: tuple[int, ...]) -> None:
    """It broadcasts to any shape as a scalar, too."""
    for x in (CUBE[0, 0], CUBE[0], CUBE):
        left = "Add Reshape" if len(dims) > x.ndim else "Add"
        rewrites(f"reshape(y, {dims}) + x", left, {"x": x, "y": np.float32(7)}, SinkReshape())


def test_longer_axes_in_front_of_an_empty_tensor() -> None:
    """Only axes of extent 1 may stay away from a sum with a row."""
    inputs = {"x": np.zeros((0, 3), np.float32), "y": np.ones((1, 3), np.float32)}
    rewrites("Neg(reshape(x, (5, 0, 3)) + Abs(y))", NOTHING, inputs, SinkReshape())


def test_reductions_along_axes_that_are_computed_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        types = [(x.dtype, (2, 4))]
        total = b.op("ReduceSum", x, b.Abs(b.i64([1])), keepdims=0, types=types)
        return b.Neg(b.unsqueeze(total, [1]))

    Rewrite(build, {"x": CUBE}, ReduceKeepdims()).nothing()


@pytest.mark.parametrize("beyond", [0, 1])
def test_how_much_lies_between(beyond: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.ReduceSum(x, b.i64([1]), keepdims=0)
        for _ in range(MAX_BETWEEN + beyond):
            y = b.Neg(y)
        return b.Abs(b.unsqueeze(y, [1]))

    assert bool(Rewrite(build, {"x": CUBE}, ReduceKeepdims()).fired) != bool(beyond)


@pytest.mark.parametrize(
    ("perm", "dims", "left"),
    [
        ((0, 3, 1, 2), (6, 4), NOTHING),
        ((3, 1, 2, 0), (4, 6), "Abs Reshape Transpose"),
        ((1, 2, 0, 3), (6, 1, 4), "Abs Reshape"),
    ],
)
def test_squeeze_before_transpose(perm: tuple[int, ...], dims: tuple[int, ...], left: str) -> None:
    inputs = {"x": CUBE.reshape(1, 6, 1, 4)}
    text = f"reshape(Transpose(Abs(x), perm={perm}), {dims})"
    rewrites(text, left, inputs, SqueezeBeforeTranspose())


@pytest.mark.parametrize(("axis", "fires"), [(0, True), (1, False)])
def test_means_over_a_free_axis(axis: int, fires: bool) -> None:
    """The number is that of its rows, and there may be none."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        count = b.cast(b.extents.scalar(x.shape[axis]), T.FLOAT)  # type: ignore[index]
        return b.Neg(b.Div(b.ReduceSum(x, b.i64([0]), keepdims=0), count))

    dims = {"x": (symbol("n", positive=True), symbol("m", positive=True), 4)}
    model = model_of(build, {"x": CUBE}, dims=dims)
    assert bool(apply_rules(model, [ReduceMeanOperator()], load_target("ort-cpu"))) == fires

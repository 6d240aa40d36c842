"""Each broadcast rule where it fires and where it must not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, rewrites
from rewriting import Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.shapes.broadcast import ImplicitBroadcast, SinkBroadcast, SinkSqueeze
from hlo2onnx.raising.rules.shapes.reshape import ComposeReshapes, EliminateNop

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
INPUTS = {
    "x": MATRIX,
    "y": np.array([[1, 2, 3]], np.float32),
    "v": np.array([1, 2, 3], np.float32),
    "square": np.arange(9, dtype=np.float32).reshape(3, 3),
}
CONSTANTS = {
    "ROW": np.float32([[1, 2, 3]]),
    "TWO": np.float32(2),
    "VECTOR": np.float32([0]),
    "UNIT": np.float32([[2]]),
}
IMPLICIT: dict[str, str] = {
    "expand(y, (2, 3)) + x": "Add",
    "Where(Less(x, expand(y, (2, 3))), x, expand(y, (2, 3)))": "Less Where",
    "expand(y, (2, 3)) + expand(Neg(y), (2, 3))": "Add Expand Neg",  # one has to stay
    "x + reshape(v, (1, 3))": "Add",
    "(r := Unsqueeze(v, [0]), Where(Less(r, x), x, r))[1:]": "Less Where",
    "(r := Reshape(v, [1, 3]), Where(Less(r, x), x, r))[1:]": "Less Where",
    # Without it, the result has another shape.
    "expand(y, (2, 3)) * y": NOTHING,
    "square + reshape(v, (3, 1))": NOTHING,
    "reshape(v, (1, 3)) + 1": NOTHING,
    "x - reshape(x, (1, 2, 3))": NOTHING,
    "x * Abs(v)": NOTHING,
    # Constants: one that decides the rank, several numbers, and a scalar.
    "v * UNIT": NOTHING,
    "x * ROW": NOTHING,
    "x * TWO": NOTHING,
}
BROADCAST: dict[str, str] = {
    "expand(y, (2, 3)) + expand(y, (2, 3))": "Add Expand",
    "Abs(Sin(expand(v, (2, 3))))": "Sin Abs Expand",  # a new axis
    "expand(y, (2, 3)) * y": "Mul Expand",
    "Exp(x)": NOTHING,
    "expand(y, (2, 3)) + x": NOTHING,
}
SQUEEZE: dict[str, str] = {
    "x + reshape(y, (3,))": "Add",  # beside an operand with the axis
    "Less(v, reshape(y, (3,)))": "Less Reshape",
    "Abs(reshape(reshape(y, (1, 1, 3)), (1, 3)) + x)": "Add Abs Reshape Reshape",
    "(r := Reshape(y, [3]), Abs(Sin(r)), Abs(reshape(r, (3, 1))), Abs(r * r))[1:]":
        "Sin Abs Abs Abs Mul Reshape Reshape Reshape Reshape",
    "(r := Squeeze(y, [0]), Abs(Sin(r)), Abs(reshape(r, (3, 1))), Abs(r * r))[1:]":
        "Sin Abs Abs Abs Mul Squeeze Reshape Reshape Reshape",
    # What others read, and results.
    "(r := reshape(y, (3,)), Sin(r), ReduceMax(r, [0], keepdims=0))[1:]": NOTHING,
    "(r := reshape(y, (3,)), Sin(r))": NOTHING,
    # A scalar beside a last axis of 1 would be broadcast element by element.
    "Sin(reshape(Unsqueeze(v, [1]), (3,)))": NOTHING,
    "Sin(reshape(Unsqueeze(v, [0, 2]), (3,)))": NOTHING,
    "Sin(reshape(ReduceMax(v), ()))": NOTHING,
    # (3, 1) broadcasts along the other axis than (3,).
    "Abs(reshape(Unsqueeze(v, [1]), (3,)) + square)": NOTHING,
    "Abs(Sin(Reshape(square, [3, 3])))": NOTHING,
    "Sin(reshape(x, (3, 2)))": NOTHING,
    "Sin(reshape(x, (1, 2, 3)))": NOTHING,
    "Sin(Abs(x))": NOTHING,
}  # fmt: skip
TABLES: list[tuple[Rule, dict[str, str]]] = [
    (ImplicitBroadcast(), IMPLICIT), (SinkBroadcast(), BROADCAST), (SinkSqueeze(), SQUEEZE),
]  # fmt: skip
CASES = [(rule, text, left) for rule, rows in TABLES for text, left in rows.items()]


@pytest.mark.parametrize(("rule", "text", "left"), CASES)
def test_expressions(rule: Rule, text: str, left: str) -> None:
    rewrites(text, left, INPUTS, rule, constants=CONSTANTS)


def test_broadcasts_and_squeezes_meet_what_makes_them_needless() -> None:
    rewrites("Exp(expand(y, (2, 3))) * x", "Exp Mul", INPUTS, SinkBroadcast(), ImplicitBroadcast())
    text = "reshape(2 * (Sin(reshape(y, (3,))) + reshape(y, (3,)) * reshape(y, (3,))), (1, 3))"
    rules = SinkSqueeze(), ComposeReshapes(), EliminateNop()
    rewrites(text, "Sin Mul Add Mul", INPUTS, *rules)


def test_scalar_constant() -> None:
    text = "Where(Less(x, UNIT), VECTOR, x)"
    made = rewrites(text, "Less Where", INPUTS, ImplicitBroadcast(), constants=CONSTANTS)
    used = {x for node in made.model.graph for x in node.inputs if x is not None}
    assert {len(x.shape) for x in used if x.const_value is not None and x.shape is not None} == {0}


@pytest.mark.parametrize(("dims", "fires"), [(("n", 1), True), ((3,), True), (("m", 3), False)])
def test_how_often_is_free(dims: tuple[int | str, ...], fires: bool) -> None:
    """An Expand knows it; one whose operand may have another free extent stays where it is."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        part = b.slice(x, [0], [1], axes=[1]) if dims == ("n", 1) else x
        part = b.reshape(b.slice(x, [0], [1], axes=[0]), (3,)) if dims == (3,) else part
        types = [(x.dtype, (oir.SymbolicDim("n"), 3))]
        wide = b.op("Expand", free(b, part, *dims), b.i64([2, 3]), types=types)
        return b.Abs(b.Sin(wide))

    rewrite = Rewrite(build, {"x": MATRIX}, SinkBroadcast())
    assert bool(rewrite.fired) == fires


def test_late_squeeze_of_free_shapes_stays() -> None:
    def build(b: GraphBuilder, y: oir.Value) -> oir.Value:
        row = free(b, y, 1, "n")
        return b.Sin(b.op("Reshape", row, b.i64([-1]), types=[(y.dtype, (row.shape[1],))]))

    Rewrite(build, {"y": INPUTS["y"]}, SinkSqueeze()).nothing()


def test_extents_that_may_not_fit_stay() -> None:
    """Without the Expand, nobody knows whether n and k broadcast, or to what."""

    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        k = (oir.SymbolicDim("k"),)
        expanded = b.op("Expand", free(b, x, "n"), b.Shape(y), types=[(x.dtype, k)])
        return b.Neg(b.Add(expanded, free(b, y, "k")))

    inputs = {"x": np.ones(1, np.float32), "y": np.ones(3, np.float32)}
    Rewrite(build, inputs, SinkBroadcast(), ImplicitBroadcast()).nothing()

"""Elementwise operators that read all parts of a Split, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.split_elementwise import SplitAfterElementwise

Value, T = oir.Value, oir.DataType
X = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
Function = Callable[[GraphBuilder, Value, Value], list[Value]]


def parts_of(b: GraphBuilder, x: Value, axis: int = 1) -> tuple[Value, Value]:
    sizes = [2, x.shape[axis] - 2]
    one, other = b.outputs("Split", x, b.i64(sizes), axis=axis, n_outputs=2)
    return one, other


def run(function: Function, axis: int = 1, x: np.ndarray = X) -> Rewrite:
    """The results are read by MatMul-like readers: each by a ReduceSum."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        made = function(b, *parts_of(b, b.Abs(x), axis))
        return [b.ReduceSum(y, b.i64([0])) for y in made]

    return Rewrite(build, {"x": x}, SplitAfterElementwise(), tolerance=1e-6)


ALIKE: dict[str, tuple[Function, list[str]]] = {
    "a function": (lambda b, p, q: [b.Sqrt(p), b.Sqrt(q)], ["Sqrt"]),
    "two Casts": (
        lambda b, p, q: [b.cast(b.cast(y, T.BFLOAT16), T.FLOAT) for y in (p, q)],
        ["Cast", "Cast"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_parts_that_are_read_alike(name: str) -> None:
    function, op_types = ALIKE[name]
    run(function).gives("Abs", *op_types, "Split", "ReduceSum", "ReduceSum")


def test_the_first_axis() -> None:
    run(lambda b, p, q: [b.Neg(y) for y in (p, q)], axis=0).gives(
        "Abs", "Neg", "Split", "ReduceSum", "ReduceSum"
    )


UNLIKE: dict[str, Function] = {
    "another function": lambda b, p, q: [b.Sqrt(p), b.Exp(q)],
    "one part only": lambda b, p, q: [b.Sqrt(p), q],
    "a part is read twice": lambda b, p, q: [b.Sqrt(p), b.Sqrt(q), q],
    "other types": lambda b, p, q: [b.cast(p, T.INT32), b.cast(q, T.DOUBLE)],
    "a second operand": lambda b, p, q: [b.Mul(y, b.scalar_like(3, y)) for y in (p, q)],
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_look_alikes(name: str) -> None:
    run(UNLIKE[name]).nothing()


def test_outputs_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> Any:
        return [b.Sqrt(y) for y in parts_of(b, b.Abs(x))]

    Rewrite(build, {"x": X}, SplitAfterElementwise()).nothing()

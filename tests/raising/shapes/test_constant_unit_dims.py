"""A Reshape that adds axes of 1 goes where a constant can have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.constant_unit_dims import ConstantUnitDims

T = oir.DataType
Value = oir.Value
X = np.array([0.5, -2, np.nan], np.float32)
SCALAR = np.float32(0.75)
LONG = 9


def number(b: GraphBuilder, item: float = 3.0) -> Value:
    return b.scalar(item, T.FLOAT)


def deep(b: GraphBuilder, x: Value, count: int) -> Value:
    x = b.Mul(x, number(b))
    for _ in range(count):
        x = b.Neg(x)
    return x


FIRES: dict[str, Callable[[Any, Value], Value]] = {
    "constant first": lambda b, x: b.Mul(number(b), x),
    "constant last": lambda b, x: b.Sub(x, number(b)),
    "selection": lambda b, x: b.Where(b.Less(x, x), number(b), x),
    "condition": lambda b, x: b.Where(b.scalar(True, T.BOOL), b.Exp(x), x),
    "function of it": lambda b, x: b.Sin(b.Abs(b.Pow(x, number(b)))),
    "second operand": lambda b, x: b.Div(x, b.Add(x, number(b))),
    "comparison": lambda b, x: b.Not(b.Less(x, number(b))),
    "deep": lambda b, x: deep(b, x, 7),
}


@pytest.mark.parametrize("dims", [(1,), (1, 1)])
@pytest.mark.parametrize("name", FIRES)
def test_constants_take_the_axes(name: str, dims: tuple[int, ...]) -> None:
    for x in (X, SCALAR):
        build = lambda b, x: b.Identity(reshaped(b, FIRES[name](b, x), dims))  # noqa: E731
        rewrite = Rewrite(build, {"x": x}, ConstantUnitDims())
        assert rewrite.fired
        assert "Reshape" not in rewrite.nodes


def reshaped(b: GraphBuilder, x: Value, dims: tuple[int, ...]) -> Value:
    shape = tuple(int(extent) for extent in x.shape or ())
    return b.Reshape(x, b.i64([*dims, *shape]))


STAYS: dict[str, Callable[[Any, Value], Value]] = {
    "no constant": lambda b, x: reshaped(b, b.Mul(x, b.Exp(x)), (1,)),
    "no operator": lambda b, x: reshaped(b, x, (1,)),
    "axis behind": lambda b, x: b.Reshape(b.Mul(x, number(b)), b.i64([3, 1])),
    "axes of 1 go": lambda b, x: b.Reshape(
        b.Mul(b.Reshape(x, b.i64([1, 3])), b.const(np.ones((1, 3), np.float32))), b.i64([3])
    ),
    "reduction between": lambda b, x: reshaped(
        b, b.ReduceSum(b.Mul(x, number(b)), b.i64([0]), keepdims=0), (1,)
    ),
    "too deep": lambda b, x: reshaped(b, deep(b, x, LONG), (1,)),
}


@pytest.mark.parametrize("name", STAYS)
def test_near_misses(name: str) -> None:
    Rewrite(lambda b, x: b.Identity(STAYS[name](b, x)), {"x": X}, ConstantUnitDims()).nothing()


def test_values_that_others_read_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        y = b.Mul(x, number(b))
        return [b.Neg(reshaped(b, b.Exp(y), (1,))), b.Sin(y)]

    Rewrite(build, {"x": X}, ConstantUnitDims()).nothing()


def test_shared_constants_of_several_elements_stay() -> None:
    """The model would hold their numbers twice."""

    def build(b: GraphBuilder, x: Value) -> list[Value]:
        shared = b.const(np.arange(3, dtype=np.float32))
        return [b.Neg(reshaped(b, b.Mul(x, shared), (1,))), b.Add(x, shared)]

    Rewrite(build, {"x": X}, ConstantUnitDims()).nothing()


def test_results_stay() -> None:
    def build(b: GraphBuilder, x: Value) -> list[Value]:
        y = b.Mul(x, number(b))
        return [b.Neg(reshaped(b, y, (1,))), y]

    Rewrite(build, {"x": X}, ConstantUnitDims()).nothing()


def test_nothing_moves_into_a_branch() -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        y, graphs = b.Mul(x, number(b)), []
        for make in (b.Sin, b.Cos):
            with b.subgraph([], "branch") as graph:
                graph.outputs.append(make(reshaped(b, y, (1,))))
            graphs.append(graph)
        condition = b.Less(b.ReduceSum(x, b.i64([0]), keepdims=0), number(b))
        branches = {"then_branch": graphs[0], "else_branch": graphs[1]}
        made: Value = b.node("If", [condition], branches, [(T.FLOAT, (1, 3))])[0]
        return made

    Rewrite(build, {"x": X}, ConstantUnitDims()).nothing()

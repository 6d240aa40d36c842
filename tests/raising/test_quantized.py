"""The rules on quantized arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite

from hlo2onnx.graph.builder import GraphBuilder
from hlo2onnx.raising.rules.quantized import (
    ExpandDequantized,
    IntegerMatMul,
    MoveStored,
    Quantize,
)

T = oir.DataType
X = {"x": np.array([[-40.0, -1.3, -0.26], [0.3, 1.7, 100.0]], np.float32)}


def scalar(b: GraphBuilder, number: float) -> oir.Value:
    return b.scalar(number, T.FLOAT)


def clip(b: GraphBuilder, x: oir.Value, low: float = -128, high: float = 127) -> oir.Value:
    result: oir.Value = b.Clip(x, scalar(b, low), scalar(b, high))
    return result


def divided(b: GraphBuilder, x: oir.Value) -> oir.Value:
    result: oir.Value = b.Div(x, scalar(b, 0.37))
    return result


def guarded(b: GraphBuilder, x: oir.Value) -> oir.Value:
    result: oir.Value = b.Where(b.IsNaN(x), scalar(b, 0), x)
    return result


def between(b: GraphBuilder, x: oir.Value, low: float, high: float) -> oir.Value:
    result: oir.Value = b.Min(scalar(b, high), b.Max(x, scalar(b, low)))
    return result


Spelling = Callable[[GraphBuilder, oir.Value], oir.Value]
SPELLINGS: dict[str, Spelling] = {
    "rounded": lambda b, x: clip(b, b.Round(divided(b, x))),
    "clipped first": lambda b, x: b.Round(clip(b, divided(b, x))),
    "a zero point": lambda b, x: clip(b, b.Add(b.Round(divided(b, x)), scalar(b, 4))),
    "a rounded sum": lambda b, x: b.Round(clip(b, b.Add(scalar(b, 4), divided(b, x)))),
    "min and max": lambda b, x: between(b, b.Round(divided(b, x)), -128, 127),
    "guarded": lambda b, x: guarded(b, b.Round(clip(b, divided(b, x)))),
    "clipped twice": lambda b, x: clip(b, between(b, b.Round(divided(b, x)), -500, 500)),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_quantize(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(SPELLINGS[name](b, x), T.INT8)

    Rewrite(build, X, Quantize()).gives("QuantizeLinear")


def test_narrow_bounds_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(clip(b, b.Round(divided(b, x)), -127, 127), T.INT8)

    Rewrite(build, X, Quantize()).gives("QuantizeLinear", "Clip")


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1)])
def test_scales_along_an_axis(shape: tuple[int, ...]) -> None:
    scales = np.linspace(0.1, 0.9, max(shape)).astype(np.float32).reshape(shape)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(clip(b, b.Round(b.Div(x, b.const(scales))), 0, 255), T.UINT8)

    rewrite = Rewrite(build, X, Quantize())
    rewrite.gives("QuantizeLinear")
    (node,) = rewrite.model.graph
    assert node.attributes["axis"].as_int() == (0 if shape == (2, 1) else 1)


def test_a_scale_that_is_computed() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale = b.ReduceMax(x, b.i64([0, 1]), keepdims=1)
        return b.cast(clip(b, b.Round(b.Div(x, scale))), T.INT8)

    Rewrite(build, X, Quantize()).gives("ReduceMax", "Reshape", "QuantizeLinear")


MISSES: dict[str, Spelling] = {
    "not rounded": lambda b, x: clip(b, divided(b, x)),
    "not clipped": lambda b, x: b.Round(divided(b, x)),
    "clipped below only": lambda b, x: b.Max(b.Round(divided(b, x)), scalar(b, -128)),
    "too wide": lambda b, x: clip(b, b.Round(divided(b, x)), -128, 200),
    "bounds between integers": lambda b, x: b.Round(clip(b, divided(b, x), -99.5, 99.5)),
    "clipped before the sum": lambda b, x: b.Add(clip(b, b.Round(divided(b, x))), scalar(b, 4)),
    "half a zero point": lambda b, x: clip(b, b.Add(b.Round(divided(b, x)), scalar(b, 0.5))),
    "floor": lambda b, x: clip(b, b.Floor(divided(b, x))),
    "rounded twice": lambda b, x: clip(b, b.Round(b.Round(divided(b, x)))),
    "a product": lambda b, x: clip(b, b.Round(b.Mul(x, scalar(b, 3)))),
    "guarded by 1": lambda b, x: b.Where(
        b.IsNaN(r := b.Round(clip(b, divided(b, x)))), scalar(b, 1), r
    ),
}


@pytest.mark.parametrize("name", MISSES)
def test_what_is_no_quantization(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(MISSES[name](b, x), T.INT8)

    x = {"x": np.clip(X["x"], -20, 20)}
    Rewrite(build, x, Quantize()).nothing()


def test_doubles_are_left_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = b.Round(b.Div(x, b.scalar(0.37, T.DOUBLE)))
        return b.cast(b.Clip(y, b.scalar(-128, T.DOUBLE), b.scalar(127, T.DOUBLE)), T.INT8)

    Rewrite(build, {"x": X["x"].astype(np.float64)}, Quantize()).nothing()


Q = {"q": np.arange(-12, 12).astype(np.int8).reshape(2, 3, 4)}


def dequantized(b: GraphBuilder, q: oir.Value, axis: int | None = None) -> oir.Value:
    size = 1 if axis is None else int(q.shape[axis])  # type: ignore[index]
    scale = np.linspace(0.1, 0.9, size).astype(np.float32)
    zero = np.arange(size).astype(np.int8)
    if axis is None:
        scale, zero = scale.reshape(()), zero.reshape(())
    result: oir.Value = b.DequantizeLinear(q, b.const(scale), b.const(zero), axis=axis)
    return result


MOVES: dict[str, tuple[Callable[[GraphBuilder, oir.Value], oir.Value], int | None, str]] = {
    "transpose": (lambda b, x: b.transpose(x, [2, 0, 1]), None, "Transpose"),
    "transpose along": (lambda b, x: b.transpose(x, [2, 0, 1]), 1, "Transpose"),
    "reshape": (lambda b, x: b.reshape(x, [6, 4]), None, "Reshape"),
    "reshape along": (lambda b, x: b.reshape(x, [6, 4]), 2, "Reshape"),
    "unsqueeze": (lambda b, x: b.unsqueeze(x, [0]), 0, "Unsqueeze"),
    "slice": (lambda b, x: b.slice(x, [0, 1, 0], [2, 3, 4]), None, "Slice"),
    "slice another axis": (lambda b, x: b.slice(x, [0, 1, 0], [2, 3, 4]), 2, "Slice"),
}


@pytest.mark.parametrize("name", MOVES)
def test_stored_values_move(name: str) -> None:
    move, axis, op_type = MOVES[name]
    rewrite = Rewrite(lambda b, q: move(b, dequantized(b, q, axis)), Q, MoveStored())
    rewrite.gives(op_type, "DequantizeLinear")
    assert next(iter(rewrite.model.graph)).op_type == op_type


def test_a_move_follows_storing() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale, zero = np.array([0.1, 0.2], np.float32), np.array([3, 0], np.uint8)
        moved = b.transpose(x, [1, 0])
        result: oir.Value = b.QuantizeLinear(moved, b.const(scale), b.const(zero), axis=1)
        return result

    rewrite = Rewrite(build, X, MoveStored())
    rewrite.gives("QuantizeLinear", "Transpose")
    first, _ = rewrite.model.graph
    assert (first.op_type, first.attributes["axis"].as_int()) == ("QuantizeLinear", 0)


STAYS: dict[str, Any] = {
    "an axis is cut": lambda b, q: b.slice(dequantized(b, q, 1), [0, 1, 0], [2, 3, 4]),
    "axes are joined": lambda b, q: b.reshape(dequantized(b, q, 1), [6, 4]),
    "it expands": lambda b, q: b.expand(dequantized(b, q), [5, 2, 3, 4]),
    "it computes": lambda b, q: b.Neg(dequantized(b, q)),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_does_not_move(name: str) -> None:
    Rewrite(STAYS[name], Q, MoveStored()).nothing()


def test_expand_dequantized() -> None:
    def build(b: GraphBuilder, q: oir.Value) -> oir.Value:
        return dequantized(b, b.expand(q, [5, 2, 3, 4]), axis=2)

    rewrite = Rewrite(build, Q, ExpandDequantized())
    rewrite.gives("DequantizeLinear", "Expand")
    assert next(iter(rewrite.model.graph)).attributes["axis"].as_int() == 1


def test_an_expanded_axis_stays() -> None:
    def build(b: GraphBuilder, q: oir.Value) -> oir.Value:
        return dequantized(b, b.expand(q, [2, 3, 4]), axis=1)

    Rewrite(build, {"q": Q["q"][:, :1]}, ExpandDequantized()).nothing()


@pytest.mark.parametrize("types", [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_integer_matmul(types: tuple[type, type]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        moved = b.transpose(b.cast(y, T.INT32), [1, 0])
        result: oir.Value = b.MatMul(b.cast(x, T.INT32), moved)
        return result

    first, second = (np.arange(-8, 4).astype(dtype) for dtype in types)
    inputs = {"x": first.reshape(3, 4), "y": second.reshape(3, 4)}
    Rewrite(build, inputs, IntegerMatMul()).gives("Transpose", "MatMulInteger")


def test_wider_integers_are_left_alone() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        result: oir.Value = b.MatMul(b.cast(x, T.INT32), b.cast(y, T.INT32))
        return result

    inputs = {"x": np.ones((2, 3), np.int16), "y": np.ones((3, 2), np.int8)}
    Rewrite(build, inputs, IntegerMatMul()).nothing()

"""The rules on quantized arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.quantized.quantize_dequantize import (
    MatMulIntegerOperator,
    QdqPropagation,
    Quantize,
)
from hlo2onnx.targets.target import Target

T = oir.DataType
X = {"x": np.array([[-40.0, -1.3, -0.26], [0.3, 1.7, 100.0]], np.float32)}


def scalar(b: GraphBuilder, number: float) -> oir.Value:
    return b.scalar(number, T.FLOAT)


def clip(b: GraphBuilder, x: oir.Value, low: float = -128, high: float = 127) -> oir.Value:
    return b.Clip(x, scalar(b, low), scalar(b, high))


def divided(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.Div(x, scalar(b, 0.37))


def guarded(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.Where(b.IsNaN(x), scalar(b, 0), x)


def between(b: GraphBuilder, x: oir.Value, low: float, high: float) -> oir.Value:
    return b.Min(scalar(b, high), b.Max(x, scalar(b, low)))


def repeated(b: GraphBuilder, x: oir.Value, times: int) -> oir.Value:
    for _ in range(times):
        x = guarded(b, x)
    return x


def replaced(b: GraphBuilder, x: oir.Value, by: Any, test: str = "IsNaN", of: Any = None) -> Any:
    """x where a test of it, or of something else, fails."""
    by = b.const(np.asarray(by, np.float32)) if not isinstance(by, oir.Value) else by
    return b.Where(b.op(test, x if of is None else of), by, x)


Spelling = Callable[[GraphBuilder, oir.Value], oir.Value]
SPELLINGS: dict[str, Spelling] = {
    "rounded": lambda b, x: clip(b, b.Round(divided(b, x))),
    "clipped first": lambda b, x: b.Round(clip(b, divided(b, x))),
    "a zero point": lambda b, x: clip(b, b.Add(b.Round(divided(b, x)), scalar(b, 4))),
    "a rounded sum": lambda b, x: b.Round(clip(b, b.Add(scalar(b, 4), divided(b, x)))),
    "min and max": lambda b, x: between(b, b.Round(divided(b, x)), -128, 127),
    "guarded": lambda b, x: guarded(b, b.Round(clip(b, divided(b, x)))),
    "clipped one by one": lambda b, x: b.Min(
        b.Max(scalar(b, -128), b.Round(divided(b, x))), scalar(b, 127)
    ),
    "as many steps as are read": lambda b, x: clip(b, repeated(b, b.Round(divided(b, x)), 5)),
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
    "clipped before the sum": lambda b, x: b.Add(clip(b, b.Round(divided(b, x))), scalar(b, 4)),
    "half a zero point": lambda b, x: clip(b, b.Add(b.Round(divided(b, x)), scalar(b, 0.5))),
    "floor": lambda b, x: clip(b, b.Floor(divided(b, x))),
    "rounded twice": lambda b, x: clip(b, b.Round(b.Round(divided(b, x)))),
    "a product": lambda b, x: clip(b, b.Round(b.Mul(x, scalar(b, 3)))),
    "clipped by one bound": lambda b, x: b.Clip(b.Round(divided(b, x)), scalar(b, -128)),
    "bounds the wrong way round": lambda b, x: b.Max(
        b.Min(b.Round(divided(b, x)), scalar(b, -5)), scalar(b, 5)
    ),
    "too low": lambda b, x: clip(b, b.Round(divided(b, x)), -129, 127),
    "a lower bound between integers": lambda b, x: b.Round(clip(b, divided(b, x), -99.5, 99)),
    "an upper bound between integers": lambda b, x: b.Round(clip(b, divided(b, x), -99, 99.5)),
    "bounds of columns": lambda b, x: b.Max(
        b.Min(b.Round(divided(b, x)), scalar(b, 127)),
        b.const(np.array([-128, -100, -90], np.float32)),
    ),
    "a computed bound": lambda b, x: b.Max(b.Min(b.Round(divided(b, x)), scalar(b, 127)), x),
    "a difference": lambda b, x: b.Sub(clip(b, b.Round(divided(b, x))), scalar(b, 0)),
    "two zero points": lambda b, x: clip(
        b, b.Add(b.Add(b.Round(divided(b, x)), scalar(b, 4)), scalar(b, 3))
    ),
    "a computed zero point": lambda b, x: clip(b, b.Add(b.Round(divided(b, x)), b.Round(x))),
    "a zero point out of range": lambda b, x: clip(
        b, b.Add(b.Round(divided(b, x)), scalar(b, 200))
    ),
    "a zero point below the range": lambda b, x: clip(
        b, b.Add(b.Round(divided(b, x)), scalar(b, -129))
    ),
    "zero points of columns": lambda b, x: clip(
        b, b.Add(b.Round(divided(b, x)), b.const(np.array([1, 2, 3], np.float32)))
    ),
    "a zero point between": lambda b, x: b.Add(b.Round(divided(b, x)), scalar(b, 4)),
    "a computed scale of columns": lambda b, x: clip(
        b, b.Round(b.Div(x, b.ReduceMax(b.Abs(x), b.i64([0]), keepdims=1)))
    ),
    "scales of elements": lambda b, x: clip(
        b, b.Round(b.Div(x, b.const(np.full((2, 3), 0.37, np.float32))))
    ),
    "scales of more axes": lambda b, x: clip(
        b, b.Round(b.Div(x, b.const(np.array([[[0.1, 0.2, 0.3]]], np.float32))))
    ),
    "more steps than are read": lambda b, x: clip(b, repeated(b, b.Round(divided(b, x)), 6)),
    "an operand": lambda b, x: x,
    "clipped alone": lambda b, x: clip(b, x),
    "guarded by some 1": lambda b, x: replaced(b, b.Round(clip(b, divided(b, x))), [0, 1, 0]),
    "guarded by itself": lambda b, x: replaced(b, b.Round(clip(b, divided(b, x))), b.Round(x)),
    "guarded against infinity": lambda b, x: replaced(
        b, b.Round(clip(b, divided(b, x))), 0, "IsInf"
    ),
    "another guarded": lambda b, x: replaced(b, b.Round(clip(b, divided(b, x))), 0, of=x),
}


@pytest.mark.parametrize("name", MISSES)
def test_what_is_no_quantization(name: str) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return b.cast(MISSES[name](b, x), T.INT8)

    x = {"x": np.clip(X["x"], -20, 20)}
    Rewrite(build, x, Quantize()).nothing()


def test_a_condition_from_outside_guards_nothing() -> None:
    def build(b: GraphBuilder, x: oir.Value, c: oir.Value) -> oir.Value:
        y = b.Round(clip(b, divided(b, x)))
        return b.cast(b.Where(c, scalar(b, 0), y), T.INT8)

    assert not fires(build, X | {"c": X["x"] > 0}, Quantize())


@pytest.mark.parametrize("along", [0, 1])
def test_zero_points_along_an_axis(along: int) -> None:
    """Beside scales along the same axis."""
    scales = np.linspace(0.1, 0.9, 3).astype(np.float32)
    shape = (3,) if along else (3, 1)

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        zeros = b.const(np.array([1, -2, 3], np.float32).reshape(shape))
        y = b.Round(b.Div(x, b.const(scales)))
        return b.cast(clip(b, b.Add(y, zeros)), T.INT8)

    found = Rewrite(build, {"x": np.resize(X["x"], (3, 3)) / 9}, Quantize())
    if along:
        found.gives("QuantizeLinear")
    else:
        found.nothing()


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
    return b.DequantizeLinear(q, b.const(scale), b.const(zero), axis=axis)


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
    rewrite = Rewrite(lambda b, q: move(b, dequantized(b, q, axis)), Q, QdqPropagation())
    rewrite.gives(op_type, "DequantizeLinear")
    assert next(iter(rewrite.model.graph)).op_type == op_type


def test_a_move_follows_storing() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        scale, zero = np.array([0.1, 0.2], np.float32), np.array([3, 0], np.uint8)
        moved = b.transpose(x, [1, 0])
        return b.QuantizeLinear(moved, b.const(scale), b.const(zero), axis=1)

    rewrite = Rewrite(build, X, QdqPropagation())
    rewrite.gives("QuantizeLinear", "Transpose")
    first, _ = rewrite.model.graph
    assert (first.op_type, first.attributes["axis"].as_int()) == ("QuantizeLinear", 0)


def blocks(b: GraphBuilder, q: oir.Value) -> oir.Value:
    """A scale for two rows each."""
    scale = b.const(np.ones((1, 3, 4), np.float32))
    return b.DequantizeLinear(q, scale, axis=0, block_size=2)


@pytest.mark.parametrize("axis", [-2, None])
def test_an_axis_that_is_not_named_or_negative(axis: int | None) -> None:
    """It is the second one."""
    scales = np.array([0.1, 0.2, 0.3], np.float32)

    def build(b: GraphBuilder, q: oir.Value) -> oir.Value:
        return b.transpose(b.DequantizeLinear(q, b.const(scales), axis=axis), [1, 2, 0])

    found = Rewrite(build, Q, QdqPropagation())
    found.gives("Transpose", "DequantizeLinear")
    assert found.model.graph[1].attributes["axis"].as_int() == 0


def test_an_axis_among_others_that_are_joined() -> None:
    found = Rewrite(lambda b, q: b.reshape(dequantized(b, q, 0), [2, 12]), Q, QdqPropagation())
    found.gives("Reshape", "DequantizeLinear")
    assert found.model.graph[1].attributes["axis"].as_int() == 0


def quantized(b: GraphBuilder, x: oir.Value) -> oir.Value:
    scale, zero = np.array([0.1, 0.2], np.float32), np.array([3, 0], np.uint8)
    return b.QuantizeLinear(x, b.const(scale), b.const(zero), axis=1)


def read_twice(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
    moved = b.transpose(x, [1, 0])
    return [quantized(b, moved), b.Neg(moved)]


UNMOVED: dict[str, Build] = {
    "read elsewhere": read_twice,
    "a function": lambda b, x: quantized(b, b.Exp(b.transpose(x, [1, 0]))),
    "of others": lambda b, x: quantized(b, foreign(b.transpose(x, [1, 0]))),
    "an operand moved": lambda b, x: b.transpose(x, [1, 0]),
    "a function moved": lambda b, x: b.transpose(b.Exp(x), [1, 0]),
    "cast": lambda b, x: b.transpose(b.cast(x, T.INT8), [1, 0]),
}


@pytest.mark.parametrize("name", UNMOVED)
def test_what_is_not_both_moved_and_stored(name: str) -> None:
    assert not fires(UNMOVED[name], X, QdqPropagation())


def test_an_operand_is_stored() -> None:
    assert not fires(quantized, {"x": X["x"].T.copy()}, QdqPropagation())


def test_shapes_that_are_computed_stay() -> None:
    def build(b: GraphBuilder, q: oir.Value, dims: oir.Value) -> oir.Value:
        x = dequantized(b, q, 0)
        types = [(T.FLOAT, (oir.SymbolicDim("n"), oir.SymbolicDim("m")))]
        return b.op("Reshape", x, dims, types=types)  # type: ignore[no-any-return]

    assert not fires(build, Q | {"dims": np.array([2, 12])}, QdqPropagation())


STAYS: dict[str, Any] = {
    "axes are joined from the first": lambda b, q: b.reshape(dequantized(b, q, 0), [6, 4]),
    "axes are mixed": lambda b, q: b.reshape(dequantized(b, q, 1), [3, 2, 4]),
    "it is quantized in blocks": lambda b, q: b.transpose(blocks(b, q), [1, 0, 2]),
    "it is expanded in blocks": lambda b, q: b.reshape(blocks(b, q), [2, 12]),
    "an axis is cut": lambda b, q: b.slice(dequantized(b, q, 1), [0, 1, 0], [2, 3, 4]),
    "it expands": lambda b, q: b.expand(dequantized(b, q), [5, 2, 3, 4]),
    "it computes": lambda b, q: b.Neg(dequantized(b, q)),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_does_not_move(name: str) -> None:
    Rewrite(STAYS[name], Q, QdqPropagation()).nothing()


SHIFTED = ["Cast", "BitwiseXor", "MatMulInteger"]


def wide(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.cast(x, T.INT32)


PRODUCTS: dict[str, Build] = {
    "64 bits": lambda b, x, y: b.MatMul(b.cast(x, T.INT64), b.cast(y, T.INT64)),
    "one computed": lambda b, x, y: b.MatMul(wide(b, x), b.Neg(wide(b, y))),
    "one of others": lambda b, x, y: b.MatMul(wide(b, x), foreign(wide(b, y))),
    "truth": lambda b, x, y: b.MatMul(wide(b, x), wide(b, b.cast(y, T.BOOL))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products(name: str) -> None:
    inputs = {"x": np.ones((3, 4), np.int8), "y": np.ones((4, 3), np.int8)}
    assert not fires(PRODUCTS[name], inputs, MatMulIntegerOperator())


def test_products_of_operands() -> None:
    inputs = {"x": np.ones((3, 4), np.int32), "y": np.ones((4, 3), np.int8)}
    assert not fires(lambda b, x, y: b.MatMul(x, wide(b, y)), inputs, MatMulIntegerOperator())


def test_products_of_several_matrices() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(b.reshape(wide(b, x), (2, 3, 4)), wide(b, y))

    inputs = {"x": np.arange(24).astype(np.uint8), "y": np.arange(8).astype(np.int8).reshape(4, 2)}
    Rewrite(build, inputs, MatMulIntegerOperator()).gives("Reshape", *SHIFTED)


@pytest.mark.parametrize(
    ("types", "nodes"),
    [
        ((np.int8, np.int8), ["MatMulInteger"]),
        ((np.uint8, np.int8), SHIFTED),
        ((np.uint8, np.uint8), ["MatMulInteger"]),
    ],
)
def test_integer_matmul(types: tuple[type, type], nodes: list[str]) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        moved = b.transpose(b.cast(y, T.INT32), [1, 0])
        return b.MatMul(b.cast(x, T.INT32), moved)

    first, second = (np.arange(-8, 4).astype(dtype) for dtype in types)
    inputs = {"x": first.reshape(3, 4), "y": second.reshape(3, 4)}
    Rewrite(build, inputs, MatMulIntegerOperator()).gives("Transpose", *nodes)


def product(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.MatMul(wide(b, x), wide(b, y))


MIXED = {"x": np.ones((3, 4), np.uint8), "y": np.ones((4, 3), np.int8)}


def test_what_the_target_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Target, "supports_pair", lambda _, *key: asked.append(key))
    assert not fires(product, MIXED, MatMulIntegerOperator(), opset=21)
    assert asked == [("MatMulInteger.B", T.UINT8, T.UINT8, 21)]


def test_mixed_products_without_bitwise_xor() -> None:
    assert not fires(product, MIXED, MatMulIntegerOperator(), opset=17)
    assert fires(product, MIXED, MatMulIntegerOperator(), opset=18)

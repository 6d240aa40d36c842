"""The rules on quantized arithmetic."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import NOTHING, graph, rewrites
from rewriting import Build, fires, foreign

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.quantized.quantize_dequantize import (
    MatMulIntegerOperator,
    QdqPropagation,
    Quantize,
)
from hlo2onnx.targets.target import Target

T = oir.DataType
X = {"x": np.array([[-40.0, -1.3, -0.26], [0.3, 1.7, 100.0]], np.float32)}


def guarded(b: GraphBuilder, x: oir.Value, times: int = 1) -> oir.Value:
    for _ in range(times):
        x = b.Where(b.IsNaN(x), b.scalar(0, T.FLOAT), x)
    return x


CONSTANTS = {
    "guarded": guarded,
    "clip": lambda b, x: b.Clip(x, b.scalar(-128, T.FLOAT), b.scalar(127, T.FLOAT)),
    "LOWER": np.array([-128, -100, -90], np.float32),
    "ZEROS": np.array([1, 2, 3], np.float32),
    "EACH": np.full((2, 3), 0.37, np.float32),
    "AXES": np.array([[[0.1, 0.2, 0.3]]], np.float32),
    "SOME": np.array([0, 1, 0], np.float32),
}
SPELLINGS = [
    "clip(Round(x / 0.37))",
    "Round(clip(x / 0.37))",
    "clip(Round(x / 0.37) + 4)",
    "Round(clip(4 + x / 0.37))",
    "Min(127, Max(Round(x / 0.37), -128))",
    "Min(Max(-128, Round(x / 0.37)), 127)",
    "guarded(Round(clip(x / 0.37)))",
    "clip(guarded(Round(x / 0.37), 5))",  # as many steps as are read
    "clip(Min(500, Max(Round(x / 0.37), -500)))",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_quantize(text: str) -> None:
    rewrites(f"cast({text}, INT8)", "QuantizeLinear", X, Quantize(), constants=CONSTANTS)


def test_narrow_bounds_stay_and_computed_scales_have_no_axis() -> None:
    narrow = "cast(Clip(Round(x / 0.37), -127, 127), INT8)"
    rewrites(narrow, "QuantizeLinear Clip", X, Quantize())
    text = "cast(clip(Round(x / ReduceMax(x, [0, 1], keepdims=1))), INT8)"
    left = "ReduceMax Reshape QuantizeLinear"
    rewrites(text, left, X, Quantize(), constants=CONSTANTS)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1)])
def test_scales_along_an_axis(shape: tuple[int, ...]) -> None:
    scales = np.linspace(0.1, 0.9, max(shape)).astype(np.float32).reshape(shape)
    text = "cast(Clip(Round(x / SCALES), 0, 255), UINT8)"
    rewrite = rewrites(text, "QuantizeLinear", X, Quantize(), constants={"SCALES": scales})
    (node,) = rewrite.model.graph
    assert node.attributes["axis"].as_int() == (0 if shape == (2, 1) else 1)


MISSES = [
    "clip(x / 0.37)",
    "Round(x / 0.37)",
    "clip(Floor(x / 0.37))",
    "clip(Round(Round(x / 0.37)))",
    "clip(Round(x * 3))",
    "clip(Round(x / 0.37)) - 0",
    "x",
    "clip(x)",
    # Bounds: one, too wide, between integers, the wrong way round, of columns, computed.
    "Max(Round(x / 0.37), -128)",
    "Clip(Round(x / 0.37), -128)",
    "Clip(Round(x / 0.37), -128, 200)",
    "Clip(Round(x / 0.37), -129, 127)",
    "Round(Clip(x / 0.37, -99.5, 99))",
    "Round(Clip(x / 0.37, -99, 99.5))",
    "Max(Min(Round(x / 0.37), -5), 5)",
    "Max(Min(Round(x / 0.37), 127), LOWER)",
    "Max(Min(Round(x / 0.37), 127), x)",
    # Zero points: after the clip, no integer, two, computed, out of range, of columns.
    "clip(Round(x / 0.37)) + 4",
    "clip(Round(x / 0.37) + 0.5)",
    "clip(Round(x / 0.37) + 4 + 3)",
    "clip(Round(x / 0.37) + Round(x))",
    "clip(Round(x / 0.37) + 200)",
    "clip(Round(x / 0.37) + -129)",
    "clip(Round(x / 0.37) + ZEROS)",
    "Round(x / 0.37) + 4",
    # Scales of columns that are computed, of elements, and of more axes.
    "clip(Round(x / ReduceMax(Abs(x), [0], keepdims=1)))",
    "clip(Round(x / EACH))",
    "clip(Round(x / AXES))",
    # Guards: too many, by other numbers, against infinity, and of another value.
    "clip(guarded(Round(x / 0.37), 6))",
    "(r := Round(clip(x / 0.37)), Where(IsNaN(r), SOME, r))[1]",
    "(r := Round(clip(x / 0.37)), Where(IsNaN(r), Round(x), r))[1]",
    "(r := Round(clip(x / 0.37)), Where(IsInf(r), scalar(0, FLOAT), r))[1]",
    "Where(IsNaN(x), scalar(0, FLOAT), Round(clip(x / 0.37)))",
]


@pytest.mark.parametrize("text", MISSES)
def test_what_is_no_quantization(text: str) -> None:
    x = {"x": np.clip(X["x"], -20, 20)}
    rewrites(f"cast({text}, INT8)", NOTHING, x, Quantize(), constants=CONSTANTS)


def test_a_condition_from_outside_guards_nothing() -> None:
    build = graph("cast(Where(c, 0.0, Round(clip(x / 0.37))), INT8)", **CONSTANTS)
    assert not fires(build, X | {"c": X["x"] > 0}, Quantize())


@pytest.mark.parametrize(("shape", "left"), [((3,), "QuantizeLinear"), ((3, 1), NOTHING)])
def test_zero_points_along_an_axis(shape: tuple[int, ...], left: str) -> None:
    """Beside scales along the same axis."""
    zeros = np.array([1, -2, 3], np.float32).reshape(shape)
    constants = CONSTANTS | {"SCALES": np.linspace(0.1, 0.9, 3).astype(np.float32), "POINTS": zeros}
    x = {"x": np.resize(X["x"], (3, 3)) / 9}
    text = "cast(clip(Round(x / SCALES) + POINTS), INT8)"
    rewrites(text, left, x, Quantize(), constants=constants)


def test_doubles_are_left_alone() -> None:
    x = {"x": X["x"].astype(np.float64)}
    rewrites("cast(Clip(Round(x / 0.37), -128, 127), INT8)", NOTHING, x, Quantize())


Q = {"q": np.arange(-12, 12).astype(np.int8).reshape(2, 3, 4)}


def dequantized(b: GraphBuilder, q: oir.Value, axis: int | None = None) -> oir.Value:
    size = 1 if axis is None else int(q.shape[axis])  # type: ignore[index]
    scale = np.linspace(0.1, 0.9, size).astype(np.float32)
    zero = np.arange(size).astype(np.int8)
    if axis is None:
        scale, zero = scale.reshape(()), zero.reshape(())
    return b.DequantizeLinear(q, b.const(scale), b.const(zero), axis=axis)


def blocks(b: GraphBuilder, q: oir.Value) -> oir.Value:
    """A scale for two rows each."""
    scale = b.const(np.ones((1, 3, 4), np.float32))
    return b.DequantizeLinear(q, scale, axis=0, block_size=2)


def quantized(b: GraphBuilder, x: oir.Value) -> oir.Value:
    scale, zero = np.array([0.1, 0.2], np.float32), np.array([3, 0], np.uint8)
    return b.QuantizeLinear(x, b.const(scale), b.const(zero), axis=1)


STORED = {"dequantized": dequantized, "blocks": blocks, "quantized": quantized}
MOVES: dict[str, str] = {
    "transpose(dequantized(q), [2, 0, 1])": "Transpose",
    "transpose(dequantized(q, 1), [2, 0, 1])": "Transpose",
    "reshape(dequantized(q), [6, 4])": "Reshape",
    "reshape(dequantized(q, 2), [6, 4])": "Reshape",
    "reshape(dequantized(q, 0), [2, 12])": "Reshape",
    "unsqueeze(dequantized(q, 0), [0])": "Unsqueeze",
    "slice(dequantized(q), [0, 1, 0], [2, 3, 4])": "Slice",
    "slice(dequantized(q, 2), [0, 1, 0], [2, 3, 4])": "Slice",
}


@pytest.mark.parametrize("text", MOVES)
def test_stored_values_move(text: str) -> None:
    left = f"{MOVES[text]} DequantizeLinear"
    first, last = rewrites(text, left, Q, QdqPropagation(), constants=STORED).model.graph
    assert first.op_type == MOVES[text]
    if text.endswith("[2, 12])"):  # the axis among others that are joined
        assert last.attributes["axis"].as_int() == 0


def test_a_move_follows_storing() -> None:
    text, left = "quantized(transpose(x, [1, 0]))", "QuantizeLinear Transpose"
    first, _ = rewrites(text, left, X, QdqPropagation(), constants=STORED).model.graph
    assert (first.op_type, first.attributes["axis"].as_int()) == ("QuantizeLinear", 0)


@pytest.mark.parametrize("axis", [-2, None])
def test_an_axis_that_is_not_named_or_negative(axis: int | None) -> None:
    """It is the second one."""
    scales = {"SCALES": np.array([0.1, 0.2, 0.3], np.float32)}
    text = f"transpose(DequantizeLinear(q, SCALES, axis={axis}), [1, 2, 0])"
    left = "Transpose DequantizeLinear"
    found = rewrites(text, left, Q, QdqPropagation(), constants=scales)
    assert found.model.graph[1].attributes["axis"].as_int() == 0


@pytest.mark.parametrize(("perm", "axis"), [([0, 2, 1], 0), ([2, 0, 1], 1), ([1, 0, 2], 1)])
def test_scales_of_blocks_move_too(perm: list[int], axis: int) -> None:
    text = f"transpose(blocks(q), {perm})"
    nodes = "Transpose Transpose DequantizeLinear"
    found = rewrites(text, nodes, Q, QdqPropagation(), constants=STORED)
    attributes = found.model.graph[2].attributes
    assert (attributes["axis"].as_int(), attributes["block_size"].as_int()) == (axis, 2)


STAYS = [
    # Read elsewhere, functions, operands, and casts.
    "(m := transpose(x, [1, 0]), quantized(m), Neg(m))[1:]",
    "quantized(Exp(transpose(x, [1, 0])))",
    "transpose(x, [1, 0])",
    "transpose(Exp(x), [1, 0])",
    "transpose(cast(x, INT8), [1, 0])",
    # Axes that are joined from the first, mixed, in blocks, or cut.
    "reshape(dequantized(q, 0), [6, 4])",
    "reshape(dequantized(q, 1), [3, 2, 4])",
    "reshape(blocks(q), [2, 12])",
    "slice(dequantized(q, 1), [0, 1, 0], [2, 3, 4])",
    "expand(dequantized(q), [5, 2, 3, 4])",
    "Neg(dequantized(q))",
]


@pytest.mark.parametrize("text", STAYS)
def test_what_does_not_move(text: str) -> None:
    assert not fires(graph(text, **STORED), X | Q, QdqPropagation())


def test_moves_of_others_and_operands_that_are_stored_stay() -> None:
    moved = lambda b, x: quantized(b, foreign(b.transpose(x, [1, 0])))  # noqa: E731
    assert not fires(moved, X, QdqPropagation())
    assert not fires(quantized, {"x": X["x"].T.copy()}, QdqPropagation())


def test_shapes_that_are_computed_stay() -> None:
    def build(b: GraphBuilder, q: oir.Value, dims: oir.Value) -> oir.Value:
        x = dequantized(b, q, 0)
        types = [(T.FLOAT, (oir.SymbolicDim("n"), oir.SymbolicDim("m")))]
        return b.op("Reshape", x, dims, types=types)  # type: ignore[no-any-return]

    assert not fires(build, Q | {"dims": np.array([2, 12])}, QdqPropagation())


# -- products of integers --------------------------------------------------------------------------

SHIFTED = "Cast BitwiseXor MatMulInteger"
MIXED = {"x": np.ones((3, 4), np.uint8), "y": np.ones((4, 3), np.int8)}
PRODUCT = graph("MatMul(cast(x, INT32), cast(y, INT32))")


def wide(b: GraphBuilder, x: oir.Value) -> oir.Value:
    return b.cast(x, T.INT32)


PRODUCTS: dict[str, Build] = {
    "64 bits": graph("MatMul(cast(x, INT64), cast(y, INT64))"),
    "one computed": graph("MatMul(cast(x, INT32), Neg(cast(y, INT32)))"),
    "one of others": lambda b, x, y: b.MatMul(wide(b, x), foreign(wide(b, y))),
    "truth": graph("MatMul(cast(x, INT32), cast(cast(y, BOOL), INT32))"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_other_products(name: str) -> None:
    inputs = {"x": np.ones((3, 4), np.int8), "y": np.ones((4, 3), np.int8)}
    assert not fires(PRODUCTS[name], inputs, MatMulIntegerOperator())
    assert not fires(
        graph("MatMul(x, cast(y, INT32))"),
        inputs | {"x": np.ones((3, 4), np.int32)},
        MatMulIntegerOperator(),
    )


def test_products_of_several_matrices() -> None:
    inputs = {"x": np.arange(24).astype(np.uint8), "y": np.arange(8).astype(np.int8).reshape(4, 2)}
    text = "MatMul(reshape(cast(x, INT32), (2, 3, 4)), cast(y, INT32))"
    rewrites(text, f"Reshape {SHIFTED}", inputs, MatMulIntegerOperator())


@pytest.mark.parametrize(
    ("types", "nodes"),
    [
        ((np.int8, np.int8), "MatMulInteger"),
        ((np.uint8, np.int8), SHIFTED),
        ((np.uint8, np.uint8), "MatMulInteger"),
    ],
)
def test_integer_matmul(types: tuple[type, type], nodes: str) -> None:
    first, second = (np.arange(-8, 4).astype(dtype) for dtype in types)
    inputs = {"x": first.reshape(3, 4), "y": second.reshape(3, 4)}
    text = "MatMul(cast(x, INT32), transpose(cast(y, INT32), [1, 0]))"
    rewrites(text, f"Transpose {nodes}", inputs, MatMulIntegerOperator())


def test_what_the_target_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Target, "supports_pair", lambda _, *key: asked.append(key))
    assert not fires(PRODUCT, MIXED, MatMulIntegerOperator(), opset=21)
    assert asked == [("MatMulInteger.B", T.UINT8, T.UINT8, 21)]


def test_mixed_products_without_bitwise_xor() -> None:
    assert not fires(PRODUCT, MIXED, MatMulIntegerOperator(), opset=17)
    assert fires(PRODUCT, MIXED, MatMulIntegerOperator(), opset=18)

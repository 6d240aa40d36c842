"""Quantized arithmetic as QuantizeLinear, DequantizeLinear and MatMulInteger."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import (
    const_of,
    dtype_of,
    is_constant,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import first, maker_of, operands
from hlo2onnx.raising.patterns import Name, Op, match
from hlo2onnx.raising.rules.quantized.stored_weights import moved_before_cast, zero_points

T = oir.DataType


class Quantize(Rule):
    """Cast(Clip(Round(Div(x, s)) + z, low, high)) -> QuantizeLinear(x, s, z)

    Also for other orders of adding, rounding and clipping, and for Max and Min as the clip. If the
    sum is rounded, QuantizeLinear may differ at numbers halfway between two steps, if z is odd, and
    by the rounding of the sum. NaN becomes the lowest number: a Cast leaves that open. Narrower
    bounds than the type's stay as a Clip.
    """

    name = "quantize-linear"
    anchors = frozenset({"Cast"})
    drops_nan = True

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        stored, steps = dtype_of(node.outputs[0]), _steps_to(first(node))
        x, rank = steps.x, rank_of(steps.x)
        need(dtype_of(x) == T.FLOAT, "QuantizeLinear computes in f32", x)
        need(shape_of(x) == shape_of(node.outputs[0]), "a parameter determines the shape", node)
        need(b.target.supports_pair("QuantizeLinear", T.FLOAT, stored, b.opset), "no kernel", node)
        bounds = range_of_type(stored)
        fits = bounds.low <= steps.low <= steps.high <= bounds.high
        need(fits and steps.low == int(steps.low), "its bounds leave the type's range", node)
        need(steps.high == int(steps.high), "its bounds are not integers", node)
        scale, axis = _parameter(b, steps.scale, rank)
        zeros = _zeros(b, steps.zero, scale, stored, rank, axis)
        quantized = b.QuantizeLinear(x, scale, zeros, axis=axis)
        if (steps.low, steps.high) == (bounds.low, bounds.high):
            return quantized
        low, high = (b.scalar(int(bound), stored) for bound in (steps.low, steps.high))
        return b.Clip(quantized, low, high)


@dataclass(frozen=True)
class _Steps:
    """clip(round(x / scale) + zero, low, high), in one of its orders."""

    x: oir.Value
    scale: oir.Value
    zero: oir.Value | None
    low: float
    high: float


_GUARDED = Op("Where", Op("IsNaN", Name("v")), 0.0, Name("v"))
_LONGEST = 8
"""Steps that are followed: a limit on compile time, not a cost."""


def _steps_to(value: oir.Value) -> _Steps:
    """Reads the expression of a value that is about to be stored, outermost node first.

    Raises:
        Refusal: It is another expression.
    """
    zero, low, high, rounds = None, -math.inf, math.inf, 0
    for _ in range(_LONGEST):
        node = needed(value.producer(), "it is not computed", value)
        need(not node.domain, "an operator is not standard", value)
        if (guarded := match(_GUARDED, value)) is not None:
            value = guarded["v"]
        elif node.op_type == "Div":
            need(rounds == 1 and max(-low, high) < math.inf, "it is not rounded and clipped", node)
            x, scale = operands(node)
            return _Steps(x, scale, zero, low, high)
        elif node.op_type == "Round":
            rounds, value = rounds + 1, first(node)
        elif node.op_type == "Add":
            known = [x for x in node.inputs if is_constant(x)]
            need(zero is None and len(known) == 1 and low > -math.inf, "no zero point added", node)
            zero = known[0]
            value = next(x for x in node.inputs if x is not None and x is not zero)
        else:
            need(zero is None, "it is clipped before the zero point is added", node)
            value, least, most = _clip(node)
            low, high = max(low, least), min(high, most)
    raise Refusal("the expression has too many nodes", value)


def _clip(node: oir.Node) -> tuple[oir.Value, float, float]:
    """The operand and the constant bounds of a Clip, Max or Min."""
    known = [const_of(x) for x in node.inputs if x is not None]
    numbers = [array.item() for array in known if array is not None and array.size == 1]
    values = [x for x, array in zip(node.inputs, known, strict=False) if array is None]
    need(len(values) == 1 and values[0] is not None, "its bounds are not known", node)
    assert values[0] is not None
    if node.op_type == "Clip":
        need(len(numbers) == 2, "it has only one bound", node)
        return values[0], numbers[0], numbers[1]
    need(node.op_type in ("Max", "Min") and len(numbers) == 1, "it is not clipped", node)
    if node.op_type == "Max":
        return values[0], numbers[0], math.inf
    return values[0], -math.inf, numbers[0]


def _parameter(b: Rewriter, value: oir.Value, rank: int) -> tuple[oir.Value, int | None]:
    """A scale in the form of QuantizeLinear: a number, or one for each index along an axis."""
    shape = shape_of(value)
    if all(dim == 1 for dim in shape):
        return b.reshape(value, ()), None
    need(is_constant(value), "scales along an axis are computed", value)
    long = [axis for axis, dim in enumerate(shape) if dim != 1]
    need(len(long) == 1 and len(shape) <= rank, "scales along several axes", value)
    flat = b.derived(lambda array: array.reshape(-1), value, is_moved=True)
    return flat, rank - len(shape) + long[0]


def _zeros(
    b: Rewriter,
    zero: oir.Value | None,
    scale: oir.Value,
    stored: oir.DataType,
    rank: int,
    axis: int | None,
) -> oir.Value:
    """The zero points for these scales, in the stored type."""
    if zero is None:
        return b.const(np.zeros(shape_of(scale), stored.numpy()))  # type: ignore[arg-type]
    dims = static_shape(scale)
    assert dims is not None

    def whole(array: np.ndarray) -> np.ndarray:
        points = zero_points(array, stored)
        return np.broadcast_to(points.reshape(()), dims) if array.size == 1 else points

    if is_constant(zero) and size_of(zero) == 1:
        return b.derived(whole, zero)
    found, along = _parameter(b, zero, rank)
    need(
        along == axis and shape_of(found) == dims,
        "the zero points differ in shape from the scales",
        zero,
    )
    return b.derived(whole, found)


_MOVERS = frozenset({"Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
_SOURCES = {
    "QuantizeLinear": _MOVERS,
    **dict.fromkeys(_MOVERS | {"Gather"}, frozenset({"Cast", "DequantizeLinear"})),
}


class QdqPropagation(Rule):
    """Move(DequantizeLinear(q)) -> DequantizeLinear(Move(q)), and QuantizeLinear(Move(x)) ->
    Move(QuantizeLinear(x)), for Transpose, Reshape, Squeeze, Unsqueeze and Slice

    Also Move(Cast(c)) -> Cast(Move(c)) for a constant c of a narrower type, and then for Gather.

    Moves then work on bytes, and MatMul and Conv stand between conversions, where runtimes look for
    them. ONNX Runtime 1.31 fails to load int8 models of opset 21 and later if it has to do this by
    itself.
    """

    name = "qdq-propagation"
    formerly = ("move-stored",)
    anchors = frozenset(_SOURCES)
    sources = _SOURCES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        stores = node.op_type == "QuantizeLinear"
        cast = None if stores else maker_of(first(node), "Cast")
        if cast is not None:
            return moved_before_cast(node, cast, b)
        inner = needed(first(node).producer(), "no producer", node)
        need(not inner.domain, "it is not a standard operator", inner)
        move, conversion = (inner, node) if stores else (node, inner)
        need(not stores or len(first(node).uses()) == 1, "it has other readers", node)
        converts = "QuantizeLinear" if stores else "DequantizeLinear"
        need(conversion.op_type == converts, "it is not next to a conversion", conversion)
        is_move = move.op_type in _MOVERS
        need(is_move, "it does not only move elements", move)
        x, parameters = first(move if stores else conversion), conversion.inputs[1:]
        if "block_size" in conversion.attributes:
            need(move.op_type == "Transpose" and not stores, "it is quantized in blocks", move)
            perm = list(move.attributes["perm"].as_ints())
            parameters = tuple(y if y is None else b.transpose(y, perm) for y in parameters)
        axis = _moved_axis(move, conversion, inverse=stores)
        if stores:
            return _same(b, move, _same(b, conversion, x, *parameters, axis=axis))
        return _same(b, conversion, _same(b, move, x), *parameters, axis=axis)


def _same(
    b: Rewriter, like: oir.Node, x: oir.Value, *others: oir.Value | None, axis: int | None = None
) -> oir.Value:
    """The same node on another operand, of the type that this gives."""
    if like.op_type in ("DequantizeLinear", "QuantizeLinear"):
        block = like.attributes["block_size"].as_int() if "block_size" in like.attributes else None
        made = b.op(like.op_type, x, *others, axis=axis, block_size=block)
    else:
        types = [(dtype_of(x), shape_of(like.outputs[0]))]
        made = b.like(like, [x, *like.inputs[1:]], types)
    return made


def _moved_axis(move: oir.Node, conversion: oir.Node, inverse: bool) -> int | None:
    """The quantized axis on the other side of the move; None for a single scale."""
    scale = conversion.inputs[1]
    assert scale is not None
    if rank_of(scale) == 0:
        return None
    shapes = [static_shape(x) for x in (first(move), move.outputs[0])]
    before, after = (needed(dims, "its shape is dynamic", move) for dims in shapes)
    if inverse:
        before, after = after, before
    axis = conversion.attributes.get_int("axis", 1) % len(before)
    if move.op_type == "Transpose":
        perm = list(move.attributes["perm"].as_ints())
        return perm[axis] if inverse else perm.index(axis)
    need(move.op_type != "Slice" or before[axis] == after[axis], "it slices the axis", move)
    if move.op_type == "Slice":
        return axis
    same = [
        at
        for at, dim in enumerate(after)
        if dim == before[axis] and math.prod(after[:at]) == math.prod(before[:axis])
    ]
    need(same, "it splits or joins the quantized axis", move)
    return same[0]


class MatMulIntegerOperator(Rule):
    """MatMul(Cast(a), Cast(b)), from 8 bits to i32 -> MatMulInteger(a, b)

    Also if the casted operands are transposed or reshaped. For unsigned a and signed b it is
    MatMulInteger(a, b + 128, 0, 128): on x64 processors without VNNI, ONNX Runtime adds pairs of
    products of such numbers in 16 bits, which saturate.
    """

    name = "matmul-integer"
    formerly = ("integer-matmul",)
    anchors = frozenset({"MatMul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It accumulates in i32."""
        return dtype == T.INT32

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(dtype_of(node.outputs[0]) == T.INT32, "it does not accumulate in i32", node)
        lhs, rhs = operands(node)
        narrow = [_uncast(x) for x in (lhs, rhs)]
        need(None not in narrow, "an operand has more than 8 bits", node)
        types = [dtype_of(x) for x in narrow if x is not None]
        is_mixed = types == [T.UINT8, T.INT8]
        need(not is_mixed or b.supports("BitwiseXor", T.UINT8), "no BitwiseXor to shift b by 128")
        second = T.UINT8 if is_mixed else types[1]
        need(b.target.supports_pair("MatMulInteger.B", types[0], second, b.opset), "no kernel")
        x, y, zeros = _moved(lhs, b), _moved(rhs, b), []
        if is_mixed:
            zero = b.scalar(128, T.UINT8)
            y, zeros = b.BitwiseXor(b.cast(y, T.UINT8), zero), [None, zero]
        made = [(T.INT32, shape_of(node.outputs[0]))]
        return b.op("MatMulInteger", x, y, *zeros, types=made)


_MOVES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def _uncast(value: oir.Value) -> oir.Value | None:
    """The 8-bit integers before a cast and moves; None if there are none."""
    node = value.producer()
    if node is None or node.domain:
        return None
    if node.op_type in _MOVES:
        return _uncast(first(node))
    if node.op_type == "Cast" and dtype_of(first(node)) in (T.INT8, T.UINT8):
        return first(node)
    return None


def _moved(value: oir.Value, b: Rewriter) -> oir.Value:
    """The same value before the cast."""
    node = value.producer()
    assert node is not None
    if node.op_type == "Cast":
        return first(node)
    return _same(b, node, _moved(first(node), b))

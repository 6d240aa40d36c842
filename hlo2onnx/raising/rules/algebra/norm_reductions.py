"""Sums of squares and of magnitudes, and norms, as single reductions."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import keeps_axes, reduced_axes
from hlo2onnx.raising.match.views import first, maker_of, source_of

_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


class ReduceSumSquareOperator(Rule):
    """ReduceSum(x * x) -> ReduceSumSquare(x), ReduceSum(Abs(x)) -> ReduceL1(x)

    Legal in f32 and f64, except for sums so long that the target loses digits: those are split into
    shorter ones. Done if it is as fast, for at least one element.
    """

    name = "reduce-sum-square"
    formerly = ("sum-of-terms",)
    anchors = frozenset({"ReduceSum"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        terms = first(node)
        magnitude = source_of(terms, "Abs")
        x = needed(magnitude or _squared(terms), "it sums neither squares nor magnitudes", node)
        axes = reduced_axes(node)
        op_type = "ReduceSumSquare" if magnitude is None else "ReduceL1"
        return reduced(b, op_type, x, axes, keeps_axes(node))


class ReduceL2Operator(Rule):
    """Sqrt(ReduceSumSquare(x)) -> ReduceL2(x)"""

    name = "reduce-l2"
    formerly = ("norm",)
    anchors = frozenset({"Sqrt"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        summed = needed(maker_of(first(node), "ReduceSumSquare"), "no sum of squares", node)
        return reduced(b, "ReduceL2", first(summed), reduced_axes(summed), keeps_axes(summed))


def reduced(
    b: Rewriter, op_type: str, x: oir.Value, axes: tuple[int, ...], keepdims: bool
) -> oir.Value:
    """The reduction of x.

    Raises:
        Refusal: The kernel lacks the type, the digits or the speed; or x may be empty, for which
            its result has a wrong shape.
    """
    dims = static_shape(x)
    need(dims, "its extents are not known, or it is a scalar", x)
    assert dims
    need(dtype_of(x) in _TYPES and b.supports(op_type, dtype_of(x)), "no kernel for its type", x)
    need(0 < math.prod(dims) <= b.costs.small_elements, "the kernel is slow, or x may be empty", x)
    terms = math.prod(dims[axis] for axis in axes)
    trailing = axes == tuple(range(rank_of(x) - len(axes), rank_of(x)))
    most = b.costs.inner_sum_terms if trailing else b.costs.outer_sum_terms
    need(not b.target.flags.naive_sums or terms < most, "the kernel loses digits", x)
    return b.op(op_type, x, b.i64(axes), keepdims=int(keepdims))


def _squared(value: oir.Value) -> oir.Value | None:
    node = value.producer()
    if node is None or node.op_type != "Mul" or node.domain:
        return None
    x, y = node.inputs
    return x if x is y else None

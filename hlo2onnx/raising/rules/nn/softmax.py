"""Softmax, its logarithm, and the logarithm of sums of exponentials."""

from __future__ import annotations

import math

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_number, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.rules.shapes.reshape import RESHAPES, first, source_of
from hlo2onnx.raising.rules.shapes.unit_dims import keeps_axes, reduced_axes


def reduction_of(value: oir.Value | None, op_type: str, *of: oir.Value) -> tuple[int, ...]:
    """The axes over which `value` is this reduction of one of some values, in a shape that stands
    beside it element by element. Reshapes of it may have left it there.

    Raises:
        Refusal: It is something else.
    """
    reduced = value
    while reduced is not None and (source := source_of(reduced, *RESHAPES)) is not None:
        reduced = source
    node = None if reduced is None else reduced.producer()
    need(node is not None and node.op_type == op_type and not node.domain, f"no {op_type}", value)
    assert node is not None
    x = first(node)
    need(x in of, f"the {op_type} is of something else", node)
    axes = reduced_axes(node)
    if reduced is value:
        leading = axes == tuple(range(len(axes)))
        aligned = keeps_axes(node) or leading or set(shape_of(node.outputs[0])) <= {1}
    else:
        assert value is not None
        kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape_of(x)))
        aligned = (1,) * (rank_of(x) - rank_of(value)) + shape_of(value) == kept
    need(aligned, f"the {op_type} does not stand beside what it is of", node)
    return axes


def _shifted(value: oir.Value) -> tuple[oir.Value, int]:
    """x and the axis for x - max(x)."""
    node = value.producer()
    need(node is not None and node.op_type == "Sub", "nothing is subtracted before Exp", value)
    assert node is not None
    x, highest = first(node), node.inputs[1]
    axes = reduction_of(highest, "ReduceMax", x)
    need(len(axes) == 1, "it runs over several axes", node)
    return x, axes[0]


def _operator(b: Rewriter, op_type: str, x: oir.Value, axis: int) -> oir.Value:
    need(dtype_of(x) in FLOATS and b.supports(op_type, dtype_of(x)), f"no {op_type} for its type")
    axis = -1 if axis == rank_of(x) - 1 else axis
    return b.op(op_type, x, axis=axis)


class Softmax(Rule):
    """Div(e, ReduceSum(e, a)) with e = Exp(Sub(x, ReduceMax(x, a))) -> Softmax(x, axis=a)

    A row with NaN or +inf, and one of -inf alone, is NaN either way.
    """

    name = "softmax"
    anchors = frozenset({"Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        exponential, total = node.inputs
        assert exponential is not None
        shifted = source_of(exponential, "Exp")
        need(shifted is not None, "no exponential is divided", node)
        assert shifted is not None
        axes = reduction_of(total, "ReduceSum", exponential)
        x, axis = _shifted(shifted)
        need(axes == (axis,), "maximum and sum run over different axes", node)
        return _operator(b, "Softmax", x, axis)


class LogSoftmax(Rule):
    """s - Log(ReduceSum(Exp(s), a)) with s = Sub(x, ReduceMax(x, a)) -> LogSoftmax(x, axis=a)

    Legal but for f64 where the target's kernel makes numbers in a row with NaN or +inf.
    """

    name = "log-softmax"
    anchors = frozenset({"Sub"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        shifted, logarithm = node.inputs
        assert shifted is not None and logarithm is not None
        total = source_of(logarithm, "Log")
        need(total is not None, "no logarithm is subtracted", node)
        assert total is not None
        summed = total.producer()
        need(summed is not None and summed.op_type == "ReduceSum", "it is of no sum", node)
        assert summed is not None
        exponential = first(summed)
        need(source_of(exponential, "Exp") is shifted, "the sum is not of its exponentials", node)
        axes = reduction_of(total, "ReduceSum", exponential)
        x, axis = _shifted(shifted)
        need(axes == (axis,), "maximum and sum run over different axes", node)
        is_exact = dtype_of(x) != oir.DataType.DOUBLE or not b.target.flags.loses_nan
        need(is_exact, "its kernel loses NaN in this type", x)
        return _operator(b, "LogSoftmax", x, axis)


class LogSumExp(Rule):
    """m + Log(ReduceSum(Exp(x - m), a)) -> ReduceLogSumExp(x, a)

    Legal for m = ReduceMax(x, a), and 0 where that is infinite, as the operator has it, too: rows
    of -inf alone give -inf. The sum may stand in Abs. Done where it is faster, for at least one
    element.
    """

    name = "log-sum-exp"
    anchors = frozenset({"Add"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        logarithm, highest = node.inputs
        assert logarithm is not None and highest is not None
        if source_of(logarithm, "Log") is None:
            logarithm, highest = highest, logarithm
        total = source_of(logarithm, "Log")
        need(total is not None, "no logarithm is added", node)
        assert total is not None
        total = source_of(total, "Abs") or total
        summed = total.producer()
        need(summed is not None and summed.op_type == "ReduceSum", "it is of no sum", node)
        assert summed is not None
        shifted = source_of(first(summed), "Exp")
        difference = None if shifted is None else shifted.producer()
        need(difference is not None and difference.op_type == "Sub", "it is no shifted Exp", node)
        assert difference is not None
        x, axes = first(difference), reduced_axes(summed)
        beside = reduction_of(_finite(difference.inputs[1]), "ReduceMax", x)
        need(axes and beside == axes, "maximum and sum run over different axes", node)
        need(shape_of(shifted) == shape_of(x), "the maximum is not x's own", node)  # type: ignore[arg-type]
        outer = _finite(highest).producer()
        need(outer is not None and outer.op_type == "ReduceMax", "no maximum is added", node)
        assert outer is not None
        need(first(outer) is x and reduced_axes(outer) == axes, "it is another maximum", node)
        need(shape_of(highest) == shape_of(total), "the sum does not have its shape", node)
        return self._operator(b, x, axes, keeps_axes(summed))

    def _operator(
        self, b: Rewriter, x: oir.Value, axes: tuple[int, ...], keepdims: bool
    ) -> oir.Value:
        # Where an extent is 0 the kernel gives a wrong shape.
        elements = math.prod(static_shape(x) or (0,))
        need(
            0 < elements <= b.costs.log_sum_exp_elements, "the kernel is slow, or x may be empty", x
        )
        is_supported = dtype_of(x) in FLOATS and b.supports("ReduceLogSumExp", dtype_of(x))
        need(is_supported, "no ReduceLogSumExp for its type", x)
        return b.ReduceLogSumExp(x, b.i64(axes), keepdims=int(keepdims))


def _finite(value: oir.Value | None) -> oir.Value:
    """r of Where(|r| <= the largest number, r, 0)."""
    node = None if value is None else value.producer()
    need(node is not None and node.op_type == "Where", "it is no guarded maximum", value)
    assert node is not None
    is_finite, r, zero = node.inputs
    assert is_finite is not None and r is not None
    test = is_finite.producer()
    need(test is not None and test.op_type == "LessOrEqual", "infinity is not asked for", node)
    assert test is not None
    largest = float(ml_dtypes.finfo(dtype_of(r).numpy()).max) if dtype_of(r) in FLOATS else None
    need(const_number(test.inputs[1]) == largest, "it is another limit", test)
    need(source_of(first(test), "Abs") is r, "something else is asked", test)
    need(const_number(zero) == 0, "it becomes something else than 0", node)
    return r

"""Softmax and its logarithm."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.graph.values import FLOATS, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.rules.shape import first, source_of
from hlo2onnx.raising.rules.units import keeps_axes, reduced_axes


def reduction_of(value: oir.Value | None, op_type: str, *of: oir.Value) -> tuple[int, ...]:
    """The axes over which `value` is this reduction of one of some values, in a shape that stands
    beside it element by element.

    Raises:
        Refusal: It is something else.
    """
    node = None if value is None else value.producer()
    need(node is not None and node.op_type == op_type and not node.domain, f"no {op_type}", value)
    assert node is not None
    x = first(node)
    need(x in of, f"the {op_type} is of something else", node)
    axes = reduced_axes(node)
    leading = axes == tuple(range(len(axes)))
    aligned = keeps_axes(node) or leading or set(shape_of(node.outputs[0])) <= {1}
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
    need(shape_of(value) == shape_of(x), "the maximum is not x's own", node)
    return x, axes[0]


def _operator(b: Rewriter, op_type: str, x: oir.Value, axis: int) -> oir.Value:
    need(dtype_of(x) in FLOATS and b.supports(op_type, dtype_of(x)), f"no {op_type} for its type")
    axis = -1 if axis == rank_of(x) - 1 else axis
    made: oir.Value = b.op(op_type, x, axis=axis)
    return made


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
    """s - Log(ReduceSum(Exp(s), a)) with s = Sub(x, ReduceMax(x, a)) -> LogSoftmax(x, axis=a)"""

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
        return _operator(b, "LogSoftmax", x, axis)

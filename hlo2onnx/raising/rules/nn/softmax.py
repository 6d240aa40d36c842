"""Softmax, its logarithm, and the logarithm of sums of exponentials."""

from __future__ import annotations

import math

import ml_dtypes
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_number, dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import keeps_axes, reduced_axes
from hlo2onnx.raising.match.views import RESHAPES, first, long_axes, maker_of, source_of
from hlo2onnx.raising.patterns import As, Bindings, Constant, Either, Name, Op, Pattern, Sum, match


def reduction_of(value: oir.Value | None, op_type: str, *of: oir.Value) -> tuple[int, ...]:
    """The axes over which `value` is this reduction of one of some values.

    The reduction, or a Reshape of it, must broadcast to that value element by element. It may be
    of what the value is a Reshape of, if that differs in axes of extent 1 alone:
    `softmax(logits[:, -1])` of one token has its maximum there.

    Raises:
        Refusal: It is something else.
    """
    reduced = value
    while reduced is not None and (source := source_of(reduced, *RESHAPES)) is not None:
        reduced = source
    node = needed(maker_of(reduced, op_type), f"no {op_type}", value)
    x, axes = first(node), reduced_axes(node)
    viewed = next((y for y in of if y is x or source_of(y, *RESHAPES) is x), None)
    viewed = needed(viewed, f"the {op_type} is of another value", node)
    if viewed is not x:
        places = long_axes(shape_of(x), shape_of(viewed))
        places = needed(places, f"the {op_type} is of another shape", node)
        x, axes = viewed, tuple(sorted(places[axis] for axis in axes if axis in places))
    is_same = reduced is value and first(node) is x
    is_whole = is_same and (keeps_axes(node) or axes == tuple(range(len(axes))))
    assert value is not None
    need(
        is_whole or _stands_beside(value, x, axes),
        f"the {op_type} does not broadcast to its operand",
        node,
    )
    return axes


def _stands_beside(value: oir.Value, x: oir.Value, axes: tuple[int, ...]) -> bool:
    """Whether a reduction of x, or a Reshape of it, broadcasts as if it had the reduced axes."""
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape_of(x)))
    return (1,) * (rank_of(x) - rank_of(value)) + shape_of(value) == kept


_X, _MAX = Name("x"), Name("max")
_SHIFTED = As("shifted", Op("Sub", _X, _MAX))
_EXPONENTIAL = As("exponential", Op("Exp", _SHIFTED))
_SUM = As("sum", Op("ReduceSum", _EXPONENTIAL, Name("axes")))
_SOFTMAX = Op("Div", _EXPONENTIAL, Name("sum"))
_LOG_SOFTMAX = Op("Sub", _SHIFTED, Op("Log", _SUM))


def _operator(b: Rewriter, op_type: str, found: Bindings, node: oir.Node) -> oir.Value:
    """The operator for exponentials of x - max(x), and their sum along the same axis."""
    x = found["x"]
    axes = reduction_of(found["sum"], "ReduceSum", found["exponential"])
    same = reduction_of(found["max"], "ReduceMax", x) == axes
    need(len(axes) == 1, "it runs over several axes", found["shifted"].producer())
    need(same, "maximum and sum run over different axes", node)
    dtype = dtype_of(x)
    need(dtype in FLOATS and b.supports(op_type, dtype), f"no {op_type} for its type", x)
    return b.op(op_type, x, axis=-1 if axes[0] == rank_of(x) - 1 else axes[0])


class Softmax(Rule):
    """Div(e, ReduceSum(e, a)) with e = Exp(Sub(x, ReduceMax(x, a))) -> Softmax(x, axis=a)

    Legal as both give NaN for rows with NaN or +inf, and rows of only -inf.
    """

    name = "softmax"
    anchors = frozenset({"Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found = match(_SOFTMAX, node.outputs[0])
        found = needed(found, "its dividend is not an exponential of a difference", node)
        return _operator(b, "Softmax", found, node)


class LogSoftmax(Rule):
    """s - Log(ReduceSum(Exp(s), a)) with s = Sub(x, ReduceMax(x, a)) -> LogSoftmax(x, axis=a)

    Legal except for f64 if the target's kernel gives numbers in rows with NaN or +inf.
    """

    name = "log-softmax"
    anchors = frozenset({"Sub"})
    sources = frozenset({"Log"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        is_exact = dtype_of(node.outputs[0]) != oir.DataType.DOUBLE or not b.target.flags.loses_nan
        need(is_exact, "its kernel loses NaN in this type", node)
        found = match(_LOG_SOFTMAX, node.outputs[0])
        found = needed(found, "no logarithm of the sum of its exponentials is subtracted", node)
        return _operator(b, "LogSoftmax", found, node)


def _finite(maximum: Name) -> Pattern:
    """A maximum, or 0 where it is infinite."""
    return Op("Where", Op("LessOrEqual", Op("Abs", maximum), Constant("largest")), maximum, 0.0)


_FINITE_SHIFT = As("shifted", Op("Sub", _X, _finite(_MAX)))
_FINITE_SUM = As("sum", Op("ReduceSum", Op("Exp", _FINITE_SHIFT), Name("axes")))
_LOGARITHM = Op("Log", Either(Op("Abs", _FINITE_SUM), _FINITE_SUM))
_LOG_SUM_EXP = Sum(_LOGARITHM, As("highest", _finite(Name("outer"))))


class LogSumExp(Rule):
    """m + Log(ReduceSum(Exp(x - m), a)) -> ReduceLogSumExp(x, a)

    Legal for m = ReduceMax(x, a), and 0 where that is infinite, as in the operator: rows of only
    -inf give -inf. The sum may be inside Abs. Done if it is faster, for at least one element.
    """

    name = "log-sum-exp"
    anchors = frozenset({"Add"})
    sources = frozenset({"Log"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found = match(_LOG_SUM_EXP, node.outputs[0])
        found = needed(found, "no logarithm of a sum is added to a guarded maximum", node)
        x, total, outer = found["x"], found["sum"], maker_of(found["outer"], "ReduceMax")
        need(dtype_of(x) in FLOATS, "its operand is not a float", x)
        largest = float(ml_dtypes.finfo(dtype_of(x).numpy()).max)
        need(const_number(found["largest"]) == largest, "the guard has another limit", node)
        summed = needed(total.producer(), "its operand is not a sum", node)
        axes = reduced_axes(summed)
        beside = reduction_of(found["max"], "ReduceMax", x)
        need(axes and beside == axes, "maximum and sum run over different axes", node)
        need(shape_of(found["shifted"]) == shape_of(x), "the maximum is of another value", node)
        outer = needed(outer, "no maximum is added", node)
        need(first(outer) is x and reduced_axes(outer) == axes, "another maximum is added", node)
        need(shape_of(found["highest"]) == shape_of(total), "the sum has another shape", node)
        return self._operator(b, x, axes, keeps_axes(summed))

    def _operator(
        self, b: Rewriter, x: oir.Value, axes: tuple[int, ...], keepdims: bool
    ) -> oir.Value:
        # If an extent is 0, the kernel gives a wrong shape.
        elements = math.prod(static_shape(x) or (0,))
        need(0 < elements <= b.costs.small_elements, "the kernel is slow, or x may be empty", x)
        is_supported = dtype_of(x) in FLOATS and b.supports("ReduceLogSumExp", dtype_of(x))
        need(is_supported, "no ReduceLogSumExp for its type", x)
        return b.ReduceLogSumExp(x, b.i64(axes), keepdims=int(keepdims))

"""Activation functions as the operators that runtimes have kernels for."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.graph.values import const_number, dtype_of, shape_of
from hlo2onnx.raising.activations import ACTIVATIONS, LOGISTIC, RELU, SINGLE, X
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.patterns import Constant, Either, Extreme, match


class ActivationOperators(Rule):
    """0.5 * x * (1 + Erf(x / sqrt(2))) -> Gelu(x), and so for each of `ACTIVATIONS`"""

    name = "activations"
    anchors = frozenset(activation.anchor for activation in ACTIVATIONS)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        output = node.outputs[0]
        need(dtype_of(output) in SINGLE, "its kernel has too few digits for this type", node)
        for activation in ACTIVATIONS:
            if node.op_type != activation.anchor:
                continue
            found = match(activation.pattern, output)
            if found is None or shape_of(found["x"]) != shape_of(output):
                continue
            attributes = dict(activation.attributes)
            for attribute, name in activation.parameters.items():
                attributes[attribute] = float(const_number(found[name]) or 0.0)
            made: oir.Value = b.op(activation.op_type, found["x"], **attributes)
            return made
        raise Refusal("it is no activation function", node)


_FINE_WITHOUT = frozenset(
    {"Add", "AveragePool", "Conv", "ConvTranspose", "Gemm", "MatMul", "ReduceMean", "ReduceSum",
     "Sub"}
)  # fmt: skip
"""Operators whose results are as exact relative to the largest result without the last digits of
the smallest operands."""
_PASS_ON = frozenset(
    {
        "Concat",
        "Expand",
        "MaxPool",
        "Mul",
        "Neg",
        "Pad",
        "Reshape",
        "Resize",
        "Slice",
        "Transpose",
        "Where",
    }
)
_DEPTH = 4


class Sigmoid(Rule):
    """1 / (1 + Exp(-x)) -> Sigmoid(x)

    The kernel is exact to 1.5e-7, but of values below 1e-5 it gets few digits right, and from
    x < -18 on none. Legal where what reads them adds or multiplies, as gates are read; not for
    probabilities that leave the program, or of which a logarithm is taken.
    """

    name = "sigmoid"
    anchors = frozenset({"Div"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        found = match(LOGISTIC, y)
        need(found is not None, "it is no logistic function", node)
        assert found is not None
        need(dtype_of(y) in SINGLE, "its kernel has too few digits for this type", node)
        need(not y.is_graph_output(), "small values may be asked for", node)
        need(all(_tolerates(user, y, _DEPTH) for user in y.consumers()), "it is no gate", node)
        made: oir.Value = b.Sigmoid(found["x"])
        return made


def _tolerates(node: oir.Node, value: oir.Value, depth: int) -> bool:
    """Whether the smallest digits of an operand do not matter to a node and to what follows it."""
    if node.op_type in _FINE_WITHOUT or (node.op_type == "Where" and node.inputs[0] is value):
        return True
    if node.op_type not in _PASS_ON or depth == 0:
        return False
    (output,) = node.outputs
    if output.is_graph_output() and node.op_type != "Mul":
        return False
    return all(_tolerates(user, output, depth - 1) for user in output.consumers())


_SIGN_BLIND = frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Conv", "Gemm", "LayerNormalization", "MatMul",
     "MaxPool", "Mul", "ReduceMean", "ReduceSum", "ReduceMax", "RMSNormalization", "Softmax", "Sub"}
)  # fmt: skip
"""Operators that give equal numbers for zeros of both signs."""
_MOVES = frozenset(
    {"Concat", "Expand", "Identity", "Pad", "Reshape", "Resize", "Slice", "Transpose"}
)


def _is_sign_blind(value: oir.Value, depth: int = _DEPTH) -> bool:
    """Whether all that reads a value takes zeros of both signs as equal."""
    if value.is_graph_output() or depth == 0:
        return False
    return all(
        user.op_type in _SIGN_BLIND
        or (user.op_type in _MOVES and _is_sign_blind(user.outputs[0], depth - 1))
        for user in value.consumers()
    )


class Relu(Rule):
    """Max(x, 0) -> Relu(x)

    The runtime's Relu leaves -0 as it is, which Max makes +0. Legal where what reads the result
    takes both as equal.
    """

    name = "relu"
    anchors = frozenset({"Max"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        need(dtype_of(y) in SINGLE | {oir.DataType.DOUBLE}, "it is not of floats", node)
        found = match(Extreme("Max", 0.0, X), y)
        need(found is not None, "it is no maximum with 0", node)
        assert found is not None
        need(shape_of(found["x"]) == shape_of(y), "the 0 decides its shape", node)
        need(_is_sign_blind(y), "the sign of a zero may be asked for", node)
        made: oir.Value = b.Relu(found["x"])
        return made


class ClipBetween(Rule):
    """Min(Max(x, low), high) -> Clip(x, low, high) for constants low <= high

    Under the condition of `Relu`, as Clip leaves -0 as it is too.
    """

    name = "clip-between"
    anchors = frozenset({"Min"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        need(dtype_of(y) in SINGLE | {oir.DataType.DOUBLE}, "it is not of floats", node)
        found = match(
            Extreme("Min", Constant("high"), Either(Extreme("Max", Constant("low"), X), RELU)), y
        )
        need(found is not None, "it is no minimum of a maximum", node)
        assert found is not None
        bounds = [const_number(found["low"]) if "low" in found else 0, const_number(found["high"])]
        low, high = bounds
        need(low is not None and high is not None, "its bounds are computed", node)
        assert low is not None and high is not None
        need(low <= high, "the lower bound is above the upper one", node)
        x = found["x"]
        need(shape_of(x) == shape_of(y), "a bound decides its shape", node)
        need(low != 0 or _is_sign_blind(y), "the sign of a zero may be asked for", node)
        made: oir.Value = b.Clip(x, b.scalar_like(low, x), b.scalar_like(high, x))
        return made

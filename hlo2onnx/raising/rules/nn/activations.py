"""Activation functions as single operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import const_number, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.activations import ACTIVATIONS, LOGISTIC, RELU, SINGLE, Activation, X
from hlo2onnx.raising.patterns import As, Constant, Either, Op, Pattern, Product, match
from hlo2onnx.raising.sources import sources_of
from hlo2onnx.targets.target import op_key

_OF_ANCHOR: Mapping[str, Sequence[Activation]] = {
    anchor: [activation for activation in ACTIVATIONS if activation.anchor == anchor]
    for anchor in {activation.anchor for activation in ACTIVATIONS}
}


class ActivationOperators(Rule):
    """0.5 * x * (1 + Erf(x / sqrt(2))) -> Gelu(x), likewise for each of `ACTIVATIONS`"""

    name = "activations"
    anchors = frozenset(_OF_ANCHOR)

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """The kernels have enough digits, and an expression can have such operands."""
        return dtype in SINGLE and any(
            activation.sources is None or not activation.sources.isdisjoint(sources)
            for activation in _OF_ANCHOR[op_type]
        )

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        output = node.outputs[0]
        need(dtype_of(output) in SINGLE, "its kernel has too few digits for this type", node)
        makers = sources_of(node)
        for activation in _OF_ANCHOR[node.op_type]:
            if activation.sources is not None and activation.sources.isdisjoint(makers):
                continue
            found = match(activation.pattern, output)
            if found is None or shape_of(found["x"]) != shape_of(output):
                continue
            attributes = dict(activation.attributes)
            for attribute, name in activation.parameters.items():
                parameter = const_number(found[name])
                assert parameter is not None
                need(math.isfinite(parameter), "a parameter is not finite", found[name])
                attributes[attribute] = float(parameter)
            # The runtime may compute other types in f32, but no operator that the opset lacks.
            key = op_key(activation.op_type, attributes)
            need(b.supports(key, oir.DataType.FLOAT), f"the target has no {key}", node)
            return b.op(activation.op_type, found["x"], **attributes)
        raise Refusal("it is not an activation function", node)


_SUMS = frozenset(
    {"Add", "AveragePool", "Conv", "ConvTranspose", "Gemm", "MatMul", "ReduceMean", "ReduceSum",
     "Sub"}
)  # fmt: skip
"""Operators whose error, relative to the largest result, does not grow with errors of the smallest
operands."""
_MAGNIFIES = frozenset({"Div", "Log", "Pow", "Reciprocal", "Sqrt"})
"""Operators whose results depend on the digits of small operands; for Div, of the divisor."""
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
_DEPTH = 6


class Sigmoid(Rule):
    """1 / (1 + Exp(-x)) -> Sigmoid(x)

    The kernel is exact to 1.5e-7, but results below 1e-5 have few digits, and for x < -18 none.
    Legal if the readers add or multiply, as for gates. Not for probabilities that are results, or
    that enter a logarithm, directly or in a sum. If all gates are almost closed, the gated values
    have as few digits.
    """

    name = "sigmoid"
    anchors = frozenset({"Div"})
    sources = frozenset({"Add"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        found = needed(match(LOGISTIC, y), "it is not a logistic function", node)
        need(dtype_of(y) in SINGLE, "its kernel has too few digits for this type", node)
        need(not y.is_graph_output(), "the digits of small values may matter", node)
        need(
            all(_tolerates(user, y, _DEPTH) for user in y.consumers()),
            "it is not used as a gate",
            node,
        )
        return b.Sigmoid(found["x"])


def _tolerates(node: oir.Node, value: oir.Value, depth: int, is_gated: bool = False) -> bool:
    """Whether a node and its readers tolerate errors in the small values of an operand.

    Args:
        is_gated: Whether the operand has passed a gate, and is no longer a probability.
    """
    if node.op_type in _SUMS:
        return is_gated or not _is_magnified(node.outputs[0], depth)
    if node.op_type not in _PASS_ON or depth == 0:
        return False
    (output,) = node.outputs
    is_gated = is_gated or (node.op_type == "Mul" and not _is_alone(value, node))
    if output.is_graph_output() and not (is_gated and node.op_type == "Mul"):
        return False
    return all(_tolerates(user, output, depth - 1, is_gated) for user in output.consumers())


def _is_alone(value: oir.Value, node: oir.Node) -> bool:
    """Whether all other operands are constant."""
    return node.inputs.count(value) == 1 and all(
        x is None or x is value or x.const_value is not None for x in node.inputs
    )


def _is_magnified(value: oir.Value, depth: int) -> bool:
    """Whether the readers of a sum, possibly scaled or shifted by constants, depend on its smallest
    digits."""
    for user in value.consumers():
        is_divided = user.op_type == "Div" and user.inputs.count(value) == 1
        if user.op_type in _MAGNIFIES and not (is_divided and user.inputs[0] is value):
            return True
        passes_on = user.op_type in _PASS_ON | _SUMS | {"Div"} and _is_alone(value, user)
        if passes_on and depth and _is_magnified(user.outputs[0], depth - 1):
            return True
    return False


_SIGN_BLIND = frozenset(
    {"Abs", "Add", "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Cos", "Equal",
     "Exp", "Gemm", "Greater", "GreaterOrEqual", "InstanceNormalization", "LayerNormalization",
     "Less", "LessOrEqual", "MatMul", "ReduceMean", "ReduceSum", "RMSNormalization", "Sigmoid",
     "Softmax", "Sub"}
)  # fmt: skip
"""Operators that give equal numbers for -0 and +0."""
_ZERO_FOR_ZERO = frozenset({"Erf", "Gelu", "MaxPool", "Mul", "Neg", "ReduceMax", "Tanh"})
"""Operators that give equal numbers for -0 and +0, but may return either."""
_MOVES = frozenset(
    {"Concat", "Expand", "Identity", "Pad", "Reshape", "Resize", "Slice", "Transpose"}
)


def _is_sign_blind(value: oir.Value, depth: int = _DEPTH) -> bool:
    """Whether no reader distinguishes -0 and +0."""
    if value.is_graph_output() or depth == 0:
        return False
    return all(user.op_type in _SIGN_BLIND or _is_move(user, depth) for user in value.consumers())


def _is_move(node: oir.Node, depth: int) -> bool:
    """Whether a node passes zeros on to readers that do not distinguish their signs."""
    if node.op_type in _ZERO_FOR_ZERO and node.outputs[0].is_graph_output():
        return not node.outputs[0].uses()
    return node.op_type in _ZERO_FOR_ZERO | _MOVES and _is_sign_blind(node.outputs[0], depth - 1)


class Relu(Rule):
    """Max(x, 0) -> Relu(x)

    The runtime's Relu keeps -0, where Max gives +0. Legal if no reader distinguishes them. Runtimes
    fuse a Relu into the node before it.
    """

    name = "relu"
    anchors = frozenset({"Max"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        need(dtype_of(y) in SINGLE | {oir.DataType.DOUBLE}, "its type is not f16, f32 or f64", node)
        found = needed(match(Op("Max", 0.0, X), y), "it is not a maximum with 0", node)
        need(shape_of(found["x"]) == shape_of(y), "the 0 determines its shape", node)
        need(_is_sign_blind(y), "a reader may distinguish -0 and +0", node)
        return b.Relu(found["x"])


_LOW, _HIGH = Constant("low"), Constant("high")
_BOUNDED: Mapping[str, Pattern] = {
    "Min": Op("Min", _HIGH, Either(Op("Max", _LOW, X), RELU)),
    "Where": Op("Where", Op("Greater", X, _HIGH), _HIGH, Op("Where", Op("Less", X, _LOW), _LOW, X)),
}
"""Numbers between bounds; without `low` that is 0."""
_BETWEEN = {"Min": frozenset({"Max", "Relu"}), "Where": frozenset({"Greater"})}


class MinMaxToClip(Rule):
    """Min(Max(x, low), high) -> Clip(x, low, high) for constants low <= high;
    Where(x > high, high, Where(x < low, low, x)) -> Clip(x, low, high) for low < high

    The first is legal under the condition of `Relu`, as Clip keeps -0 too. The second, as in
    jax.nn.hard_tanh, keeps NaN and the sign of zeros, unless a bound is -0.
    """

    name = "min-max-to-clip"
    formerly = ("clip-between", "where-to-clip", "clip-where")
    anchors = frozenset({"Min", "Where"})
    sources = _BETWEEN

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        is_float = dtype_of(y) in SINGLE | {oir.DataType.DOUBLE}
        need(is_float, "its type is not f16, f32 or f64", node)
        found = match(_BOUNDED[node.op_type], y)
        found = needed(found, "it does not choose between bounds", node)
        x = found["x"]
        low, high = (const_number(found[name]) if name in found else 0 for name in ("low", "high"))
        assert low is not None and high is not None
        need(shape_of(x) == shape_of(y), "a bound determines its shape", node)
        if node.op_type == "Min":
            need(low <= high, "the lower bound is above the upper one", node)
            blind = 0 not in (low, high) or _is_sign_blind(y)
            need(blind, "a reader may distinguish -0 and +0", node)
        else:
            need(low < high, "the lower bound is not below the upper one", node)
            is_negative = any(bound == 0 and math.copysign(1, bound) < 0 for bound in (low, high))
            need(not is_negative, "Clip may turn a bound of -0 into +0", node)
        return b.Clip(x, b.scalar_like(low, x), b.scalar_like(high, x))


class Selu(Rule):
    """gamma * Elu(x, alpha) -> Selu(x, alpha, gamma) for a constant gamma > 0"""

    name = "selu"
    anchors = frozenset({"Mul"})
    sources = frozenset({"Elu"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        y = node.outputs[0]
        found = needed(
            match(Product(Constant("gamma"), As("elu", Op("Elu", X))), y),
            "it is not a multiple of Elu",
            node,
        )
        x, elu = found["x"], found["elu"].producer()
        assert elu is not None
        need(shape_of(x) == shape_of(y), "the factor determines its shape", node)
        need(b.supports("Selu", dtype_of(x)), "no Selu for its type", node)
        gamma = const_number(found["gamma"]) or 0
        need(0 < gamma < math.inf, "the factor is not positive and finite", node)
        alpha = elu.attributes.get_float("alpha", 1.0)
        return b.Selu(x, alpha=alpha, gamma=float(gamma))

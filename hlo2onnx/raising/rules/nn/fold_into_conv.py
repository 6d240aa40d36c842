"""Scales and shifts of channels are folded into the weights of the preceding convolution.

A batch normalization with known statistics then costs nothing. Products of constants are rounded
once, from f64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, is_constant, rank_of, shape_of
from hlo2onnx.ir.weight_scaling import channel_rows, keeps_digits, keeps_range
from hlo2onnx.ir.weights import detached
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    extent_of,
    first,
    is_private,
    maker_of,
    source_of,
)

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


@dataclass(frozen=True)
class _Layer:
    """A convolution that one sum or product reads, and the other operand."""

    node: oir.Node
    weights: oir.Value
    bias: oir.Value | None
    other: oir.Value

    def with_parameters(self, b: Rewriter, weights: oir.Value, bias: oir.Value | None) -> oir.Value:
        """The convolution with other weights."""
        inputs = [first(self.node), weights] + ([] if bias is None else [bias])
        return b.like(self.node, inputs)


def _layer(node: oir.Node) -> _Layer:
    """The convolution that a sum, difference, product or quotient reads.

    Raises:
        Refusal: There is none, it has other readers, its weights are not f32 or f64, or its bias is
            computed.
    """
    swaps = node.op_type in ("Add", "Mul")
    for value, other in both_orders(node)[: 1 + swaps]:
        maker = maker_of(value, *CONVOLUTIONS)
        if maker is None:
            continue
        need(is_private(value), "it has other readers", maker)
        _, weights, bias = (*maker.inputs, None)[:3]
        assert weights is not None
        need(dtype_of(weights) in _TYPES, "the weights have fewer digits than f32", weights)
        need(bias is None or bias.const_value is not None, "its bias is computed", bias)
        return _Layer(maker, weights, bias, other)
    raise Refusal("no operand is a convolution", node)


def _need_per_channel(value: oir.Value, convolution: oir.Node) -> int:
    """Checks that a constant has one number for each channel; returns the number of channels.

    Raises:
        Refusal: The value is not constant, or varies within a channel.
    """
    need(is_constant(value), "it is not constant", value)
    result = convolution.outputs[0]
    channels = needed(extent_of(result, 1), "the number of channels is not known", convolution)
    whole = (1,) * (rank_of(result) - rank_of(value)) + shape_of(value)
    others = whole[:1] + whole[2:]
    need(
        len(whole) == rank_of(result) and set(others) <= {1},
        "it does not hold one number for each channel",
        value,
    )
    need(whole[1] in (1, channels), "it broadcasts the channel axis", value)
    return channels


def _numbers(array: np.ndarray, channels: int) -> np.ndarray:
    """One number for each channel, in f64."""
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def _rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The numbers in a type.

    Raises:
        Refusal: One is too large or too small for the type, or is NaN.
    """
    with np.errstate(all="ignore"):
        rounded = array.astype(dtype)
    is_small = (np.abs(rounded) < np.finfo(dtype).tiny) & (array != 0)
    need(np.isfinite(rounded).all() and not is_small.any(), "a weight leaves its type's range")
    return rounded


class FoldScaleIntoConv(Rule):
    """Mul(Conv(x, w, b), s) -> Conv(x, w * s, b * s), likewise for Div, and ConvTranspose

    Legal for constants w, b and s, one number of s for each channel, if nothing else reads the
    result of the convolution. All products must be normal numbers, and less than two bits may be
    lost: not if the convolution may be exact, see `hlo2onnx.ir.weight_scaling`.
    """

    name = "fold-scale-into-conv"
    formerly = ("scale-into-convolution",)
    anchors = frozenset({"Div", "Mul"})
    sources = CONVOLUTIONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        layer = _layer(node)
        w, bias, other = layer.weights, layer.bias, layer.other
        is_own = is_constant(w) and len(w.uses()) == 1
        need(is_own, "its weights are computed or shared", w)
        channels = _need_per_channel(other, layer.node)
        combine = np.multiply if node.op_type == "Mul" else np.divide
        convolution = detached(layer.node)

        def scaled(weights: np.ndarray, array: np.ndarray) -> np.ndarray:
            scale = _numbers(array, channels)
            need(np.isfinite(scale).all(), "the scale is not finite")
            need(combine is np.multiply or scale.all(), "it divides by 0")
            rows, factor = channel_rows(convolution, weights), combine(1.0, scale)
            need(keeps_digits(rows, factor), "the convolution may be exact")
            need(keeps_range(rows, factor, rows.dtype), "its results leave their type's range")
            columns = _columns(scale, convolution, weights)
            if combine is np.multiply and array.dtype == weights.dtype == np.float32:
                # In f64 the product is exact, and then rounded once. All are normal numbers.
                return np.asarray(weights * columns.astype(np.float32))
            return _rounded(combine(weights.astype(np.float64), columns), weights.dtype)

        def shifted(numbers: np.ndarray, array: np.ndarray) -> np.ndarray:
            scale = _numbers(array, channels)
            with np.errstate(all="ignore"):
                return _rounded(combine(numbers.astype(np.float64), scale), numbers.dtype)

        weights = b.derived(scaled, w, other)
        if bias is not None:
            bias = b.derived(shifted, bias, other)
        return layer.with_parameters(b, weights, bias)


def _columns(scale: np.ndarray, convolution: oir.Node, weights: np.ndarray) -> np.ndarray:
    """One number for each output channel, in a shape that broadcasts to the weights: along their
    first axis, or for each group along the second one of a ConvTranspose."""
    spatial = (1,) * (weights.ndim - 2)
    if convolution.op_type == "Conv":
        return scale.reshape(-1, 1, *spatial)
    groups = convolution.attributes.get_int("group", 1)
    own = scale.reshape(groups, 1, -1)
    inputs = weights.shape[0] // groups
    return np.repeat(own, inputs, axis=1).reshape(weights.shape[0], -1, *spatial)


class FoldBiasIntoConv(Rule):
    """Add(Conv(x, w, b), c) -> Conv(x, w, b + c), likewise for Sub, and ConvTranspose

    Legal for constants b and c, one number of c for each channel, if nothing else reads the result
    of the convolution. Without b, an added c may be a computed vector. No digits are lost: the
    weights stay, and runtimes add the bias to the finished sum.
    """

    name = "fold-bias-into-conv"
    formerly = ("bias-into-convolution",)
    anchors = frozenset({"Add", "Sub"})
    sources = CONVOLUTIONS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        layer = _layer(node)
        w, bias, shift = layer.weights, layer.bias, layer.other
        if bias is None and node.op_type == "Add" and (vector := _vector(shift, layer.node)):
            return layer.with_parameters(b, w, vector)
        channels, dtype = _need_per_channel(shift, layer.node), dtype_of(w).numpy()
        sign = -1 if node.op_type == "Sub" else 1

        def moved(array: np.ndarray, numbers: np.ndarray | None = None) -> np.ndarray:
            added = sign * _numbers(array, channels)
            return _rounded(added if numbers is None else numbers.astype(np.float64) + added, dtype)

        if bias is None:
            return layer.with_parameters(b, w, b.derived(moved, shift))
        total = b.derived(lambda numbers, array: moved(array, numbers), bias, shift)
        return layer.with_parameters(b, w, total)


def _vector(value: oir.Value, convolution: oir.Node) -> oir.Value | None:
    """The vector that a Reshape turns into one number for each channel, if there is one."""
    if value.const_value is not None:
        return None
    vector = source_of(value, *RESHAPES)
    shape = shape_of(convolution.outputs[0])
    dims = (1, shape[1], *(1,) * (len(shape) - 2))
    is_vector = vector is not None and shape_of(vector) == shape[1:2] and shape_of(value) == dims
    return vector if is_vector else None

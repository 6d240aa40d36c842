"""Scales and shifts of channels go into the weights of the convolution before them.

So a batch normalization with known statistics costs nothing. Products of constants are rounded
once, from f64.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.graph.values import const_of, dtype_of, rank_of, shape_of
from hlo2onnx.graph.weights import inherit_name
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.rules.shape import RESHAPES, first, source_of

_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


def _convolution(value: oir.Value | None) -> oir.Node | None:
    """The convolution that makes a value for one reader alone."""
    node = None if value is None else value.producer()
    if value is None or node is None or node.op_type != "Conv" or node.domain:
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _per_channel(value: oir.Value | None, convolution: oir.Node) -> np.ndarray:
    """A number a channel, in f64.

    Raises:
        Refusal: The value is not constant, or differs from place to place.
    """
    array = const_of(value)
    need(array is not None, "it is not constant", value)
    assert array is not None
    result = convolution.outputs[0]
    channels = shape_of(result)[1]
    need(isinstance(channels, int), "how many channels there are is not known", convolution)
    assert isinstance(channels, int)
    whole = (1,) * (rank_of(result) - array.ndim) + array.shape
    others = whole[:1] + whole[2:]
    need(len(whole) == rank_of(result) and set(others) <= {1}, "it is no number a channel", value)
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (channels,))


def _rounded(b: Rewriter, array: np.ndarray, like: oir.Value, *old: oir.Value | None) -> oir.Value:
    made = b.const(array.astype(dtype_of(like).numpy()))
    inherit_name([x for x in old if x is not None], made)
    return made


def _again(b: Rewriter, node: oir.Node, weights: oir.Value, bias: oir.Value | None) -> oir.Value:
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    inputs = [first(node), weights] + ([] if bias is None else [bias])
    made: oir.Value = b.op("Conv", *inputs, **attributes)
    return made


class ScaleIntoConvolution(Rule):
    """Mul(Conv(x, w, b), s) -> Conv(x, w * s, b * s), and so for Div

    Legal for constants w, b and s, s with a number for each channel, where nothing else reads what
    the convolution gives.
    """

    name = "scale-into-convolution"
    anchors = frozenset({"Div", "Mul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        pairs = [(node.inputs[0], node.inputs[1])]
        pairs += [(node.inputs[1], node.inputs[0])] if node.op_type == "Mul" else []
        for value, factor in pairs:
            convolution = _convolution(value)
            if convolution is None:
                continue
            w, bias = convolution.inputs[1], _bias(convolution)
            assert w is not None
            need(dtype_of(w) in _TYPES, "its type rounds more coarsely", w)
            weights = const_of(w)
            need(weights is not None and len(w.uses()) == 1, "its weights are not its own", w)
            need(bias is None or bias.const_value is not None, "its bias is computed", bias)
            assert weights is not None
            scale = _per_channel(factor, convolution)
            scale = 1 / scale if node.op_type == "Div" else scale
            columns = scale.reshape(-1, *(1,) * (weights.ndim - 1))
            new_bias = None
            if bias is not None:
                new_bias = _rounded(b, _numbers(bias) * scale, bias, bias)
            scaled = _rounded(b, weights.astype(np.float64) * columns, w, w)
            return _again(b, convolution, scaled, new_bias)
        raise Refusal("no convolution is scaled", node)


class BiasIntoConvolution(Rule):
    """Add(Conv(x, w, b), c) -> Conv(x, w, b + c), and so for Sub

    Legal for constants b and c, c with a number for each channel, where nothing else reads what
    the convolution gives. Without a b, c may be a vector that was computed.
    """

    name = "bias-into-convolution"
    anchors = frozenset({"Add", "Sub"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        pairs = [(node.inputs[0], node.inputs[1])]
        pairs += [(node.inputs[1], node.inputs[0])] if node.op_type == "Add" else []
        for value, shift in pairs:
            convolution = _convolution(value)
            if convolution is None:
                continue
            w, bias = convolution.inputs[1], _bias(convolution)
            assert w is not None
            need(dtype_of(w) in _TYPES, "its type rounds more coarsely", w)
            if bias is None and node.op_type == "Add" and (vector := _vector(shift, convolution)):
                return _again(b, convolution, w, vector)
            need(bias is None or bias.const_value is not None, "its bias is computed", bias)
            added = _per_channel(shift, convolution)
            added = -added if node.op_type == "Sub" else added
            total = added if bias is None else _numbers(bias) + added
            return _again(b, convolution, w, _rounded(b, total, w, bias, shift))
        raise Refusal("nothing is added to a convolution", node)


def _vector(value: oir.Value | None, convolution: oir.Node) -> oir.Value | None:
    """The vector that was reshaped to a number for each channel, if it was."""
    if value is None or value.const_value is not None:
        return None
    vector = source_of(value, *RESHAPES)
    shape = shape_of(convolution.outputs[0])
    dims = (1, shape[1], *(1,) * (len(shape) - 2))
    is_vector = vector is not None and shape_of(vector) == shape[1:2] and shape_of(value) == dims
    return vector if is_vector else None


def _bias(convolution: oir.Node) -> oir.Value | None:
    return convolution.inputs[2] if len(convolution.inputs) > 2 else None


def _numbers(bias: oir.Value) -> np.ndarray:
    array = const_of(bias)
    assert array is not None
    return array.astype(np.float64)

"""Scales and shifts of channels that no convolution has absorbed."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_of, dtype_of, rank_of, shape_of
from hlo2onnx.ir.weight_scaling import is_rounded
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import both_orders, is_private, operands
from hlo2onnx.raising.patterns import Either, Name, Op, Product
from hlo2onnx.raising.rules.nn.batch_normalization import vector_of_channels
from hlo2onnx.raising.rules.nn.fold_into_conv import CONVOLUTIONS
from hlo2onnx.raising.rules.nn.layer_normalization import SINGLE_PRECISION


class InstanceNormalizationAffine(Rule):
    """InstanceNormalization(x, 1, 0) * s + b -> InstanceNormalization(x, s, b)

    Legal for s and b with one number for each channel, if nothing else reads the normalized values.
    """

    name = "instance-normalization-affine"
    formerly = ("instance-parameters",)
    anchors = frozenset({"Add", "Mul"})
    sources = frozenset({"InstanceNormalization"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for value, parameter in both_orders(node):
            normal = value.producer()
            if normal is None or normal.op_type != "InstanceNormalization":
                continue
            need(is_private(value), "others read it", normal)
            x, scale, shift = operands(normal)
            _need_all(shift, 0)
            if node.op_type == "Mul":
                _need_all(scale, 1)
                scale = _numbers(parameter, x, b)
            else:
                shift = _numbers(parameter, x, b)
            epsilon = normal.attributes["epsilon"].as_float()
            return b.InstanceNormalization(x, scale, shift, epsilon=epsilon)
        raise Refusal("no operand is normalized", node)


def _need_all(parameter: oir.Value, number: int) -> None:
    """Refuses a parameter unless it is this number for all channels."""
    known = const_of(parameter)
    need(known is not None and (known == number).all(), "it already has parameters", parameter)


def _numbers(value: oir.Value, like: oir.Value, b: Rewriter) -> oir.Value:
    """The vector with one number for each channel of `like` that broadcasts as this value.

    Raises:
        Refusal: The value has another shape.
    """
    if value.const_value is None:
        return vector_of_channels(value, like, b)
    dims = (1,) * (rank_of(like) - rank_of(value)) + shape_of(value)
    fits = dims == (1, shape_of(like)[1], *(1,) * (rank_of(like) - 2))
    need(fits, "it does not hold one number for each channel", value)
    return b.reshape(value, dims[1:2])


_X, _SCALE = Name("x"), Name("scale")
_SCALED = Either(Product(Op("Sub", _X, Name("mean")), _SCALE), Product(_X, _SCALE))


class AffineToBatchNormalization(Rule):
    """(x - m) * s + b -> BatchNormalization(x, s, b, m, 1, epsilon=0), and so x * s + b

    Legal for constants m, s and b with one number for each channel, and x computed by convolutions.
    If there is an m, x must be a sum that has lost as many digits as the kernel loses. Done if no
    convolution has absorbed them: one node in the layout that runtimes use for convolutions.
    """

    name = "affine-to-batch-normalization"
    formerly = ("channels-affine",)
    anchors = frozenset({"Add"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        output = node.outputs[0]
        need(dtype_of(output) in SINGLE_PRECISION and rank_of(output) > 2, "no kernel", node)
        need(not output.is_graph_output(), "it is not between convolutions", node)
        for scaled, shift in both_orders(node):
            if shift.const_value is None or not is_private(scaled):
                continue
            for found in _SCALED.matches(scaled, {}):
                x, scale, mean = found["x"], found["scale"], found.get("mean")
                if scale.const_value is None or (mean is not None and mean.const_value is None):
                    continue
                return self._normalized(x, mean, scale, shift, b)
        raise Refusal("it does not scale and shift by constants", node)

    def _normalized(
        self,
        x: oir.Value,
        mean: oir.Value | None,
        scale: oir.Value,
        shift: oir.Value,
        b: Rewriter,
    ) -> oir.Value:
        need(_is_of_convolutions(x), "it is not between convolutions", x)
        need(mean is None or is_rounded(x), "digits of x would be lost", x)
        scale, shift = _numbers(scale, x, b), _numbers(shift, x, b)
        channels = shape_of(scale)[0]
        assert isinstance(channels, int)
        ones = np.ones(channels, dtype_of(x).numpy())
        means = b.const(0 * ones) if mean is None else _numbers(mean, x, b)
        return b.BatchNormalization(x, scale, shift, means, b.const(ones), epsilon=0.0)


def _is_of_convolutions(value: oir.Value, depth: int = 4) -> bool:
    """Whether a convolution computes a value, without a normalization after it."""
    node = value.producer()
    if node is None or depth == 0 or node.domain:
        return False
    if node.op_type in CONVOLUTIONS:
        return True
    normalized = node.op_type.endswith("Normalization")
    inputs = [] if normalized else operands(node)
    return any(_is_of_convolutions(x, depth - 1) for x in inputs)

"""Batch normalization of arrays with channels second, by statistics that are not constant."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.ir.weight_scaling import is_rounded
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    both_orders,
    extent_of,
    first,
    maker_of,
    operands,
    source_of,
    unshaped,
)
from hlo2onnx.raising.rules.nn.center_before_scale import ADDED
from hlo2onnx.raising.rules.nn.layer_normalization import (
    SINGLE_PRECISION,
    under_inverse_root,
    with_epsilon,
)

_Form = tuple[oir.Value, oir.Value, oir.Value, oir.Value | None, bool]
"""x, the factor, the mean, the bias, and whether the mean is subtracted from x itself."""


def vector_of_channels(value: oir.Value, like: oir.Value, b: Rewriter) -> oir.Value:
    """The vector behind a Reshape to one number for each channel of `like`, its second axis.

    Raises:
        Refusal: The value is something else.
    """
    need(unshaped(value) is not value, "it is not a reshaped vector", value)
    return _vector(unshaped(_of_channels(value, like)), like, b)


def _of_channels(value: oir.Value, like: oir.Value) -> oir.Value:
    """The value, which broadcasts to the channels of `like` and to no other axis.

    Raises:
        Refusal: It has another shape.
    """
    shape = (1, shape_of(like)[1], *(1,) * (rank_of(like) - 2))
    whole = (1,) * (len(shape) - rank_of(value)) + shape_of(value)
    need(whole == shape, "it does not hold one number for each channel", value)
    return value


def _vector(value: oir.Value, like: oir.Value, b: Rewriter) -> oir.Value:
    """A value with as many numbers as `like` has channels, as a vector.

    Raises:
        Refusal: It has more or fewer.
    """
    channels = shape_of(like)[1]
    need(product(shape_of(value)) == channels, "it is no number for each channel", value)
    return b.reshape(value, (channels,))


class BatchNormalization(Rule):
    """(x - m) * (s / sqrt(v + e)) + b -> BatchNormalization(x, s, b, m, v, epsilon=e)

    Also for x * f + (b - m * f) with f = s / sqrt(v + e), as Keras writes it, and without s or b.
    Legal for m, v, s, b with one number for each channel. Constant ones are folded into a
    convolution instead. The kernel computes x * s' + (b - m * s'), which loses the digits that x
    and m share: legal if the program computes the same, or if x is a sum that has lost as many and
    e is positive, so that s' is finite. A mean of x itself is left to center-before-scale.
    """

    name = "batch-normalization"
    anchors = frozenset({"Add"})
    sources = frozenset({"Mul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        output = node.outputs[0]
        need(dtype_of(output) in SINGLE_PRECISION and rank_of(output) > 2, "no kernel", node)
        x, factor, mean, bias, is_centred = _form(node)
        scale, variance, epsilon = _scale(unshaped(_of_channels(factor, x)))
        need(epsilon > 0 or not is_centred, "x / 0 - m / 0 may be NaN for (x - m) / 0", node)
        given = (scale, bias, mean, variance)
        constant = all(value is None or value.const_value is not None for value in given)
        need(not constant, "its parameters are constant", node)
        channels = needed(extent_of(x, 1), "the number of channels is not known", x)
        ones = np.ones(channels, dtype_of(x).numpy())
        vectors = (
            b.const(ones) if scale is None else _vector(scale, x, b),
            b.const(0 * ones) if bias is None else _vector(bias, x, b),
            _vector(mean, x, b),
            _vector(variance, x, b),
        )
        return b.BatchNormalization(x, *vectors, epsilon=epsilon)


def _form(node: oir.Node) -> _Form:
    """The parts of a centered, scaled and shifted value.

    Raises:
        Refusal: The sum has another form, or the kernel would lose digits.
    """
    for scaled, shift in both_orders(node):
        scaling = maker_of(scaled, "Mul")
        if scaling is None:
            continue
        for centred, factor in both_orders(scaling):
            difference = maker_of(centred, "Sub")
            x = centred if difference is None else first(difference)
            if shape_of(x) != shape_of(node.outputs[0]):
                continue  # a parameter decides the shape
            if difference is not None:
                mean = operands(difference)[1]
                need(is_rounded(x), "x would lose digits", x)
                is_instance = shape_of(x)[0] == 1 and maker_of(unshaped(mean), "ReduceMean")
                need(not is_instance, "group-normalization normalizes a single image", mean)
                mean, shift = (unshaped(_of_channels(each, x)) for each in (mean, shift))
                return x, factor, mean, shift, True
            found = _shifted(shift, x, factor)
            if found is not None:
                return found
    raise Refusal("no centered value is scaled and shifted", node)


def _shifted(shift: oir.Value, x: oir.Value, factor: oir.Value) -> _Form | None:
    """The form x * f + (b - m * f) with this shift b - m * f."""
    negative = source_of(unshaped(shift), "Sub") is None
    for found in ADDED.matches(unshaped(shift), {}):
        if unshaped(found["left"]) is not unshaped(factor):
            continue
        mean = unshaped(found["right"])
        if negative:
            mean = unshaped(needed(source_of(mean, "Neg"), "the mean is not subtracted", mean))
        need(maker_of(mean, "ReduceMean") is None, "center-before-scale loses fewer digits", mean)
        _of_channels(shift, x)
        return x, factor, mean, found.get("bias"), False
    return None


def _scale(factor: oir.Value) -> tuple[oir.Value | None, oir.Value, float]:
    """s, v and e of s / sqrt(v + e); s is None for 1.

    Raises:
        Refusal: The factor has another form.
    """
    variance = under_inverse_root(factor)
    if variance is not None:
        return None, *with_epsilon(variance)
    scaling = needed(maker_of(factor, "Mul"), "the factor is not a product", factor)
    for inverse, scale in both_orders(scaling):
        variance = under_inverse_root(inverse)
        if variance is not None:
            return scale, *with_epsilon(variance)
    raise Refusal("the factor contains no inverse root", factor)

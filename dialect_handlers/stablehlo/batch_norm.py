"""batch_norm_inference, batch_norm_training and batch_norm_grad."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.batch_norm_inference")
def batch_norm_inference(em: Emitter, op: Op, *, epsilon: float, feature_index: int) -> oir.Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset; BatchNormalization for features in
    axis 1."""
    x, scale, offset, mean, variance = em.operands(op)
    if feature_index == 1:
        return em.BatchNormalization(x, scale, offset, mean, variance, epsilon=epsilon)
    features = _Features(em, x, feature_index)
    return features.normalized(features.centred(x, mean), variance, epsilon, scale, offset)


@handles("stablehlo.batch_norm_training")
def batch_norm_training(
    em: Emitter, op: Op, *, epsilon: float, feature_index: int
) -> list[oir.Value]:
    """x, scale, offset -> the normalized x, with its mean and (biased) variance per feature.

    The variance is the mean square of x - mean, as the specification says. XLA subtracts the square
    of the mean from the mean square: only rounding error remains if the mean is much larger than
    the deviation.
    """
    x, scale, offset = em.operands(op)
    features = _Features(em, x, feature_index)
    mean = features.mean(x)
    centred = features.centred(x, mean)
    variance = features.mean(em.Mul(centred, centred))
    return [features.normalized(centred, variance, epsilon, scale, offset), mean, variance]


@handles("stablehlo.batch_norm_grad")
def batch_norm_grad(em: Emitter, op: Op, *, epsilon: float, feature_index: int) -> list[oir.Value]:
    """x, scale, mean, variance, grad_output -> gradients of x, scale and offset.

    With c = x - mean, v = variance + epsilon and g = grad_output, the gradients are
    scale / sqrt(v) * (g - mean(g) - c * mean(g * c) / v), sum(g * c) / sqrt(v) and sum(g).
    """
    x, scale, mean, variance, grad = em.operands(op)
    features = _Features(em, x, feature_index)
    centred = features.centred(x, mean)
    shifted = em.Add(variance, em.scalar_like(epsilon, x))
    deviation = em.Sqrt(shifted)
    total = features.sum(grad)
    slope = features.sum(em.Mul(grad, centred))
    count = em.scalar_like(features.count, x)
    by_offset = features.spread(em.Div(total, count))
    by_scale = em.Mul(centred, features.spread(em.Div(em.Div(slope, count), shifted)))
    remaining = em.Sub(em.Sub(grad, by_offset), by_scale)
    grad_x = em.Mul(remaining, features.spread(em.Div(scale, deviation)))
    return [grad_x, em.Div(slope, deviation), total]


class _Features:
    """Arithmetic between x and a vector with one number per feature.

    Attributes:
        others: The axes other than the feature axis.
        count: Elements of x for each feature.
    """

    def __init__(self, em: Emitter, x: oir.Value, feature_index: int) -> None:
        self.em = em
        self.others = [axis for axis in range(rank_of(x)) if axis != feature_index]
        self.count = math.prod(shape_of(x)[axis] for axis in self.others)

    def spread(self, per_feature: oir.Value) -> oir.Value:
        """A rank-1 tensor in a shape that broadcasts against x."""
        return self.em.unsqueeze(per_feature, self.others)

    def centred(self, x: oir.Value, mean: oir.Value) -> oir.Value:
        """x - mean."""
        return self.em.Sub(x, self.spread(mean))

    def normalized(
        self,
        centred: oir.Value,
        variance: oir.Value,
        epsilon: float,
        scale: oir.Value,
        offset: oir.Value,
    ) -> oir.Value:
        """centred / sqrt(variance + epsilon) * scale + offset, the factors multiplied first."""
        em = self.em
        deviation = em.Sqrt(em.Add(variance, em.scalar_like(epsilon, variance)))
        scaled = em.Mul(centred, self.spread(em.Div(scale, deviation)))
        return em.Add(scaled, self.spread(offset))

    def sum(self, x: oir.Value) -> oir.Value:
        """The sum over all other axes."""
        return self._reduced("ReduceSum", x)

    def mean(self, x: oir.Value) -> oir.Value:
        """The mean over all other axes; NaN if there are no elements."""
        if self.count == 0:
            return self.em.Div(self.sum(x), self.em.scalar_like(0, x))
        return self._reduced("ReduceMean", x)

    def _reduced(self, reducer: str, x: oir.Value) -> oir.Value:
        if not self.others:
            return x
        return self.em.op(reducer, x, self.em.i64(self.others), keepdims=0)

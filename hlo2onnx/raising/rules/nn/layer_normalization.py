"""LayerNormalization and RMSNormalization.

The runtime computes the variance as the mean of squared differences. That is never less exact than
E[x²] - E[x]², and often much more exact. Where squares overflow, from 1.8e19 on in f32, one may
give NaN where the other gives 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim, Shape, const_ints, const_number, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import both_orders, extent_of, is_private, unshaped
from hlo2onnx.raising.patterns import (
    As,
    Bindings,
    Constant,
    Either,
    Name,
    Op,
    Pattern,
    Product,
    Sum,
    match,
)
from hlo2onnx.raising.rules.nn.softmax import reduction_of

SINGLE_PRECISION = frozenset({oir.DataType.FLOAT, oir.DataType.FLOAT16})
"""Element types whose kernels are as exact as the expansion."""


class Unshaped(Pattern):
    """The pattern's value, or a Reshape of it."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def matches(self, value: oir.Value, bound: Bindings) -> Iterator[Bindings]:
        """See `Pattern.matches`."""
        yield from self._pattern.matches(unshaped(value), bound)

    def fits(self, value: oir.Value) -> bool:
        """See `Pattern.fits`."""
        return self._pattern.fits(unshaped(value))


_X, _MEAN, _AXES = Name("x"), Name("mean"), Name("axes")
_SQUARES = Op("ReduceMean", Product(_X, _X), _AXES)
_CENTERED = Op("Sub", _X, _MEAN)
_DIFFERENCE = As("difference", _CENTERED)
_PLAIN = Either(
    Op("Sub", _SQUARES, Product(_MEAN, _MEAN)),
    Op("ReduceMean", Product(_DIFFERENCE, _DIFFERENCE), _AXES),
)
VARIANCE = Either(Op("Max", 0.0, _PLAIN), Op("Relu", _PLAIN), _PLAIN)
"""The two forms of a variance. The second one names the `difference`."""


def _root(variance: Pattern) -> Pattern:
    return As("root", Op("Sqrt", Sum(variance, Constant("epsilon"))))


def inverse_root(variance: Pattern) -> Pattern:
    """1 / sqrt(variance + epsilon)."""
    return Either(Op("Reciprocal", _root(variance)), Op("Div", 1.0, _root(variance)))


def _normalized(value: Pattern, variance: Pattern) -> Pattern:
    """value / sqrt(variance + epsilon) * scale, or without the scale."""
    inverse, root, scale = inverse_root(variance), _root(variance), Name("scale")
    return Either(
        Op("Div", value, root),
        Product(inverse, value),
        Product(inverse, value, scale),
        Op("Div", Product(value, scale), root),
        Product(value, Op("Div", scale, root)),
    )


_LAYER = _normalized(_CENTERED, VARIANCE)
_RMS = _normalized(_X, _SQUARES)


def epsilon_of(found: Bindings) -> float:
    """The constant of a root's pattern."""
    epsilon = const_number(found["epsilon"])
    assert epsilon is not None
    return float(epsilon)


_ROOTS = frozenset({"Div", "Mul", "Reciprocal", "Sqrt"})
"""Operators that make an operand of each node that `_normalized` matches; of a Div it is Sqrt."""


class _DividedByRoot(Rule):
    """The base of rules for a value divided by a root."""

    anchors = frozenset({"Div", "Mul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It may divide by a root, in a type that the kernel is exact in."""
        found = _ROOTS & sources
        return dtype in SINGLE_PRECISION and ("Sqrt" in found if op_type == "Div" else bool(found))


def need_few_terms(dims: Sequence[Dim], b: Rewriter) -> None:
    """Refuses rows so long that the kernels lose digits. The length of symbolic axes is unknown."""
    terms = math.prod(dim for dim in dims if isinstance(dim, int))
    is_exact = not b.target.flags.naive_sums or terms <= b.costs.normalized_terms
    need(is_exact, "sums of this many terms lose digits")


def _trailing(x: oir.Value, axes: tuple[int, ...], b: Rewriter) -> Shape:
    """The shape of a normalized row: the last axes."""
    count = len(axes)
    need(
        count and axes == tuple(range(rank_of(x) - count, rank_of(x))),
        "its axes are not the last ones",
    )
    dims = shape_of(x)[rank_of(x) - count :]
    need_few_terms(dims, b)
    return dims


def _need_beside(value: oir.Value, x: oir.Value, axes: tuple[int, ...]) -> None:
    """Refuses a statistic over these axes that does not broadcast to x."""
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape_of(x)))
    beside = shape_of(value) == kept or set(shape_of(value)) <= {1}
    need(
        beside and rank_of(value) <= rank_of(x),
        "the statistic does not broadcast to its operand",
        value,
    )


def _parameter(b: Rewriter, value: oir.Value | None, dims: Shape, like: oir.Value) -> oir.Value:
    """A scale or bias in the shape of the normalized axes; ones for None."""
    static = [dim for dim in dims if isinstance(dim, int)]
    need(len(static) == len(dims), "a normalized extent is not known")
    if value is None:
        return b.const(np.ones(static, dtype_of(like).numpy()))
    number = const_number(value)
    if number is not None:
        return b.const(np.full(static, number, dtype_of(like).numpy()))
    extra = rank_of(value) - len(dims)
    fits = extra >= 0 and set(shape_of(value)[:extra]) <= {1} and shape_of(value)[extra:] == dims
    need(fits, "the parameter has another shape", value)
    return b.reshape(value, dims)


class LayerNormalization(_DividedByRoot):
    """(x - mean(x)) / sqrt(var(x) + e) * s -> LayerNormalization(x, s, epsilon=e)

    Legal over trailing axes, if the statistics broadcast to x. The variance is the mean of squared
    differences, or max(0, mean(x²) - mean(x)²), which the runtime computes more exactly.
    """

    name = "layer-normalization"

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found, axes = _centered_by_deviation(node, b)
        x = found["x"]
        scale = _parameter(b, found.get("scale"), _trailing(x, axes, b), x)
        return b.LayerNormalization(x, scale, axis=-len(axes), epsilon=epsilon_of(found))


def _centered_by_deviation(node: oir.Node, b: Rewriter) -> tuple[Bindings, tuple[int, ...]]:
    """The match of (x - mean(x, a)) / sqrt(var(x, a) + e) * s, and the axes a.

    Raises:
        Refusal: The node computes something else.
    """
    key = (LayerNormalization.name, node)
    if key not in b.kept:  # two rules ask
        b.kept[key] = match(_LAYER, node.outputs[0])
    found: Bindings = needed(
        b.kept[key], "no centered value is divided by a standard deviation", node
    )
    x = found["x"]
    need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
    axes = reduction_of(found["mean"], "ReduceMean", x)
    same = constant_axes(found["axes"], rank_of(x)) == axes
    need(same, "mean and deviation have different axes")
    _need_beside(found["root"], x, axes)
    need(shape_of(x) == shape_of(node.outputs[0]), "a parameter determines the shape", node)
    return found, axes


def constant_axes(axes: oir.Value, rank: int) -> tuple[int, ...] | None:
    """The listed axes, non-negative and sorted; None if they are computed."""
    known = const_ints(axes)
    return None if known is None else tuple(sorted(axis % rank for axis in known))


class ChannelLayerNormalization(_DividedByRoot):
    """(x - mean(x, 1)) / sqrt(var(x, 1) + e) -> Transpose(LayerNormalization(Transpose(x), 1))

    ConvNeXt normalizes the channels of images with channels second like this. Legal along any one
    axis of a known extent. `layer-normalization` does it along the last one. Scale and bias follow:
    the Transpose sinks past them. Done where that is faster: for many channels and small images.
    """

    name = "channel-layer-normalization"

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found, axes = _centered_by_deviation(node, b)
        x, rank = found["x"], rank_of(found["x"])
        need(len(axes) == 1 and axes[0] != rank - 1, "it does not run over one inner axis", node)
        extent = needed(extent_of(x, axes[0]), "the extent is not known", x)
        need_few_terms((extent,), b)
        need(extent >= b.costs.channel_norm_extent, "there are few channels", x)
        size = math.prod(dim for dim in shape_of(x) if isinstance(dim, int))
        need(size <= b.costs.channel_norm_elements, "the Transposes would take long", x)
        perm = [*(place for place in range(rank) if place not in axes), *axes]
        ones = b.const(np.ones(extent, dtype_of(x).numpy()))
        moved, epsilon = b.transpose(x, perm), epsilon_of(found)
        normal = b.LayerNormalization(moved, ones, axis=-1, epsilon=epsilon)
        made = b.transpose(normal, np.argsort(perm).tolist())
        return b.Mul(made, found["scale"]) if "scale" in found else made


class RMSNormalization(_DividedByRoot):
    """x / sqrt(mean(x²) + e) * s -> RMSNormalization(x, s, epsilon=e), over trailing axes

    Also for x * (1 / sqrt(...)), x * s / sqrt(...) and x * (s / sqrt(...)), in all normalizations.
    """

    name = "rms-normalization"

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dtype = dtype_of(node.outputs[0])
        need(b.supports("RMSNormalization", dtype), "the opset has no RMSNormalization", node)
        found = needed(
            match(_RMS, node.outputs[0]),
            "no value is divided by the root of its mean square",
            node,
        )
        x = found["x"]
        need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
        axes = needed(constant_axes(found["axes"], rank_of(x)), "its axes are not known", x)
        dims = _trailing(x, axes, b)
        _need_beside(found["root"], x, axes)
        need(shape_of(x) == shape_of(node.outputs[0]), "a parameter determines the shape", node)
        scale = _parameter(b, found.get("scale"), dims, x)
        return b.RMSNormalization(x, scale, axis=-len(axes), epsilon=epsilon_of(found))


class LayerNormalizationAffine(Rule):
    """LayerNormalization(x, 1) * s + b -> LayerNormalization(x, s, b), likewise RMSNormalization

    Legal for s and b in the shape of the normalized axes, if nothing else reads the normalized
    values.
    """

    name = "layer-normalization-affine"
    formerly = ("normalization-parameters",)
    anchors = frozenset({"Add", "Mul"})
    sources = frozenset({"LayerNormalization", "RMSNormalization"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for value, parameter in both_orders(node):
            normal = value.producer()
            if normal is None or normal.op_type not in ("LayerNormalization", "RMSNormalization"):
                continue
            need(is_private(value), "it has other readers", normal)
            x, scale, *bias = normal.inputs
            assert x is not None and scale is not None
            dims = shape_of(scale)
            need(shape_of(x) == shape_of(node.outputs[0]), "a parameter fixes the shape", node)
            need(not bias, "it already has a bias", normal)
            parameters = [scale, _parameter(b, parameter, dims, x)]
            if node.op_type == "Mul":
                known = b.facts.constant(scale)
                need(known is not None and (known == 1).all(), "it already has a scale", normal)
                del parameters[0]
            else:
                need(normal.op_type == "LayerNormalization", "the operator takes no bias", normal)
            return b.like(normal, [x, *parameters])
        raise Refusal("no operand is normalized", node)

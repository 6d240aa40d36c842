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
from hlo2onnx.raising.match.views import (
    both_orders,
    is_private,
    maker_of,
    operands,
    source_of,
)
from hlo2onnx.raising.patterns import As, Either, Name, Op, Product, match
from hlo2onnx.raising.rules.nn.softmax import reduction_of

SINGLE_PRECISION = frozenset({oir.DataType.FLOAT, oir.DataType.FLOAT16})
"""Element types whose kernels are as exact as the expansion."""


def _factors(node: oir.Node) -> Iterator[tuple[oir.Value, oir.Value, oir.Value | None]]:
    """(a, v, s) for every match of the node with a / sqrt(v) or a / sqrt(v) * s."""
    left, right = operands(node)
    if node.op_type == "Div":
        variance = source_of(right, "Sqrt")
        if variance is not None:
            yield left, variance, None
        return
    for a, b in ((left, right), (right, left)):
        variance = under_inverse_root(b)
        if variance is not None:
            yield a, variance, None
            scaled = a.producer()
            if scaled is not None and scaled.op_type == "Mul":
                for x, scale in both_orders(scaled):
                    yield x, variance, scale
        product = b.producer()
        if product is not None and product.op_type == "Mul":
            for root, scale in both_orders(product):
                variance = under_inverse_root(root)
                if variance is not None:
                    yield a, variance, scale


_ROOT = Op("Sqrt", Name("variance"))
_INVERSE_ROOT = Either(Op("Reciprocal", _ROOT), Op("Div", 1.0, _ROOT))
_ROOTS = frozenset({"Div", "Mul", "Reciprocal", "Sqrt"})
"""Operators that make an operand of each node that `_factors` matches; of a Div it is Sqrt."""


def has_root(op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
    """Whether the factors of a node of this operator may contain a root, in a type that the kernels
    are exact in. See `Rule.fits`."""
    found = _ROOTS & sources
    return dtype in SINGLE_PRECISION and ("Sqrt" in found if op_type == "Div" else bool(found))


def under_inverse_root(value: oir.Value) -> oir.Value | None:
    """v of 1 / sqrt(v)."""
    if maker_of(value, "Div", "Reciprocal") is None:
        return None
    found = match(_INVERSE_ROOT, value)
    return None if found is None else found["variance"]


def with_epsilon(value: oir.Value) -> tuple[oir.Value, float]:
    """v and e of v + e."""
    node = value.producer()
    if node is not None and node.op_type == "Add":
        for variance, constant in both_orders(node):
            number = const_number(constant)
            if number is not None:
                return variance, float(number)
    raise Refusal("no epsilon is added", value)


_X, _MEAN = Name("x"), Name("mean")
_FAST = Op("Sub", Op("ReduceMean", Product(_X, _X), Name("axes")), Product(_MEAN, _MEAN))
_CENTRED = Op("Sub", _X, _MEAN)
_DIFFERENCE = As("difference", _CENTRED)
_PLAIN = Either(_FAST, Op("ReduceMean", Product(_DIFFERENCE, _DIFFERENCE), Name("axes")))
VARIANCE = Either(Op("Max", 0.0, _PLAIN), Op("Relu", _PLAIN), _PLAIN)
"""The two forms of a variance. The second one names the `difference`."""


def need_few_terms(dims: Sequence[Dim], b: Rewriter) -> None:
    """Refuses where so much is normalized together that the kernels lose digits; how much runs
    along symbolic axes is not known."""
    terms = math.prod(dim for dim in dims if isinstance(dim, int))
    is_exact = not b.target.flags.naive_sums or terms <= b.costs.normalized_terms
    need(is_exact, "the kernel's sums of so many terms lose digits")


def _trailing(x: oir.Value, axes: tuple[int, ...], b: Rewriter) -> Shape:
    """The shape of what is normalized together: the last axes."""
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


class LayerNormalization(Rule):
    """(x - mean(x)) / sqrt(var(x) + e) * s -> LayerNormalization(x, s, epsilon=e)

    Legal over trailing axes, if the statistics broadcast to x. The variance is the mean of squared
    differences, or max(0, mean(x²) - mean(x)²), which the runtime computes more exactly.
    """

    name = "layer-normalization"
    anchors = frozenset({"Div", "Mul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It may divide by a root, in a type that the kernel is exact in."""
        return has_root(op_type, sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, axes, scale, epsilon = centred_by_deviation(node)
        dims = _trailing(x, axes, b)
        parameter = _parameter(b, scale, dims, x)
        return b.LayerNormalization(x, parameter, axis=-len(axes), epsilon=epsilon)


def centred_by_deviation(
    node: oir.Node,
) -> tuple[oir.Value, tuple[int, ...], oir.Value | None, float]:
    """x, the axes a, s and e of (x - mean(x, a)) / sqrt(var(x, a) + e) * s; s is None for 1.

    Raises:
        Refusal: The node computes something else.
    """
    for centred, root, scale in _factors(node):
        found = match(_CENTRED, centred)
        if found is None:
            continue
        x, mean = found["x"], found["mean"]
        need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
        variance, epsilon = with_epsilon(root)
        squares = needed(
            match(VARIANCE, variance), "it is not divided by a standard deviation", variance
        )
        same = squares["x"] is x and squares["mean"] is mean
        need(same, "the deviation is of another value", variance)
        axes = reduction_of(mean, "ReduceMean", x)
        need(
            constant_axes(squares["axes"], rank_of(x)) == axes,
            "mean and deviation have different axes",
        )
        _need_beside(root, x, axes)
        need(shape_of(x) == shape_of(node.outputs[0]), "a parameter decides the shape", node)
        return x, axes, scale, epsilon
    raise Refusal("no centered value is divided by a root", node)


def constant_axes(axes: oir.Value, rank: int) -> tuple[int, ...] | None:
    """The listed axes, non-negative and sorted; None if they are computed."""
    known = const_ints(axes)
    return None if known is None else tuple(sorted(axis % rank for axis in known))


class RMSNormalization(Rule):
    """x / sqrt(mean(x²) + e) * s -> RMSNormalization(x, s, epsilon=e), over trailing axes

    Also for x * (1 / sqrt(...)), in all normalizations.
    """

    name = "rms-normalization"
    anchors = frozenset({"Div", "Mul"})

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """It may divide by a root, in a type that the kernel is exact in."""
        return has_root(op_type, sources, dtype)

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for x, root, scale in _factors(node):
            need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
            need(
                b.supports("RMSNormalization", dtype_of(x)),
                "the opset has no RMSNormalization",
                node,
            )
            squares, epsilon = with_epsilon(root)
            found = match(Op("ReduceMean", Product(_X, _X), Name("axes")), squares)
            if found is None or found["x"] is not x:
                continue
            axes = constant_axes(found["axes"], rank_of(x))
            need(axes is not None, "its axes are not known", squares)
            assert axes is not None
            dims = _trailing(x, axes, b)
            _need_beside(root, x, axes)
            need(shape_of(x) == shape_of(node.outputs[0]), "a parameter decides the shape", node)
            return b.RMSNormalization(
                x, _parameter(b, scale, dims, x), axis=-len(axes), epsilon=epsilon
            )
        raise Refusal("no value is divided by the root of its mean square", node)


class LayerNormalizationAffine(Rule):
    """LayerNormalization(x, 1) * s + b -> LayerNormalization(x, s, b), and so RMSNormalization

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
            need(is_private(value), "others read it", normal)
            x, scale, *bias = normal.inputs
            assert x is not None and scale is not None
            dims = shape_of(scale)
            need(shape_of(x) == shape_of(node.outputs[0]), "the parameter decides the shape", node)
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

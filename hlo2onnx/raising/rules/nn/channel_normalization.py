"""Group and instance normalization of arrays with channels second."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product, quotient
from hlo2onnx.ir.values import Shape, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    maker_of,
    operands,
    source_of,
    unshaped,
)
from hlo2onnx.raising.patterns import match
from hlo2onnx.raising.rules.nn.layer_normalization import (
    SINGLE_PRECISION,
    VARIANCE,
    constant_axes,
    need_few_terms,
    under_inverse_root,
    with_epsilon,
)


class GroupNormalization(Rule):
    """(x - mean) / sqrt(var + e), with statistics of groups of channels -> InstanceNormalization
    over the groups

    Legal for channels-second x. The statistics reduce all axes of a group of Reshape(x, (n, groups,
    channels in a group, ...)), or of x itself if that is the same, and are repeated for each
    channel. A scale next to the inverse root becomes a factor of the result. In instance
    normalization each channel is a group.
    """

    name = "group-normalization"
    anchors = frozenset({"Mul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for centred, factor in both_orders(node):
            difference = centred.producer()
            if difference is None or difference.op_type != "Sub":
                continue
            x, repeated = operands(difference)
            need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
            need(rank_of(x) > 3, "with one axis besides the channels it is a LayerNormalization", x)
            mean, groups = _of_groups(repeated, x)
            inverse, scale = self._inverse(factor, x, groups, b)
            root = needed(under_inverse_root(inverse), "it is not divided by a root", factor)
            variance, epsilon = with_epsilon(root)
            _check_statistics(x, mean, unshaped(variance), groups)
            normal = _normalized(x, groups, epsilon, b)
            result: oir.Value = normal if scale is None else b.Mul(normal, scale)
            return result
        raise Refusal("no centered value is scaled", node)

    def _inverse(
        self, factor: oir.Value, x: oir.Value, groups: int, b: Rewriter
    ) -> tuple[oir.Value, oir.Value | None]:
        """The inverse root of each group, and the scale of each channel."""
        product = unshaped(factor).producer()
        if product is None or product.op_type != "Mul":
            inverse, of = _of_groups(factor, x)
            need(of == groups, "mean and deviation are of other groups", factor)
            return inverse, None
        for small, scale in both_orders(product):
            if scale.const_value is not None:
                _check_scale(small, scale, product.outputs[0], (shape_of(x)[0], groups))
                return unshaped(small), b.reshape(scale, (1, *shape_of(factor)[1:]))
        raise Refusal("the factor is not repeated for the channels of a group", factor)


def _check_scale(small: oir.Value, scale: oir.Value, scaled: oir.Value, groups: Shape) -> None:
    """Requires a product of a number for each group and a number for each channel that is the same
    for the whole batch."""
    dims = shape_of(scaled)
    kept, own = ((1,) * (len(dims) - rank_of(x)) + shape_of(x) for x in (small, scale))
    outer = next((n for n, dim in enumerate(kept) if dim != dims[n]), len(dims))
    of_groups = set(kept[outer:]) <= {1} and product(kept[:outer]) == product(groups)
    need(of_groups, "its groups are others", small)
    batch = next((n for n, dim in enumerate(dims) if dim != 1), 0) if groups[0] != 1 else 0
    same = dims[batch] == groups[0] and own == (*dims[:batch], 1, *dims[batch + 1 :])
    need(same, "the scale has another shape", scale)


def _of_groups(value: oir.Value, x: oir.Value) -> tuple[oir.Value, int]:
    """The numbers for each group, from a value that repeats them for the channels of x, and the
    number of groups.

    Raises:
        Refusal: The value is something else.
    """
    batch, channels = shape_of(x)[:2]
    need(isinstance(channels, int), "the number of channels is not known", x)
    assert isinstance(channels, int)
    if batch == 1 and rank_of(value) < rank_of(x) and set(shape_of(value)) <= {1}:
        return unshaped(value), 1
    need(
        shape_of(value) == (batch, channels, *(1,) * (rank_of(x) - 2)),
        "it does not hold one number for each channel",
    )
    wide = unshaped(value)
    small = source_of(wide, "Expand")
    if small is None:
        return wide, channels
    groups = shape_of(small)[1] if rank_of(small) == 3 else None
    need(isinstance(groups, int) and groups, "no number is repeated for a group", value)
    assert isinstance(groups, int)
    repeated = shape_of(small) == (batch, groups, 1)
    need(repeated and shape_of(wide) == (batch, groups, channels // groups), "other groups", value)
    return unshaped(small), groups


def _check_statistics(x: oir.Value, mean: oir.Value, variance: oir.Value, groups: int) -> None:
    """Requires that these are mean and variance of groups of the channels of x."""
    found = needed(match(VARIANCE, variance), "it is not a variance", variance)
    averaged = _mean(mean)
    own = _mean(unshaped(found["mean"]))
    same = first(own) is first(averaged) and reduced_axes(own) == reduced_axes(averaged)
    need(same, "the variance is around another mean", variance)
    view = first(averaged)
    need(found["x"] is view, "the variance is of something else", variance)
    batch, channels = shape_of(x)[:2]
    assert isinstance(channels, int)
    axes = range(2, rank_of(x) + 1)
    if view is x:
        need(groups in (1, channels), "the statistics are of other groups", mean)
        axes = range(1 if groups == 1 else 2, rank_of(x))
    else:
        need(source_of(view, *RESHAPES) is x, "the statistics are of something else", view)
        dims = (batch, groups, channels // groups, *shape_of(x)[2:])
        need(shape_of(view) == dims, "the groups are not of channels", view)
    kept = (batch, groups, *(1,) * (rank_of(view) - 2))
    beside = "difference" not in found or shape_of(found["mean"]) == kept
    need(beside, "the mean does not broadcast to its operand", found["mean"])
    for value in (averaged.inputs[1], found["axes"]):
        assert value is not None
        same = constant_axes(value, rank_of(view)) == tuple(axes)
        need(same, "the statistics are over other axes", mean)


def _mean(value: oir.Value) -> oir.Node:
    """The node that computes a mean.

    Raises:
        Refusal: There is none.
    """
    return needed(maker_of(value, "ReduceMean"), "it is not a mean", value)


def _normalized(x: oir.Value, groups: int, epsilon: float, b: Rewriter) -> oir.Value:
    ones = b.const(np.ones(groups, dtype_of(x).numpy()))
    zeros = b.const(np.zeros(groups, dtype_of(x).numpy()))
    whole = shape_of(x)
    inside = quotient(product(whole[1:]), groups)
    need_few_terms([inside], b)
    if whole[1] == groups:
        return b.InstanceNormalization(x, ones, zeros, epsilon=epsilon)
    flat = (whole[0], groups, inside)
    need(b.reshapes_at_once(x, flat), "its shape is computed at run time", x)
    normal = b.InstanceNormalization(b.reshape(x, flat), ones, zeros, epsilon=epsilon)
    return b.reshape(normal, whole)

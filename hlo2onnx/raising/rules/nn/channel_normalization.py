"""Group and instance normalization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product, quotient
from hlo2onnx.ir.values import Shape, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    extent_of,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
    unshaped,
)
from hlo2onnx.raising.patterns import Bindings, match
from hlo2onnx.raising.rules.nn.batch_normalization import numbers_of_channels
from hlo2onnx.raising.rules.nn.layer_normalization import (
    SINGLE_PRECISION,
    VARIANCE,
    Unshaped,
    constant_axes,
    epsilon_of,
    inverse_root,
    need_few_terms,
)

_DEVIATION = inverse_root(Unshaped(VARIANCE))


@dataclass(frozen=True)
class _Groups:
    """Groups of the channels of x, its second axis."""

    x: oir.Value
    channels: int
    count: int

    @property
    def width(self) -> int:
        """The number of channels of a group."""
        return self.channels // self.count

    @property
    def per_channel(self) -> Shape:
        """The shape of a number for each channel, and image, next to x."""
        return (shape_of(self.x)[0], self.channels, *(1,) * (rank_of(self.x) - 2))


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
    sources = frozenset({"Sub"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for centered, factor in both_orders(node):
            difference = maker_of(centered, "Sub")
            if difference is None:
                continue
            x, repeated = operands(difference)
            need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
            few = "with one axis besides the channels it is a LayerNormalization"
            need(rank_of(x) > 3, few, x)
            mean, groups = _of_groups(repeated, x)
            inverse, scale = _inverse(factor, groups, b)
            root = needed(match(_DEVIATION, inverse), "it is not a standard deviation", factor)
            _check_statistics(mean, root, groups)
            normal = _normalized(groups, epsilon_of(root), b)
            return normal if scale is None else b.Mul(normal, scale)
        raise Refusal("no centered value is scaled", node)


def _inverse(factor: oir.Value, groups: _Groups, b: Rewriter) -> tuple[oir.Value, oir.Value | None]:
    """The inverse root of each group, and the scale of each channel."""
    scaling = maker_of(unshaped(factor), "Mul")
    if scaling is None:
        return _inverse_of_groups(factor, groups), None
    for small, scale in both_orders(scaling):
        inverse, width = _repeated(small)
        if match(_DEVIATION, inverse) is None:
            continue
        if scaling.outputs[0] is factor:
            return _inverse_of_groups(small, groups), scale
        dims = groups.per_channel
        need(shape_of(factor) == dims, "it does not hold one number for each channel", factor)
        _check_scale(small, scale, scaling.outputs[0], groups, width)
        return inverse, b.reshape(scale, (1, *dims[1:]))
    raise Refusal("the factor is not repeated for the channels of a group", factor)


def _inverse_of_groups(value: oir.Value, groups: _Groups) -> oir.Value:
    inverse, own = _of_groups(value, groups.x)
    need(own == groups, "mean and deviation are of other groups", value)
    return inverse


def _check_scale(
    small: oir.Value, scale: oir.Value, scaled: oir.Value, groups: _Groups, width: int
) -> None:
    """Requires a product of a number for each group, repeated `width` times already, and a number
    for each channel that is the same for the whole batch."""
    dims, batch = shape_of(scaled), shape_of(groups.x)[0]
    kept, own = ((1,) * (len(dims) - rank_of(x)) + shape_of(x) for x in (small, scale))
    outer = next((n for n, dim in enumerate(kept) if dim != dims[n]), len(dims))
    count = product([batch, groups.count, width])
    of_groups = set(kept[outer:]) <= {1} and product(kept[:outer]) == count
    need(of_groups, "its groups differ", small)
    images = next((n for n, dim in enumerate(dims) if dim != 1), 0) if batch != 1 else 0
    same = dims[images] == batch and own == (*dims[:images], 1, *dims[images + 1 :])
    need(same, "the scale has another shape", scale)


def _of_groups(value: oir.Value, x: oir.Value) -> tuple[oir.Value, _Groups]:
    """The numbers for each group, from a value that repeats them for the channels of x, and the
    groups.

    Raises:
        Refusal: The value is something else.
    """
    channels = needed(extent_of(x, 1), "the number of channels is not known", x)
    is_one = shape_of(x)[0] == 1 and rank_of(value) < rank_of(x)
    if is_one and set(shape_of(value)) <= {1}:
        return unshaped(value), _Groups(x, channels, 1)
    same = shape_of(value) == _Groups(x, channels, channels).per_channel
    need(same, "it does not hold one number for each channel", value)
    small, width = _repeated(value)
    need(channels % width == 0, "no number is repeated within a group", value)
    return small, _Groups(x, channels, channels // width)


def _repeated(value: oir.Value) -> tuple[oir.Value, int]:
    """Numbers that are each repeated in a row, and how many times.

    Raises:
        Refusal: They are repeated in another order.
    """
    wide = unshaped(value)
    small = source_of(wide, "Expand")
    if small is None:
        return wide, 1
    dims = shape_of(wide)
    kept = (1,) * (len(dims) - rank_of(small)) + shape_of(small)
    outer = next((n for n, dim in enumerate(kept) if dim != dims[n]), len(dims))
    width = product(dims[outer:])
    in_a_row = set(kept[outer:]) <= {1} and isinstance(width, int) and width
    need(in_a_row, "no number is repeated within a group", value)
    assert isinstance(width, int)
    return unshaped(small), width


def _check_statistics(mean: oir.Value, found: Bindings, groups: _Groups) -> None:
    """Requires that these are mean and variance of groups of the channels of x."""
    x, count, dims = groups.x, groups.count, shape_of(groups.x)
    averaged, own = (
        needed(maker_of(each, "ReduceMean"), "it is not a mean", each)
        for each in (mean, unshaped(found["mean"]))
    )
    view = first(averaged)
    same = first(own) is view is found["x"] and reduced_axes(own) == reduced_axes(averaged)
    need(same, "the variance is of another tensor, or around another mean", mean)
    if view is x:
        need(count in (1, groups.channels), "the statistics are of other groups", mean)
    else:
        need(source_of(view, *RESHAPES) is x, "the statistics are of another tensor", view)
        split = (dims[0], count, groups.width, *dims[2:])
        need(shape_of(view) == split, "the groups are not of channels", view)
    kept = (dims[0], count, *(1,) * (rank_of(view) - 2))
    beside = "difference" not in found or shape_of(found["mean"]) == kept
    need(beside, "the mean does not broadcast to its operand", found["mean"])
    start = 1 if view is x and count == 1 else 2
    axes = tuple(range(start, rank_of(view)))
    for value in (averaged.inputs[1], found["axes"]):
        assert value is not None
        same = constant_axes(value, rank_of(view)) == axes
        need(same, "the statistics are over other axes", mean)


def _normalized(groups: _Groups, epsilon: float, b: Rewriter) -> oir.Value:
    x, count, whole = groups.x, groups.count, shape_of(groups.x)
    ones = np.ones(count, dtype_of(x).numpy())
    width = quotient(product(whole[1:]), count)
    need_few_terms([width], b)
    flat = whole if count == groups.channels else (whole[0], count, width)
    need(b.reshapes_at_once(x, flat), "its shape is computed at run time", x)
    parameters = b.const(ones), b.const(0 * ones)
    normal = b.InstanceNormalization(b.reshape(x, flat), *parameters, epsilon=epsilon)
    return b.reshape(normal, whole)


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
            need(is_private(value), "it has other readers", normal)
            x, scale, shift = operands(normal)
            _need_all(shift, 0)
            if node.op_type == "Mul":
                _need_all(scale, 1)
                scale = numbers_of_channels(parameter, x, b)
            else:
                shift = numbers_of_channels(parameter, x, b)
            epsilon = normal.attributes["epsilon"].as_float()
            return b.InstanceNormalization(x, scale, shift, epsilon=epsilon)
        raise Refusal("no operand is normalized", node)


def _need_all(parameter: oir.Value, number: int) -> None:
    """Refuses a parameter unless it is this number for all channels."""
    known = const_of(parameter)
    need(known is not None and (known == number).all(), "it already has parameters", parameter)

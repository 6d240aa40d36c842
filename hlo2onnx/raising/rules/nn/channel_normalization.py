"""Group and instance normalization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import product, quotient
from hlo2onnx.ir.values import Dim, Shape, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.reductions import reduced_axes
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    is_only_for,
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


@dataclass(frozen=True)
class _Groups:
    """Groups of the channels of x, in images of a batch along the first axis.

    Attributes:
        axis: That of the channels.
        channels: How many there are.
        count: Number of groups.
    """

    x: oir.Value
    axis: int
    channels: int
    count: int

    @property
    def batch(self) -> Dim:
        """The number of images."""
        return shape_of(self.x)[0]

    @property
    def width(self) -> int:
        """The number of channels of a group."""
        return self.channels // self.count


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
        found = _group_normalization(node, b)
        need(found.groups.axis == 1, "the channels are not second", found.groups.x)
        return found.applied(b)


class TransposeGroupNormalization(Rule):
    """(x - mean) / sqrt(var + e), as in group-normalization -> the same of Transpose(x)

    Legal for channels along any axis but the first and second. Done if no Transpose of the program
    puts the channels second, and nothing else reads the statistics.
    """

    name = "transpose-group-normalization"
    anchors = frozenset({"Mul"})
    sources = frozenset({"Sub"})
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        found = _group_normalization(node, b)
        need(found.groups.axis != 1, "the channels are second", found.groups.x)
        need(is_only_for(node, found.groups.x), "others read the statistics", node)
        return found.applied(b)


@dataclass(frozen=True)
class _GroupNormalization:
    """Normalized groups, and the scale of their channels if there is one."""

    groups: _Groups
    epsilon: float
    scale: oir.Value | None

    def applied(self, b: Rewriter) -> oir.Value:
        """The normalized and scaled value."""
        normal = _normalized(self.groups, self.epsilon, b)
        result: oir.Value = normal if self.scale is None else b.Mul(normal, self.scale)
        return result


def _group_normalization(node: oir.Node, b: Rewriter) -> _GroupNormalization:
    """The parts of a product of a centered value and an inverse deviation.

    Raises:
        Refusal: It is something else.
    """
    for centred, factor in both_orders(node):
        difference = centred.producer()
        if difference is None or difference.op_type != "Sub":
            continue
        x, repeated = operands(difference)
        need(dtype_of(x) in SINGLE_PRECISION, "its kernel is less exact in this type", x)
        need(rank_of(x) > 3, "with one axis besides the channels it is a LayerNormalization", x)
        mean, groups = _of_groups(repeated, x)
        inverse, scale = _inverse(factor, groups, b)
        root = needed(under_inverse_root(inverse), "it is not divided by a root", factor)
        variance, epsilon = with_epsilon(root)
        _check_statistics(mean, unshaped(variance), groups)
        return _GroupNormalization(groups, epsilon, scale)
    raise Refusal("no centered value is scaled", node)


def _inverse(factor: oir.Value, groups: _Groups, b: Rewriter) -> tuple[oir.Value, oir.Value | None]:
    """The inverse root of each group, and the scale of each channel."""
    scaling = maker_of(unshaped(factor), "Mul")
    if scaling is None:
        return _inverse_of_groups(factor, groups), None
    for small, scale in both_orders(scaling):
        inverse, width = _repeated(small)
        if under_inverse_root(inverse) is None:
            continue
        if scaling.outputs[0] is factor:
            return _inverse_of_groups(small, groups), scale
        dims = _per_channel(groups, groups.axis)
        need(shape_of(factor) == dims, "it does not hold one number for each channel", factor)
        _check_scale(small, scale, scaling.outputs[0], groups, width)
        return inverse, b.reshape(scale, (1, *dims[1:]))
    raise Refusal("the factor is not repeated for the channels of a group", factor)


def _inverse_of_groups(value: oir.Value, groups: _Groups) -> oir.Value:
    inverse, own = _of_groups(value, groups.x)
    need(own == groups, "mean and deviation are of other groups", value)
    return inverse


def _per_channel(groups: _Groups, axis: int) -> Shape:
    """The shape of a number for each channel, and image, next to x."""
    dims: list[Dim] = [1] * rank_of(groups.x)
    dims[0], dims[axis] = groups.batch, groups.channels
    return tuple(dims)


def _check_scale(
    small: oir.Value, scale: oir.Value, scaled: oir.Value, groups: _Groups, width: int
) -> None:
    """Requires a product of a number for each group, repeated `width` times already, and a number
    for each channel that is the same for the whole batch."""
    dims, batch = shape_of(scaled), groups.batch
    kept, own = ((1,) * (len(dims) - rank_of(x)) + shape_of(x) for x in (small, scale))
    outer = next((n for n, dim in enumerate(kept) if dim != dims[n]), len(dims))
    count = product([batch, groups.count, width])
    of_groups = set(kept[outer:]) <= {1} and product(kept[:outer]) == count
    need(of_groups, "its groups are others", small)
    images = next((n for n, dim in enumerate(dims) if dim != 1), 0) if batch != 1 else 0
    same = dims[images] == batch and own == (*dims[:images], 1, *dims[images + 1 :])
    need(same, "the scale has another shape", scale)


def _of_groups(value: oir.Value, x: oir.Value) -> tuple[oir.Value, _Groups]:
    """The numbers for each group, from a value that repeats them for the channels of x, and the
    groups.

    Raises:
        Refusal: The value is something else.
    """
    dims = shape_of(x)
    own = (1,) * (len(dims) - rank_of(value)) + shape_of(value)
    axis = next((n for n, dim in enumerate(own) if n and dim != 1), 1)
    channels = dims[axis]
    need(isinstance(channels, int), "the number of channels is not known", x)
    assert isinstance(channels, int)
    if dims[0] == 1 and rank_of(value) < rank_of(x) and set(own) == {1}:
        return unshaped(value), _Groups(x, axis, channels, 1)
    groups = _Groups(x, axis, channels, channels)
    need(
        shape_of(value) == _per_channel(groups, axis),
        "it does not hold one number for each channel",
        value,
    )
    small, width = _repeated(value)
    need(channels % width == 0, "no number is repeated for a group", value)
    return small, _Groups(x, axis, channels, channels // width)


def _repeated(value: oir.Value) -> tuple[oir.Value, int]:
    """Numbers of which each is repeated so many times in a row, and how many times.

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
    need(in_a_row, "no number is repeated for a group", value)
    assert isinstance(width, int)
    return unshaped(small), width


def _check_statistics(mean: oir.Value, variance: oir.Value, groups: _Groups) -> None:
    """Requires that these are mean and variance of groups of the channels of x."""
    x, axis, count = groups.x, groups.axis, groups.count
    found = needed(match(VARIANCE, variance), "it is not a variance", variance)
    averaged = _mean(mean)
    own = _mean(unshaped(found["mean"]))
    same = first(own) is first(averaged) and reduced_axes(own) == reduced_axes(averaged)
    need(same, "the variance is around another mean", variance)
    view = first(averaged)
    need(found["x"] is view, "the variance is of something else", variance)
    dims = shape_of(x)
    if view is x:
        need(count in (1, groups.channels), "the statistics are of other groups", mean)
    else:
        need(source_of(view, *RESHAPES) is x, "the statistics are of something else", view)
        split = (*dims[:axis], count, groups.width, *dims[axis + 1 :])
        need(shape_of(view) == split, "the groups are not of channels", view)
    kept: list[Dim] = [1] * rank_of(view)
    kept[0], kept[axis] = groups.batch, count
    beside = "difference" not in found or shape_of(found["mean"]) == tuple(kept)
    need(beside, "the mean does not broadcast to its operand", found["mean"])
    remaining = {0} if view is x and count == 1 else {0, axis}
    axes = tuple(n for n in range(rank_of(view)) if n not in remaining)
    for value in (averaged.inputs[1], found["axes"]):
        assert value is not None
        same = constant_axes(value, rank_of(view)) == axes
        need(same, "the statistics are over other axes", mean)


def _mean(value: oir.Value) -> oir.Node:
    """The node that computes a mean.

    Raises:
        Refusal: There is none.
    """
    return needed(maker_of(value, "ReduceMean"), "it is not a mean", value)


def _normalized(groups: _Groups, epsilon: float, b: Rewriter) -> oir.Value:
    x, count = groups.x, groups.count
    ones = b.const(np.ones(count, dtype_of(x).numpy()))
    zeros = b.const(np.zeros(count, dtype_of(x).numpy()))
    need_few_terms([quotient(product(shape_of(x)[1:]), count)], b)
    others = [n for n in range(1, rank_of(x)) if n != groups.axis]
    perm = (0, groups.axis, *others)
    images = x if groups.axis == 1 else b.transpose(x, perm)
    whole = shape_of(images)
    if count == groups.channels:
        normal: oir.Value = b.InstanceNormalization(images, ones, zeros, epsilon=epsilon)
    else:
        flat = (whole[0], count, quotient(product(whole[1:]), count))
        need(b.reshapes_at_once(images, flat), "its shape is computed at run time", x)
        normal = b.InstanceNormalization(b.reshape(images, flat), ones, zeros, epsilon=epsilon)
        normal = b.reshape(normal, whole)
    return normal if groups.axis == 1 else b.transpose(normal, np.argsort(perm).tolist())

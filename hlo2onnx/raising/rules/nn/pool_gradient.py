"""Gradients of pools: window sums with one element in each window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, const_of, rank_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, source_of
from hlo2onnx.raising.rules.shapes.interleave import Dims, zero_padding
from hlo2onnx.raising.rules.shapes.transpose import splits


class PoolingGradient(Rule):
    """Conv(x with gaps of zeros, ones) -> x + 0, each element repeated as often as windows see it

    The gradient of an average pool sums windows as wide as the gaps, each of which holds one
    element. Legal if the windows of each channel are summed separately, in steps of 1, and every
    window holds exactly one element. Adding 0 turns -0 into +0, as the sum did.
    """

    name = "pooling-gradient"
    anchors = frozenset({"Conv"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        window = _window_of_ones(node)
        spread = first(node)
        mover = spread.producer()
        perm = list(range(rank_of(spread)))
        if mover is not None and mover.op_type == "Transpose":
            perm, spread = list(mover.attributes["perm"].as_ints()), first(mover)
        found = _spread(spread)
        dims = static_shape(spread) or ()
        for axis, width in zip(perm, window, strict=True):
            alone = (found.steps[axis], found.starts[axis]) == (width, width - 1)
            whole = dims[axis] == found.dims[axis] * width + width - 1
            need(alone and whole, "a window does not hold exactly one element", node)
        x = b.Add(b.reshape(found.x, found.dims), found.zero)
        x = b.transpose(x, perm)
        for place, (axis, width) in enumerate(zip(perm, window, strict=True)):
            if width > 1:
                order = np.repeat(np.arange(found.dims[axis], dtype=np.int64), width)
                x = b.Gather(x, b.const(order), axis=place)
        return x


def _window_of_ones(node: oir.Node) -> Dims:
    """The window extents of a convolution that sums each channel.

    Raises:
        Refusal: It computes something else.
    """
    x, weights, *bias = node.inputs
    assert x is not None
    array, dims = const_of(weights), static_shape(x)
    need(
        array is not None and dims and not node.domain and not any(bias),
        "its weights are not ones",
        node,
    )
    assert array is not None and dims is not None
    groups = node.attributes.get_int("group", 1)
    alone = array.shape[:2] == (dims[1], 1) and groups == dims[1]
    need(alone and (array == 1).all(), "it does not sum each channel", node)
    for name, plain in (("strides", 1), ("dilations", 1), ("pads", 0)):
        need(set(node.attributes.get_ints(name, [plain])) == {plain}, f"it has {name}", node)
    need(node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET", "it is padded", node)
    return (1, 1, *array.shape[2:])


@dataclass(frozen=True)
class _Spread:
    """An array of these extents whose elements have gaps of zeros between them."""

    x: oir.Value
    dims: Dims
    starts: Dims
    steps: Dims
    zero: oir.Value


def _spread(value: oir.Value) -> _Spread:
    """The array before the gaps, as the handler of `pad` makes them: axes (n, 1) are padded to (m,
    step), joined to one axis, and sliced.

    Raises:
        Refusal: It has no such gaps.
    """
    whole, cuts = _cut(value)
    tiles = source_of(whole, *RESHAPES)
    pad = None if tiles is None else tiles.producer()
    found = None if pad is None or pad.op_type != "Pad" else zero_padding(pad)
    before, after = static_shape(tiles) if tiles else None, static_shape(whole)
    need(found and before and after, "nothing is padded with zeros", value)
    assert found is not None and before is not None and after is not None
    x, low, _, zero = found
    sizes = static_shape(x) or ()
    dims, starts, steps = [], [], []
    for axis, group in enumerate(splits(after, before)):
        need(len(group) == 1 or (len(group) == 2 and sizes[group[1]] == 1), "it has no gaps", value)
        step = before[group[1]] if len(group) == 2 else 1
        within = low[group[1]] if len(group) == 2 else 0
        dims.append(sizes[group[0]])
        starts.append(low[group[0]] * step + within - cuts.get(axis, 0))
        steps.append(step)
    return _Spread(x, tuple(dims), tuple(starts), tuple(steps), zero)


def _cut(value: oir.Value) -> tuple[oir.Value, dict[int, int]]:
    """The operand of a Slice in steps of 1, and its start along each axis."""
    whole, node = source_of(value, "Slice"), value.producer()
    if whole is None or node is None:
        return value, {}
    rank = rank_of(whole)
    starts, axes = const_ints(node.inputs[1]), const_ints(node.inputs[3])
    steps = const_ints(node.inputs[4]) if len(node.inputs) == 5 else (1,)
    need(
        starts is not None and axes is not None and set(steps or ()) == {1},
        "its step is not 1",
        value,
    )
    assert starts is not None and axes is not None
    # A negative start leaves less than a window, which the caller refuses.
    return whole, {axis % rank: start for axis, start in zip(axes, starts, strict=True)}

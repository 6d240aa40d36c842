"""Interleaved tensors, as an associative scan joins its halves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_ints, const_number, dtype_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, source_of

Dims = tuple[int, ...]


@dataclass(frozen=True)
class _Spread:
    """A tensor whose elements are `step` apart along one axis, with zeros in between.

    Attributes:
        first: The position of the first element.
        zero: The zero, a constant of one element.
    """

    x: oir.Value
    dims: Dims
    axis: int
    first: int
    step: int
    zero: oir.Value


class Interleave(Rule):
    """Add(x with gaps, y in the gaps) -> Add(Gather(Concat(x, y)), 0)

    Legal if both are spread with zeros along one axis and x has every second element. Adding 0
    turns -0 into +0, as the zeros of the other operand did. For integers nothing is added.
    """

    name = "interleave"
    anchors = frozenset({"Add"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dims = static_shape(node.outputs[0])
        found = [_spread(value) for value in node.inputs]
        spreads = sorted((item for item in found if item), key=lambda item: item.first)
        need(dims is not None and len(spreads) == 2, "an operand has no gaps of zeros", node)
        assert dims is not None
        even, odd = spreads
        axis, half = even.axis, (dims[even.axis] + 1) // 2
        for item, first, count in ((even, 0, half), (odd, 1, dims[axis] - half)):
            expected = (*dims[:axis], count, *dims[axis + 1 :])
            takes_turns = (item.axis, item.first, item.dims) == (axis, first, expected)
            need(
                takes_turns and (item.step == 2 or count == 1),
                "their elements do not alternate",
                node,
            )
        order = np.arange(2 * half).reshape(2, half).T.reshape(-1)[: dims[axis]]
        parts = [b.reshape(item.x, item.dims) for item in (even, odd)]
        both = b.concat(parts, axis)
        if len(order) > 2:
            both = b.Gather(both, b.const(order), axis=axis)
        return b.Add(both, even.zero) if dtype_of(both) in FLOATS else both


def _spread(value: oir.Value | None) -> _Spread | None:
    """The tensor before a Pad with gaps, or an element that a Pad put among zeros. It may be
    sliced."""
    if value is None:
        return None
    whole, cut_axis, start = _cut(value)
    source = source_of(whole, *RESHAPES)
    node, dims = (source or whole).producer(), static_shape(whole)
    if node is None or node.op_type != "Pad" or dims is None:
        return None
    found = _single(node) if source is None else _with_gaps(node, dims)
    if found is None or cut_axis not in (found.axis, None):
        return None
    return replace(found, first=found.first - start)


def zero_padding(pad: oir.Node) -> tuple[oir.Value, Dims, Dims, oir.Value] | None:
    """The operand of a Pad with zeros, the edges before and after, and the zero."""
    pads, is_constant = const_ints(pad.inputs[1]), pad.attributes.get_string("mode", "constant")
    if pads is None or min(pads) < 0 or is_constant != "constant" or len(pad.inputs) != 3:
        return None
    x, zero, half = pad.inputs[0], pad.inputs[2], len(pads) // 2
    if x is None or zero is None or const_number(zero) != 0 or static_shape(x) is None:
        return None
    return x, pads[:half], pads[half:], zero


def _single(pad: oir.Node) -> _Spread | None:
    """A single element along the padded axis."""
    found = zero_padding(pad)
    if found is None:
        return None
    x, low, high, zero = found
    sizes = static_shape(x) or ()
    axes = [axis for axis in range(len(low)) if low[axis] or high[axis]]
    if len(axes) != 1 or sizes[axes[0]] != 1:
        return None
    return _Spread(x, sizes, axes[0], low[axes[0]], 1, zero)


def _with_gaps(pad: oir.Node, dims: Dims) -> _Spread | None:
    """Axes (n, 1) that are padded to (m, step) and then joined to one axis of `dims`."""
    found, extents = zero_padding(pad), static_shape(pad.outputs[0])
    if found is None or extents is None or len(extents) != len(dims) + 1:
        return None
    x, low, _, zero = found
    sizes = static_shape(x) or ()
    for axis, step in enumerate(extents[1:]):
        joined = (*extents[:axis], extents[axis] * step, *extents[axis + 2 :])
        has_gaps = sizes[axis + 1] == 1 and not low[axis + 1] and step > 1
        if has_gaps and joined == dims:
            rest = (*sizes[: axis + 1], *sizes[axis + 2 :])
            return _Spread(x, rest, axis, low[axis] * step, step, zero)
    return None


def _cut(value: oir.Value) -> tuple[oir.Value, int | None, int]:
    """The operand of a Slice in steps of 1 along one axis, the axis, and the start."""
    node = value.producer()
    if node is None or node.op_type != "Slice" or len(node.inputs) != 4:
        return value, None, 0
    starts, axes, dims = const_ints(node.inputs[1]), const_ints(node.inputs[3]), static_shape(value)
    x = node.inputs[0]
    if x is None or not starts or not axes or dims is None or len(axes) != 1 or starts[0] < 0:
        return value, None, 0
    return x, axes[0] % len(dims), starts[0]

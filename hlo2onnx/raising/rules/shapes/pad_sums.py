"""Sums of tensors padded with zeros, as gradients of slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, const_of, dtype_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.spread import zero_padding
from hlo2onnx.raising.match.views import both_orders, is_private, maker_of


@dataclass(frozen=True)
class _Window:
    """A tensor padded with zeros.

    Attributes:
        low: Its start along each axis.
        dims: The extents with the zeros.
        zero: The zero, a constant of one element.
    """

    x: oir.Value
    low: tuple[int, ...]
    dims: tuple[int, ...]
    zero: oir.Value

    @property
    def sizes(self) -> tuple[int, ...]:
        return static_shape(self.x) or ()

    @property
    def is_negative(self) -> bool:
        """Whether the zero is -0, which is neutral in sums."""
        return _is_minus_zero(self.zero)


class PadSumToConcat(Rule):
    """Add(Pad(x), Pad(y)) -> Add(Pad(Concat(x, y)), 0); Add(Add(z, Pad(x)), Pad(y)) likewise;
    Add(Pad(x), Pad(y)) -> Pad(Add(x, y)) if both lie at one place

    Legal if both are padded with zeros to one shape, y begins where x ends along one axis, and both
    have the same bounds along the others. Adding 0 turns -0 into +0, as the zeros of the other Pad
    did. Nothing is added if the zeros are -0 or integers. Zeros of one sign add up to themselves.
    """

    name = "pad-sum-to-concat"
    formerly = ("join-pads",)
    anchors = frozenset({"Add"})
    sources = frozenset({"Add", "Pad"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        for one, other in both_orders(node):
            window = _window(other)
            if window is None:
                continue
            beside = _window(one)
            if beside is not None and _are_at_one_place(window, beside):
                pads = [maker_of(x, "Pad") for x in (one, other)]
                need(all(pads), "adding 0 changes the sign of a zero", node)
                assert pads[0] is not None
                return b.Pad(b.Add(beside.x, window.x), pads[0].inputs[1], window.zero)
            if beside is not None:
                return _joined(window, beside, b)
            inner = maker_of(one, "Add")
            if inner is None or not is_private(one):
                continue
            for kept, candidate in both_orders(inner):
                beside = _window(candidate)
                if beside is not None and _axis(window, beside) is not None:
                    return b.Add(kept, _joined(window, beside, b))
        raise Refusal("it does not add two tensors that are padded with zeros", node)


def _joined(one: _Window, other: _Window, b: Rewriter) -> oir.Value:
    axis = needed(_axis(one, other), "the padded tensors are not neighbours", one.x)
    before, behind = sorted((one, other), key=lambda window: window.low[axis])
    parts = [*_parts(before.x, axis), *_parts(behind.x, axis)]
    x = b.concat(parts, axis)
    sizes = static_shape(x)
    assert sizes is not None
    high = [d - s - low for d, s, low in zip(one.dims, sizes, before.low, strict=True)]
    if any((*before.low, *high)):
        x = b.Pad(x, b.i64([*before.low, *high]), one.zero)
    if dtype_of(x) in FLOATS and not one.is_negative:
        x = b.Add(x, one.zero)
    return x


def _are_at_one_place(one: _Window, other: _Window) -> bool:
    mine, others = ((x.dims, x.low, x.sizes, x.is_negative) for x in (one, other))
    return mine == others


def _axis(one: _Window, other: _Window) -> int | None:
    """The axis along which one begins where the other ends."""
    if one.is_negative != other.is_negative or one.dims != other.dims:
        return None
    places = list(zip(one.low, one.sizes, other.low, other.sizes, strict=True))
    apart = [axis for axis, (a, n, c, m) in enumerate(places) if (a, n) != (c, m)]
    if len(apart) != 1:
        return None
    a, n, c, m = places[apart[0]]
    return apart[0] if a + n == c or c + m == a else None


def _parts(x: oir.Value, axis: int) -> Sequence[oir.Value]:
    """The operands of a Concat without other readers, or the tensor itself."""
    node = x.producer()
    if node is None or node.op_type != "Concat" or not is_private(x):
        return [x]
    is_along = node.attributes.get_int("axis", 0) == axis
    return [part for part in node.inputs if part is not None] if is_along else [x]


def _window(value: oir.Value | None) -> _Window | None:
    """The padded tensor, if the value is a Pad without other readers, or its sum with 0."""
    node = value.producer() if value is not None else None
    if value is None or node is None or not is_private(value):
        return None
    if node.op_type == "Add":
        x, zero = node.inputs
        inner = _window(x) if _is_zero(zero) else None
        if inner is None or inner.is_negative:  # the sum has zeros of the other sign
            return None
        return inner if inner.dims == static_shape(value) else None
    found = zero_padding(node) if node.op_type == "Pad" else None
    dims = static_shape(value)
    if found is None or dims is None:
        return None
    x, low, _, zero = found
    return _Window(x, low, dims, zero)


def _is_zero(value: oir.Value | None) -> bool:
    array = const_of(value)
    return array is not None and array.size == 1 and bool(array == 0)


def _is_minus_zero(value: oir.Value) -> bool:
    array = const_of(value)
    return array is not None and array.size == 1 and bool(np.signbit(array))

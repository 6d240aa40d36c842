"""Arithmetic on indices before a Gather."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as oir

from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import (
    INTEGERS,
    const_number,
    const_of,
    dtype_of,
    rank_of,
    shape_of,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, extent_of, operands, source_of

GATHERS = frozenset({"Gather", "GatherElements"})
INT32, INT64 = oir.DataType.INT32, oir.DataType.INT64


def _made_by(value: oir.Value | None, op_type: str) -> tuple[oir.Value | None, ...] | None:
    """The operands of the value's producer, if it is this operator."""
    node = value.producer() if value is not None else None
    return tuple(node.inputs) if node is not None and node.op_type == op_type else None


def _is_counted_again(i: oir.Value, counted: oir.Value, extent: int) -> bool:
    """Whether another node, not yet merged with the maker of `counted`, computes the same index."""
    wheres = (reader for reader in i.consumers() if reader.op_type == "Where")
    return any(
        where.outputs[0] is not counted and counted_from_the_end(where.outputs[0], extent) is i
        for where in wheres
    )


def _regathered(node: oir.Node, b: Rewriter, indices: oir.Value) -> oir.Value:
    """The same node with other indices."""
    return b.op(node.op_type, node.inputs[0], indices, axis=node.attributes.get_int("axis", 0))


def counted_from_the_end(value: oir.Value, count: int) -> oir.Value | None:
    """i of `i < 0 ? i + count : i`, as numpy and JAX read negative indices."""
    where = _made_by(value, "Where")
    if where is None:
        return None
    condition, shifted, i = where
    less, add = _made_by(condition, "Less"), _made_by(shifted, "Add")
    if less is None or add is None or i is None or shape_of(i) != shape_of(value):
        return None
    is_same = less[0] is i and i in add
    by = add[1] if add[0] is i else add[0]
    return i if is_same and const_number(less[1]) == 0 and const_number(by) == count else None


def clamped_from_the_end(value: oir.Value, count: int) -> oir.Value | None:
    """i of `Clip(i < 0 ? i + count : i, 0, count - 1)`, which may have another shape."""
    clip = _made_by(value, "Clip")
    if clip is None or len(clip) != 3 or clip[0] is None:
        return None
    is_whole = const_number(clip[1]) == 0 and const_number(clip[2]) == count - 1
    index = source_of(clip[0], *RESHAPES) or clip[0]
    return counted_from_the_end(index, count) if is_whole else None


class NegativeIndex(Rule):
    """Gather(x, Clip(Where(i < 0, i + n, i), 0, n - 1)) -> Gather(x, Clip(i, -n, n - 1))

    n is the extent of the gathered axis. Legal as Gather counts negative indices from the end, and
    the Clip still limits the others to 0 and n - 1. A Reshape may follow the Clip. Nothing is saved
    if others read the indices.
    """

    name = "negative-index"
    anchors = GATHERS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, indices = operands(node)
        axis = node.attributes.get_int("axis", 0)
        extent = needed(extent_of(x, axis), "the extent is dynamic", x)
        clamped = source_of(indices, *RESHAPES) or indices
        clip = _made_by(clamped, "Clip")
        need(clip is not None and len(clip) == 3, "its indices are not clamped", indices)
        assert clip is not None and clip[0] is not None
        readers = {reader.op_type for reader in indices.consumers()}
        alone = clamped is indices or len(clamped.uses()) == 1
        is_shared = len(clip[0].uses()) > 1 or not alone or not readers <= GATHERS
        need(not is_shared, "the indices have other readers", indices)
        is_whole = const_number(clip[1]) == 0 and const_number(clip[2]) == extent - 1
        need(is_whole, "they are clamped to other bounds", indices)
        i = needed(
            counted_from_the_end(clip[0], extent),
            "no negative index is counted from the end",
            indices,
        )
        need(not _is_counted_again(i, clip[0], extent), "an equal index has other readers", indices)
        dims = shape_of(indices)
        need(b.reshapes_at_once(clamped, dims), "its shape is computed at run time", node)
        bounds = (b.scalar_like(-extent, i), b.scalar_like(extent - 1, i))
        return _regathered(node, b, b.reshape(b.Clip(i, *bounds), dims))


class BoundsCheck(Rule):
    """And(i >= 0, i <= n - 1) -> Equal(Clip(i, 0, n - 1), i), And(i >= 0, i < n) likewise

    Programs write this to find indices in bounds. If i was i + n for i < 0, the bound is -n instead
    of 0. Then the Clip of the gathered index is the same node.
    """

    name = "bounds-check"
    formerly = ("inside-test",)
    anchors = frozenset({"And"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        bounds = [bound for bound in map(_bound, node.inputs) if bound is not None]
        need(len(bounds) == 2, "it does not join comparisons with numbers", node)
        lower, upper = sorted(bounds, key=lambda bound: bound.is_upper)
        need(not lower.is_upper and upper.is_upper, "it is not an interval", node)
        need(lower.x is upper.x, "it compares two values", node)
        need(lower.number <= upper.number, "it is empty", node)
        low, high = lower.number, upper.number
        dims = shape_of(lower.x)
        need(dims == shape_of(node.outputs[0]), "its shape differs", node)
        i = source_of(lower.x, "Reshape", "Unsqueeze", "Squeeze") or lower.x
        plain = counted_from_the_end(i, high + 1) if low == 0 else None
        if plain is not None:
            i, low = plain, -high - 1
        need(plain is not None or b.supports("Clip", dtype_of(i)), "the target has no such Clip", i)
        need(b.reshapes_at_once(i, dims), "its shape is computed at run time", node)
        clip = b.Clip(i, b.scalar_like(low, i), b.scalar_like(high, i))
        return b.reshape(b.Equal(clip, i), dims)


class _Bound(NamedTuple):
    """x <= number, or x >= number."""

    x: oir.Value
    is_upper: bool
    number: int


def _bound(value: oir.Value | None) -> _Bound | None:
    """A value as a comparison of integers with a number."""
    for op_type in ("GreaterOrEqual", "Greater", "LessOrEqual", "Less"):
        operands = _made_by(value, op_type)
        if operands is None:
            continue
        left, right = operands
        assert left is not None and right is not None
        if dtype_of(left) not in INTEGERS:
            return None
        first, second = const_number(left), const_number(right)
        is_upper = op_type.startswith("Less") == (second is not None)
        excluded = 0 if op_type.endswith("OrEqual") else -1 if is_upper else 1
        if second is not None:
            return _Bound(left, is_upper, int(second) + excluded)
        if first is not None:
            return _Bound(right, is_upper, int(first) + excluded)
    return None


class WidenIndex(Rule):
    """Gather(x, 9 - Cast(i)) -> Gather(x, 9 - i), for a cast from i64 to i32

    Legal if the index consists of such casts, constants, and additions and subtractions that cannot
    wrap. Loops count in i64 where the program counts in i32.
    """

    name = "widen-index"
    formerly = ("wide-index",)
    anchors = GATHERS

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        _, indices = operands(node)
        need(dtype_of(indices) == INT32, "its indices are not i32", indices)
        wide = needed(_widened(indices, b), "its indices are computed in i32", indices)
        return _regathered(node, b, wide)


def _widened(value: oir.Value, b: Rewriter) -> oir.Value | None:
    """The same integers as i64, if that needs no cast."""
    array = const_of(value)
    if array is not None:
        return b.const(array, INT64) if array.size == 1 else None
    node = value.producer()
    if node is not None and node.op_type == "Unsqueeze" and node.inputs[0] is not None:
        inner = _widened(node.inputs[0], b)
        return None if inner is None else b.like(node, [inner, *node.inputs[1:]])
    if node is None or node.op_type not in ("Add", "Cast", "Sub"):
        return None
    known = b.facts.int_range(value)
    if known is None or known == range_of_type(INT32):
        return None
    first = node.inputs[0]
    if node.op_type == "Cast":
        return first if first is not None and dtype_of(first) == INT64 else None
    operands = [_widened(x, b) for x in node.inputs if x is not None]
    if None in operands or rank_of(value):
        return None
    return b.op(node.op_type, *operands)

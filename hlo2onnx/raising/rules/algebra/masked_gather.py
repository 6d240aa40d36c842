"""Gathers of numbers that a mask replaces where an index is out of bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.ir.values import (
    FLOATS,
    const_number,
    const_of,
    dtype_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    is_private,
    maker_of,
    operands,
    source_of,
    unshaped,
)
from hlo2onnx.raising.rules.algebra.flat_gather import index_columns, need_many, scalars_at
from hlo2onnx.raising.rules.algebra.gather_indices import counted_from_the_end

INT32 = oir.DataType.INT32
BEHIND = 3
"""Elements along each axis behind those of an image: indices reach from 3 before the first element,
where they read these three, to 3 behind the last one."""


class MaskedGather(Rule):
    """Where(i and j in bounds, GatherND(x, Concat(i, j)), c) -> GatherElements(flat Pad(x, c), k)

    k = Clip(i, -1, n) * (m + 3) + Clip(j, -1, m). Three more rows and columns of c follow those of
    x, which is (n, m). There n and m end, and -1: k counts from the end, or j ends in the row
    before. Of several images, -1 ends in the one before. An i that is converted from a float is
    Clip(i, -2, n + 1) before the conversion, and so for its neighbours: i - 1 and i + 1 need no
    Clip. Done for constants c and for numbers of x, if x has no more elements than are gathered.
    """

    name = "masked-gather"
    anchors = frozenset({"Where"})
    # Before flat-gather, which takes the indices apart.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        mask, chosen, fill = operands(node)
        gather = needed(maker_of(unshaped(chosen), "GatherND"), "it selects no GatherND", chosen)
        need(is_private(gather.outputs[0]), "others read what is gathered", gather)
        x, indices = operands(gather)
        extents = needed(static_shape(x), "the extents are dynamic", x)
        split = gather.attributes.get_int("batch_dims", 0)
        batch, dims = math.prod(extents[:split]), extents[split:]
        count = size_of(gather.outputs[0])
        need(shape_of(indices)[-1:] == (len(dims),), "it gathers rows", gather)
        need_many(gather.outputs[0], b)
        assert count is not None
        need(0 < math.prod(extents) <= count, "the operand is larger than the result", x)
        size = batch * math.prod(extent + BEHIND for extent in dims)
        need(size <= range_of_type(INT32).high, "the index does not fit into i32", x)
        need(const_of(fill) is not None and size_of(fill) == 1, "it selects no constant", fill)
        same = size_of(mask) == count == size_of(node.outputs[0])
        need(same, "the mask has another shape", mask)
        plain = [
            needed(_index(column, extent), "an index is not clamped", indices)
            for column, extent in zip(index_columns(b, indices), dims, strict=True)
        ]
        _need_bounds(mask, plain, dims, count)
        behind = [0] * split + [BEHIND] * len(dims)
        table = b.Pad(x, b.i64([0] * len(extents) + behind), b.reshape(fill, ()))
        index = _flat_index(b, plain, dims, count)
        if batch > 1:
            starts = np.arange(0, size, size // batch, dtype=np.int32)[:, None]
            index = b.Add(b.reshape(index, (batch, count // batch)), b.const(starts))
        numbers = scalars_at(b, b.reshape(table, (size,)), index)
        return b.reshape(numbers, shape_of(node.outputs[0]))


def _index(column: oir.Value, extent: int) -> oir.Value | None:
    """i of an index that was clamped to [0, extent), and that may have counted from the end."""
    i = _clamped(column, extent)
    if i is None:
        return None
    i = source_of(i, *RESHAPES) or i
    either = counted_from_the_end(i, extent)
    return unshaped(i if either is None else either)


def _clamped(column: oir.Value, extent: int) -> oir.Value | None:
    """x of Clip(x, 0, extent - 1), or of Min(Max(x, 0), extent - 1)."""
    clip = maker_of(column, "Clip")
    if clip is not None and len(clip.inputs) == 3:
        x, low, high = operands(clip)
        return x if (const_number(low), const_number(high)) == (0, extent - 1) else None
    least = _without(column, "Min", extent - 1)
    return None if least is None else _without(least, "Max", 0)


def _without(value: oir.Value, op_type: str, number: int) -> oir.Value | None:
    """x of a node of this operator with x and a number."""
    node = maker_of(value, op_type)
    if node is None or len(node.inputs) != 2:
        return None
    found = [x for x, other in both_orders(node) if const_number(other) == number]
    return found[0] if found else None


def _need_bounds(
    mask: oir.Value, plain: list[oir.Value], dims: tuple[int, ...], count: int
) -> None:
    """Declines unless the mask says that each index is in [0, extent), and nothing else."""
    checked = set()
    for leaf in _terms(mask):
        equal = maker_of(leaf, "Equal")
        need(equal is not None and size_of(leaf) == count, "the mask has other conditions", leaf)
        assert equal is not None
        clip, i = operands(equal)
        found = {
            place
            for place, (index, extent) in enumerate(zip(plain, dims, strict=True))
            if unshaped(i) is index and _index(clip, extent) is index
        }
        need(found, "the mask has other bounds", leaf)
        checked |= found
    need(len(checked) == len(plain), "the mask does not check each index", mask)


def _terms(mask: oir.Value) -> Iterator[oir.Value]:
    """The conditions that a mask joins by And."""
    joined = maker_of(mask, "And", *RESHAPES)
    if joined is None:
        yield mask
    elif joined.op_type == "And":
        for operand in operands(joined):
            yield from _terms(operand)
    else:
        yield from _terms(operands(joined)[0])


def _flat_index(
    b: Rewriter, plain: list[oir.Value], dims: tuple[int, ...], count: int
) -> oir.Value:
    """The index into a vector of the numbers, each extent of which is `BEHIND` more."""
    total: oir.Value | None = None
    shift = 0
    for index, extent in zip(plain, dims, strict=True):
        column, added = _bounded(b, index, extent)
        column = b.cast(b.reshape(column, (count,)), INT32)
        if total is not None:
            column = b.Add(b.Mul(total, b.scalar(extent + BEHIND, INT32)), column)
        total, shift = column, shift * (extent + BEHIND) + added
    assert total is not None
    return b.Add(total, b.scalar(shift, INT32)) if shift else total


def _bounded(b: Rewriter, index: oir.Value, extent: int) -> tuple[oir.Value, int]:
    """i and k: i + k is the index where that is in [0, extent), else from -3 to extent + 2.

    Of an integer that is converted from a float, only the float is bounded, so that its neighbours
    share it.
    """
    dtype = dtype_of(index)
    is_signed = dtype in (INT32, oir.DataType.INT64)
    need(is_signed and b.supports("Clip", dtype), "the target has no such Clip", index)
    plain, added = _without_neighbour(index)
    x = _converted(plain, extent)
    if x is None:
        return b.Clip(index, b.scalar_like(-1, index), b.scalar_like(extent, index)), 0
    bounds = (b.scalar_like(-2, x), b.scalar_like(extent + 1, x))
    return b.cast(b.Clip(x, *bounds), INT32), added


def _without_neighbour(index: oir.Value) -> tuple[oir.Value, int]:
    """i and k of i + k, where k is -1 or 1; else the index and 0."""
    node = maker_of(index, "Add")
    for x, other in () if node is None else both_orders(node):
        number = const_number(other)
        if number in (-1, 1):
            return x, int(number)
    return index, 0


def _converted(index: oir.Value, extent: int) -> oir.Value | None:
    """x of an integer that x was converted to: Cast(Clip(x, low, high)), or the largest integer
    where x is above all that Clip gives; None if the bounds are closer than those of `_bounded`."""
    index = unshaped(index)
    saturated = maker_of(index, "Where")
    above: oir.Node | None = None
    if saturated is not None:
        condition, most, index = operands(saturated)
        above = maker_of(condition, "GreaterOrEqual")
        if above is None or const_number(most) != range_of_type(dtype_of(index)).high:
            return None
    clip = maker_of(source_of(index, "Cast"), "Clip")
    if clip is None or len(clip.inputs) != 3 or dtype_of(clip.outputs[0]) not in FLOATS:
        return None
    x, *bounds = operands(clip)
    low, high = (const_number(bound) for bound in bounds)
    with np.errstate(over="ignore"):
        is_exact = dtype_of(x).numpy().type(extent + 1) == extent + 1
    if low is None or high is None or low > -2 or high < extent + 1 or not is_exact:
        return None
    if above is not None:
        compared, limit = operands(above)
        least = const_number(limit)
        if compared is not x or least is None or least < extent + 1:
            return None
    return x

"""Gathers of numbers that a mask replaces where an index is out of bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.ranges import range_of_type
from hlo2onnx.ir.values import const_number, const_of, dtype_of, shape_of, size_of, static_shape
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


class MaskedGather(Rule):
    """Where(i and j in bounds, GatherND(x, Concat(i, j)), c) -> GatherElements(flat Pad(x, c), k)

    k = Clip(i, -1, n) * (m + 1) + Clip(j, -1, m). One more row and column of c follow those of x,
    which is (n, m). There n and m end, and -1: k counts from the end, or j ends in the row before.
    Of several images, -1 ends in the one before. Done for constants c and for numbers of x, if x
    has no more elements than are gathered.
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
        size = batch * math.prod(extent + 1 for extent in dims)
        need(size <= range_of_type(INT32).high, "the index does not fit into i32", x)
        need(const_of(fill) is not None and size_of(fill) == 1, "it selects no constant", fill)
        same = size_of(mask) == count == size_of(node.outputs[0])
        need(same, "the mask has another shape", mask)
        plain = [
            needed(_index(column, extent), "an index is not clamped", indices)
            for column, extent in zip(index_columns(b, indices), dims, strict=True)
        ]
        _need_bounds(mask, plain, dims, count)
        behind = [0] * split + [1] * len(dims)
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
    """The index into a vector of the numbers, each extent of which is one more."""
    total: oir.Value | None = None
    for index, extent in zip(plain, dims, strict=True):
        dtype = dtype_of(index)
        is_signed = dtype in (INT32, oir.DataType.INT64)
        need(is_signed and b.supports("Clip", dtype), "the target has no such Clip", index)
        bounds = (b.scalar_like(-1, index), b.scalar_like(extent, index))
        column = b.cast(b.reshape(b.Clip(index, *bounds), (count,)), INT32)
        if total is not None:
            column = b.Add(b.Mul(total, b.scalar(extent + 1, INT32)), column)
        total = column
    assert total is not None
    return total

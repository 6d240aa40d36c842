"""Gathers of many numbers, by the index into the flat tensor."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed, is_static
from hlo2onnx.ir.ranges import Range, range_of_type
from hlo2onnx.ir.values import (
    const_ints,
    const_of,
    dtype_of,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands, source_of
from hlo2onnx.raising.rules.algebra.gather_indices import clamped_from_the_end

INT32, INT64 = oir.DataType.INT32, oir.DataType.INT64
_I32 = range_of_type(INT32)
_EACH = ("Add", "Cast", "Clip", "Max", "Min")
"""Operators on joined indices that are applied to each of them."""


class ScalarGather(Rule):
    """Gather(x, indices) -> GatherElements(x, indices), for a vector x

    Indices of several axes are flattened, and the result gets their shape. Both operators count
    negative indices from the end. Done for many indices, where it is faster.
    """

    name = "scalar-gather"
    anchors = frozenset({"Gather"})
    # Rules for negative indices, loops and slices match Gather.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, indices = operands(node)
        need(rank_of(x) == 1, "it gathers from a tensor of several axes", x)
        need_many(indices, b)
        return scalars_at(b, x, _narrowed(b, indices))


class FlatGather(Rule):
    """GatherND(x, Concat(i, j)) -> GatherElements(Reshape(x, (n * m,)), i * m + j)

    It is Gather(Reshape(x, (n * m, ...)), i * m + j) where a pair names a row. Legal if j lies in
    [0, m) and i in [-n, n); i * m + j then counts from the end as i does. Casts, clamps and bounds
    of the joined indices are applied to i and j. The index is computed in i32 if it fits. Done for
    many pairs, where it is faster.

    Also for Gather(Gather(x, i), j) along one axis with constant numbers i and j, as where the
    cache of a layer is a part of one tensor: all that both copy is copied once. Legal if only such
    Gathers read the inner one.
    """

    name = "flat-gather"
    anchors = frozenset({"Gather", "GatherND"})
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type == "Gather":
            return _part_of_part(node, b)
        x, indices = operands(node)
        need(not node.attributes.get_int("batch_dims", 0), "it has batch axes", node)
        dims = needed(static_shape(x), "the extents are dynamic", x)
        count = shape_of(indices)[-1]
        assert isinstance(count, int)
        need_many(node.outputs[0] if count == len(dims) else indices, b)
        dtype = INT32 if math.prod(dims) - 1 <= _I32.high else INT64
        first, *others = index_columns(b, indices)
        index = b.cast(_inside(b, first, dims[0], -dims[0]), dtype)
        for extent, column in zip(dims[1:], others, strict=False):
            column = b.cast(_inside(b, column, extent, 0), dtype)
            index = b.Add(b.Mul(index, b.scalar(extent, dtype)), column)
        rows = b.reshape(x, (math.prod(dims[:count]), *dims[count:]))
        return scalars_at(b, rows, index) if count == len(dims) else b.Gather(rows, index, axis=0)


def _part_of_part(node: oir.Node, b: Rewriter) -> oir.Value:
    """x[i][j], from x with both axes as one."""
    inner = needed(maker_of(first(node), "Gather"), "it gathers of no Gather", node)
    part, (x, _) = inner.outputs[0], operands(inner)
    readers = part.consumers()
    need(all(map(_number, (inner, *readers))), "an index is not constant", inner)
    axes = {each.attributes.get_int("axis", 0) % rank_of(first(each)) for each in (inner, *readers)}
    (axis,) = axes if len(axes) == 1 else (rank_of(x),)
    dims = shape_of(x)
    extents = fixed(dims[axis : axis + 2]) if is_static(dims[axis : axis + 2]) else []
    need(len(extents) == 2 and all(extents), "they gather along other or free axes", node)
    need(not part.is_graph_output(), "others read the inner Gather", inner)
    (i, j), (n, m) = [_number(each) or (0,) for each in (inner, node)], extents
    flat = (*dims[:axis], n * m, *dims[axis + 2 :])
    need(b.reshapes_at_once(x, flat), "its shape is computed at run time", x)
    return b.Gather(b.reshape(x, flat), b.i64(i[0] % n * m + j[0] % m), axis=axis)


def _number(node: oir.Node) -> tuple[int, ...] | None:
    """The constant index of a Gather of one part, whose axis vanishes."""
    if node.op_type != "Gather" or rank_of(operands(node)[1]):
        return None
    return const_ints(operands(node)[1])


def _inside(b: Rewriter, index: oir.Value, extent: int, lowest: int) -> oir.Value:
    """An index in [lowest, extent).

    Where the program adds the extent to negative indices, the first index stays negative. Others
    need no comparison either if the extent is a power of two: -1 ends in the bits of extent - 1.
    """
    known = b.facts.int_range(index)
    is_inside = known is not None and known.within(lowest, extent - 1)
    need(is_inside, "an index may be negative or out of range", index)
    either = clamped_from_the_end(index, extent)
    is_power = extent & (extent - 1) == 0 and b.supports("BitwiseAnd", dtype_of(index))
    if either is None or not (lowest or is_power):
        return index
    last = b.scalar_like(extent - 1, index)
    clip = b.Clip(b.reshape(either, shape_of(index)), b.scalar_like(-extent, index), last)
    return clip if lowest else b.BitwiseAnd(clip, last)


def need_many(indices: oir.Value, b: Rewriter) -> None:
    """Refuses few indices: other forms are faster."""
    count = size_of(indices)
    need(count is not None and count >= b.costs.many_elements, "it gathers few elements", indices)


def _narrowed(b: Rewriter, indices: oir.Value) -> oir.Value:
    """Indices that were cast from u32, as i32 if they fit."""
    source = source_of(indices, "Cast")
    if source is None or dtype_of(source) != oir.DataType.UINT32 or not _fits_i32(b, indices):
        return indices
    return b.cast(source, INT32)


def _fits_i32(b: Rewriter, indices: oir.Value) -> bool:
    """Whether i32 provably holds all of the indices."""
    known = b.facts.int_range(indices)
    return known is not None and known.within(*_I32)


def scalars_at(b: Rewriter, x: oir.Value, indices: oir.Value) -> oir.Value:
    """x[indices] of a vector."""
    need(b.supports("GatherElements", dtype_of(x)), "the target has no such GatherElements", x)
    dims = shape_of(indices)
    count = size_of(indices)
    assert count is not None
    return b.reshape(b.GatherElements(x, b.reshape(indices, (count,)), axis=0), dims)


def index_columns(b: Rewriter, indices: oir.Value) -> list[oir.Value]:
    """The indices along each axis, as i32 or i64: the parts of the last axis, which is dropped."""
    *batch, count = needed(static_shape(indices), "its indices have free extents", indices)
    if count == 1:
        return [b.reshape(indices, batch)]
    node = maker_of(indices, "Concat", *RESHAPES, *_EACH)
    given = [] if node is None else operands(node)
    if node is not None and node.op_type == "Concat":
        if all(shape_of(part) == (*batch, 1) for part in given):
            return [_reshaped(b, part, batch) for part in given]
    elif node is not None and shape_of(given[0])[-1:] == (count,):
        if node.op_type in RESHAPES:
            return [b.reshape(column, batch) for column in index_columns(b, given[0])]
        if node.op_type == "Cast" and dtype_of(given[0]) == INT32:
            return index_columns(b, given[0])
        numbers = [_numbers_of(x, count) for x in given[1:]]
        if dtype_of(given[0]) in (INT32, INT64) and None not in numbers:
            columns = index_columns(b, given[0])
            if node.op_type == "Add" and not _fits_i32(b, indices):
                columns = [b.cast(column, dtype_of(indices)) for column in columns]
            each = zip(columns, *filter(None, numbers), strict=True)
            return [_like(b, node, column, constants) for column, *constants in each]
    parts = b.outputs("Split", indices, b.i64([1] * count), n_outputs=count, axis=len(batch))
    return [b.reshape(part, batch) for part in parts]


def _like(b: Rewriter, node: oir.Node, column: oir.Value, constants: list[np.ndarray]) -> oir.Value:
    """The node of one column, in the type of the column: i32 if it was cast to i64."""
    return b.like(node, [column, *(b.const(array, dtype_of(column)) for array in constants)])


def _numbers_of(value: oir.Value, count: int) -> list[np.ndarray] | None:
    """The numbers for each column, if they are constant and fit into i32."""
    array = const_of(value)
    if array is None or (array.size != 1 and array.shape[-1] != count):
        return None
    if not array.size or not Range(int(array.min()), int(array.max())).within(*_I32):
        return None
    if array.size == 1:
        return [array.reshape(())] * count
    return [array[..., column] for column in range(count)]


def _reshaped(b: Rewriter, x: oir.Value, dims: list[int]) -> oir.Value:
    """x in this shape; what x was reshaped from if that has it."""
    source = source_of(x, *RESHAPES)
    return b.reshape(x if source is None else source, dims)

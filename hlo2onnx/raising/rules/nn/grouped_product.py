"""Products of groups of rows with a matrix for each group, as `jax.lax.ragged_dot` lowers them."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_number, const_of, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    first,
    maker_of,
    operands,
    ranges_of,
    source_of,
    unshaped,
)

INT64 = oir.DataType.INT64


class GroupedProduct(Rule):
    """MatMul(Reshape(Transpose(Where(is in group, x, 0))), w) -> Concat(MatMul(x1, w1), ...)

    x1, ... are the rows of each group, a Split by the sizes. A row is multiplied with the matrix of
    its group, and not with all: for 8 matrices of 512 x 1,024 and 256 rows, it takes a quarter
    of the time. Legal for sizes that are not negative, as `ragged_dot` demands; the Split refuses
    others. NaN and infinity in the matrices of other groups no longer reach a row. Done for a fixed
    number of groups, of which a CumSum gives the ends: more than 4.
    """

    name = "grouped-product"
    anchors = frozenset({"MatMul"})
    sources = frozenset(RESHAPES)
    drops_nan = True
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        flat, matrices = operands(node)
        turned = needed(source_of(flat, *RESHAPES), "its operand is not reshaped", node)
        transpose = needed(maker_of(turned, "Transpose"), "its operand is not turned", turned)
        is_turned = [*transpose.attributes["perm"].as_ints()] == [1, 0, 2]
        is_turned = is_turned and rank_of(flat) == rank_of(matrices) == 2
        need(is_turned, "no groups are before the rows", transpose)
        where = needed(maker_of(first(transpose), "Where"), "nothing masks the rows", transpose)
        mask, x, zero = operands(where)
        need(const_number(zero) == 0, "masked rows are not 0", where)
        rows, groups, features = shape_of(turned)
        need(set(shape_of(x)[:-2]) <= {1}, "its rows differ from group to group", x)
        need(isinstance(groups, int), "its groups are not counted", where)
        assert isinstance(groups, int)
        dtype, columns = dtype_of(x), shape_of(matrices)[1]
        need(b.supports("Split", dtype), "the target has no Split of its type", node)
        need(not b.target.flags.narrows_i64, "the target has no 64-bit sizes", node)
        # Sizes whose sum is larger have no rows at the end.
        limit = b.extents.vector((rows,))
        ends = b.Min(b.cast(_ends(mask, groups), INT64), limit)
        starts = b.concat([b.i64([0]), b.slice(ends, [0], [groups - 1])], axis=0)
        rest = b.Sub(limit, b.slice(ends, [groups - 1], [groups]))
        counts = [oir.SymbolicDim(None) for _ in range(groups + 1)]
        parts = b.outputs(
            "Split",
            b.expand(b.reshape(x, shape_of(x)[-2:]), (rows, features)),
            b.concat([b.Sub(ends, starts), rest], axis=0),
            n_outputs=groups + 1,
            types=[(dtype, (count, features)) for count in counts],
            axis=0,
        )
        matrices = b.reshape(matrices, (groups, features, columns))
        products = []
        for group, (part, count) in enumerate(zip(parts[:-1], counts, strict=False)):
            matrix = b.Gather(matrices, b.i64(group), axis=0)
            products.append(b.op("MatMul", part, matrix, types=[(dtype, (count, columns))]))
        shape = b.concat([rest, b.extents.vector((columns,))], axis=0)
        zeros = b.op("Expand", b.scalar_like(0, x), shape, types=[(dtype, (counts[-1], columns))])
        return b.op("Concat", *products, zeros, axis=0, types=[(dtype, (rows, columns))])


def _ends(mask: oir.Value, groups: int) -> oir.Value:
    """Where the groups end, of a mask ends - sizes <= row < ends of (groups, rows, 1)."""
    both = needed(maker_of(mask, "And"), "the mask is not one of groups", mask)
    lowest, last = (x.producer() for x in operands(both))
    is_range = lowest and lowest.op_type == "LessOrEqual" and last and last.op_type == "Less"
    need(is_range, "the mask is not one of groups", both)
    assert lowest and last
    (starts, row), (other, ends) = operands(lowest), operands(last)
    need(row is other and _counts(row), "it does not compare with the row", lowest)
    are_columns = shape_of(starts) == shape_of(ends) == (groups, 1, 1)
    total = needed(maker_of(unshaped(ends), "CumSum"), "the ends are not sums", both)
    is_start = _are_starts(unshaped(starts), total, groups)
    is_sum = not any(total.attributes.get_int(name, 0) for name in ("exclusive", "reverse"))
    need(are_columns and is_start and is_sum, "groups do not follow each other", both)
    return total.outputs[0]


def _are_starts(starts: oir.Value, total: oir.Node, groups: int) -> bool:
    """Whether a vector is the ends less the sizes, or 0 and the ends but the last."""
    node = maker_of(starts, "Sub", "Concat")
    if node is None or node.op_type == "Sub":
        return node is not None and operands(node) == [total.outputs[0], first(total)]
    zero, cut = const_of(first(node)), maker_of(operands(node)[-1], "Slice")
    is_zero = zero is not None and zero.size == 1 and not zero.any() and len(node.inputs) == 2
    if cut is None or first(cut) is not total.outputs[0]:
        return False
    return is_zero and ranges_of(cut) == {0: range(groups - 1)}


def _counts(row: oir.Value) -> bool:
    """Whether it is 0, 1, ... along the last axis but one, and the same along others."""
    numbers = const_of(row)
    if numbers is not None:
        return numbers.ndim > 1 and bool((numbers == np.arange(numbers.shape[-2])[:, None]).all())
    is_column = rank_of(row) > 1 and {*shape_of(row)[:-2], shape_of(row)[-1]} == {1}
    row = unshaped(row)
    made = maker_of(source_of(row, "Cast") or row, "Range")
    return is_column and made is not None and [*map(const_number, made.inputs[::2])] == [0, 1]

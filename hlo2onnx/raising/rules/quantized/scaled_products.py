"""Products with stored weights that are scaled after the product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, dtype_of, is_constant, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import (
    RESHAPES,
    both_orders,
    first,
    is_private,
    maker_of,
    operands,
    source_of,
)
from hlo2onnx.raising.rules.quantized.stored_weights import (
    ScaledIntegers,
    dequantized,
    dequantized_blocks,
    stored_integers,
)

T = oir.DataType
_SOURCES = {
    "MatMul": frozenset({"Transpose"}),
    "Mul": frozenset({"MatMul"}),
    "ReduceSum": RESHAPES | {"Mul"},
}


class ScaleIntoWeights(Rule):
    """Mul(MatMul(x, Cast(q)), s) -> MatMul(x, DequantizeLinear(q, s)), with s for each column; and
    ReduceSum(Mul(MatMul(x, Cast(q)), s), 0) -> MatMul(x, DequantizeLinear(q, s)), with s for each
    block of rows: those of each matrix in q

    Likewise for q - z, and for a product with s in place of Mul and ReduceSum. Legal for constants
    q and s: a product is rounded before the sum instead of after it. Done where the target
    multiplies by stored weights.
    """

    name = "scale-into-weights"
    anchors = frozenset({"MatMul", "Mul", "ReduceSum"})
    sources = _SOURCES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type == "Mul":
            return _scaled_columns(node, b)
        if node.op_type == "ReduceSum":
            axes = const_ints(node.inputs[1]) if len(node.inputs) > 1 else None
            need(axes == (0,) and is_private(first(node)), "the sum is not that of blocks", node)
            scaled = needed(maker_of(_matrices(first(node)), "Mul"), "no products are added", node)
            value, scale = both_orders(scaled)[is_constant(first(scaled))]
            total = _summed_blocks(b, _matrices(value), scale, turned=False)
        else:
            scale, right = operands(node)
            move = needed(maker_of(right, "Transpose"), "no products are added", node)
            value, perm = first(move), list(move.attributes["perm"].as_ints())
            need(is_private(right) and rank_of(scale) == 3, "the sum is not that of blocks", node)
            if perm == [2, 1, 0] and shape_of(value)[0] == 1:  # one row
                value, perm = source_of(value, *RESHAPES) or value, [2, 0, 1]
            need(perm == [2, 0, 1], "the sum is not that of blocks", node)
            total = b.transpose(_summed_blocks(b, value, scale, turned=True), (1, 0))
        return b.reshape(total, shape_of(node.outputs[0]))


def _matrices(value: oir.Value) -> oir.Value:
    """The value before a Reshape that splits rows of its matrices, or the value itself."""
    source = source_of(value, *RESHAPES)
    if source is None or not is_private(source):
        return value
    ends = [(shape_of(x)[0], shape_of(x)[-1]) for x in (source, value) if rank_of(x) >= 3]
    return source if len(ends) == 2 and ends[0] == ends[1] else value


def _factors(b: Rewriter, value: oir.Value, rank: int) -> tuple[oir.Value, ScaledIntegers]:
    """The left operand of a product with stored weights, and these, still without scales."""
    product = needed(maker_of(value, "MatMul"), "it is not a product of matrices", value)
    need(is_private(value), "the product has other readers", value)
    x, right = operands(product)
    q, zero = needed(stored_integers(right), "the right operand is not stored in fewer bits", right)
    need(rank_of(q) == rank and dtype_of(right) == T.FLOAT, "the weights have other axes", q)
    has_kernel = b.target.supports_pair("DequantizeLinear", dtype_of(q), T.FLOAT, b.opset)
    key = f"MatMulNBits[bits={dtype_of(q).bitwidth}]"
    stays = b.target.has_contrib(key, T.FLOAT) or not b.target.has("QDQSelectorActionTransformer")
    need(has_kernel and stays, "the target does not multiply by stored weights", q)
    return x, ScaledIntegers(q, q, zero)


def _scaled_columns(node: oir.Node, b: Rewriter) -> oir.Value:
    for value, scale in both_orders(node):
        if not is_constant(scale) or maker_of(value, "MatMul") is None:
            continue
        x, product = _factors(b, value, 2)
        dims = shape_of(scale)
        need(all(dim == 1 for dim in dims[:-1]), "the scales are not those of columns", scale)
        need(shape_of(value) == shape_of(node.outputs[0]), "a scale determines the shape", scale)
        return b.MatMul(x, dequantized(b, replace(product, scale=scale)))
    raise Refusal("no product of matrices is scaled", node)


def _summed_blocks(b: Rewriter, value: oir.Value, scale: oir.Value, turned: bool) -> oir.Value:
    """The sum of the products of matrices, each scaled by numbers for its columns.

    Args:
        scale: Of shape (matrices, 1, ..., 1, columns); reversed if `turned`.
    """
    x, product = _factors(b, value, 3)
    blocks, size, columns = needed(static_shape(product.q), "its shape is dynamic", product.q)
    ends = (blocks, *(1,) * (rank_of(scale) - 2), columns)
    fits = is_constant(scale) and shape_of(scale) == (ends[::-1] if turned else ends)
    need(fits, "the scales are not those of blocks", scale)
    need(rank_of(x) == 3 and shape_of(x)[0] == blocks, "the left operand has no blocks", x)

    def placed(array: np.ndarray) -> np.ndarray:
        return (array.T if turned else array).reshape(blocks, 1, columns)

    scaled = replace(product, scale=b.derived(placed, scale, is_moved=True))
    rows = blocks * size
    weights = dequantized_blocks(b, scaled, (blocks, size, columns), (rows, columns))
    return b.MatMul(b.reshape(b.transpose(x, (1, 0, 2)), (shape_of(x)[1], rows)), weights)

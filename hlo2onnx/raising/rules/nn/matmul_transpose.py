"""Transposes around MatMul: products of transposed operands in the other order.

Einsum often asks for the transposed product, such as attention scores of keys by queries.
Transposing the product moves all of it; its factors are often transposed anyway.
"""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import Shape, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.axis_layouts import splits
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands, source_of


class _Split:
    """A product whose axes a Reshape may have split.

    Attributes:
        left, right: Its operands.
        batch, rows, columns: The axes that the product's axes are split into; one for each axis
            of the batch.
    """

    def __init__(self, value: oir.Value) -> None:
        whole = source_of(value, *RESHAPES)
        product = value if whole is None else whole
        node = needed(maker_of(product, "MatMul"), "its operand is not a product", value)
        need(len(product.uses()) == 1 and len(value.uses()) == 1, "others read the product", node)
        need(not value.is_graph_output(), "it is an output of the model", value)
        left, right = operands(node)
        need(rank_of(left) == rank_of(right) > 1, "only one operand has a batch", node)
        need(shape_of(left)[:-2] == shape_of(right)[:-2], "a batch is repeated", node)
        self.left, self.right = left, right
        self.shape = shape_of(value)
        groups = splits(shape_of(product), self.shape)
        self.batch = [axis for group in groups[:-2] for axis in group]
        self.rows, self.columns = groups[-2:]


def _is_transposed(value: oir.Value) -> bool:
    """Whether a Transpose of the value merges with its producer."""
    while (source := source_of(value, *RESHAPES)) is not None:
        value = source
    node = value.producer()
    return value.const_value is not None or (node is not None and node.op_type == "Transpose")


def _swapped(value: oir.Value, b: Rewriter) -> oir.Value:
    rank = rank_of(value)
    return b.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


def _permuted(product: _Split, columns: list[int], b: Rewriter) -> oir.Value | None:
    """The right operand transposed, with its columns in this order; None unless one Reshape joins
    the columns of the axes that the product is split into."""
    parts, whole = source_of(product.right, *RESHAPES), shape_of(product.right)
    dims: Shape = tuple(product.shape[axis] for axis in product.columns)
    if parts is None or columns == product.columns or shape_of(parts) != (*whole[:-1], *dims):
        return None
    first_column = len(whole) - 1
    places = [first_column + product.columns.index(axis) for axis in columns]
    batch = range(first_column - 1)
    moved = b.transpose(parts, [*batch, *places, first_column - 1])
    rows: Shape = (*whole[:-2], whole[-1], whole[-2])
    return b.reshape(moved, rows) if b.reshapes_at_once(moved, rows) else None


class MatMulTranspose(Rule):
    """Transpose(MatMul(x, y)), columns before rows -> MatMul(Transpose(y), Transpose(x))

    A Reshape may split rows or columns in between. Columns joined from the same axes are joined in
    the requested order. Legal for any operands. Done if the operands are already transposed or
    constant, so that their Transposes vanish.
    """

    name = "matmul-transpose"
    formerly = ("swap-product",)
    anchors = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        perm = list(node.attributes["perm"].as_ints())
        product = _Split(first(node))
        start = len(product.batch)
        middle = start + len(product.columns)
        swaps = (
            perm[:start] == product.batch
            and sorted(perm[start:middle]) == product.columns
            and sorted(perm[middle:]) == product.rows
        )
        need(swaps, "columns do not come before rows", node)
        merges = _is_transposed(product.left) and _is_transposed(product.right)
        need(merges, "the operands would have to be transposed", node)
        columns, left = perm[start:middle], _permuted(product, perm[start:middle], b)
        if left is None:
            columns, left = product.columns, _swapped(product.right, b)
        made = b.MatMul(left, _swapped(product.left, b))
        order = [*product.batch, *columns, *product.rows]
        dims = tuple(product.shape[axis] for axis in order)
        need(b.reshapes_at_once(made, dims), "its shape is computed at run time", node)
        return b.transpose(b.reshape(made, dims), [order.index(axis) for axis in perm])

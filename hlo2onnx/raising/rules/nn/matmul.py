"""MatMul and the shapes of its operands."""

from __future__ import annotations

import math
from contextlib import nullcontext

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, size_of
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

_GEMM_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


class VectorMatMul(Rule):
    """Reshape(MatMul(Reshape(v, (1, n)), w), (m,)) -> MatMul(v, w), and so for two vectors

    MatMul takes vectors, and returns a vector or, for two vectors, a scalar. Legal for matrices
    without batch axes. A matrix times a vector stays: ONNX Runtime makes a product for each row,
    which takes 3 times (n = 64) to 15 times (n = 200) as long as a matrix of one column.
    `matvec-to-vecmat` transposes a constant matrix instead.
    """

    name = "vector-matmul"
    anchors = RESHAPES
    sources = frozenset({"MatMul"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        product = needed(maker_of(first(node), "MatMul"), "its operand is not a product", node)
        left, right = operands(product)
        need(rank_of(left) == rank_of(right) == 2, "it is not a product of matrices", product)
        row, column = (source_of(x, *RESHAPES) for x in (left, right))
        is_row = row is not None and rank_of(row) == 1 and shape_of(left)[0] == 1
        need(is_row, "its left operand is not a reshaped vector", product)
        assert row is not None
        result = shape_of(node.outputs[0])
        if column is not None and rank_of(column) == 1:
            right = column
            need(result == (), "the product of vectors has another shape", node)
        else:
            need(result == shape_of(right)[1:], "the vector has more than one row", node)
        return b.op("MatMul", row, right, types=[(dtype_of(left), result)])


class MatvecToVecmat(Rule):
    """MatMul(w, Reshape(x, (n, 1))) -> Reshape(MatMul(Reshape(x, (1, n)), Transpose(w)), (m, 1))

    Vectors then stay rows from layer to layer: ONNX Runtime is as fast or, for n = 4096, twice as
    fast. Legal for any matrix. Done for a matrix that is transposed once: a constant without other
    readers, or a small one that is made outside of the loop with the product; and for a column that
    was reshaped from a row.
    """

    name = "matvec-to-vecmat"
    formerly = ("row-product",)
    anchors = frozenset({"MatMul"})
    # Rules for recurrent cells match products with columns.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        matrix, column = operands(node)
        need(rank_of(matrix) == rank_of(column) == 2, "it is not a product of matrices", node)
        is_own = matrix.const_value is not None and len(matrix.uses()) == 1
        outer = None if is_own else _graph_around(b, node, matrix)
        need(is_own or outer is not None, "the matrix is not constant, or others read it", matrix)
        rows, extent = shape_of(matrix)
        need(rows != 1 and shape_of(column) == (extent, 1), "it has more than one column", column)
        source = source_of(column, *RESHAPES)
        is_row = source is not None and shape_of(source)[-1:] == (extent,)
        need(is_row, "it is not a reshaped row", column)
        assert source is not None
        with nullcontext() if outer is None else b.before(_place_after(matrix, outer)):
            transposed = b.transpose(matrix, (1, 0))
        if outer is not None and rank_of(source) == 1:
            types = [(dtype_of(matrix), (rows,))]
            return b.unsqueeze(b.op("MatMul", source, transposed, types=types), [1])
        return b.reshape(b.MatMul(b.reshape(column, (1, extent)), transposed), (rows, 1))


def _graph_around(b: Rewriter, node: oir.Node, matrix: oir.Value) -> oir.Graph | None:
    """The graph with a small matrix, if a Loop or Scan of it holds the node."""
    outer = matrix.graph if isinstance(matrix.graph, oir.Graph) else None
    if outer is None or outer is node.graph or not isinstance(node.graph, oir.Graph):
        return None
    is_small = (size_of(matrix) or math.inf) <= b.costs.transposed_matrix_elements
    return outer if is_small and b.facts.is_repeated(node.graph, outer) else None


def _place_after(value: oir.Value, graph: oir.Graph) -> oir.Node:
    """The first node of its graph that may read a value, which nodes of other graphs read."""
    maker = value.producer()
    if maker is None:
        return graph[0]
    nodes = iter(graph)
    next(each for each in nodes if each is maker)
    return next(nodes)


class Gemm(Rule):
    """Add(MatMul(a, b), c) -> Gemm(a, b, c), and Sub(c, MatMul(a, b)) -> Gemm(a, b, c, alpha=-1);
    a Transpose of a or b, or a Reshape of a row to a column or back, becomes its transA or transB

    Legal for matrices of f32 or f64 (in narrower types the product is rounded before the sum), and
    c of rank 1 or 2 that broadcasts to the product. Not for products of no terms: 0 + -0 is +0, but
    Gemm gives -0. Done if no other node reads the product, or the Transpose, and no node would move
    into a body. ONNX Runtime itself makes Gemms of f32 sums, in bodies too, and fuses activations
    with both forms: the time is the same. Of differences it makes none.
    """

    name = "gemm"
    anchors = frozenset({"Add", "Sub"})
    sources = frozenset({"MatMul"})
    # After all rules that match products and sums.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dtype = dtype_of(node.outputs[0])
        need(dtype in _GEMM_TYPES and b.supports("Gemm", dtype), "Gemm lacks this type", node)
        is_sum = node.op_type == "Add"
        for product, bias in both_orders(node) if is_sum else [operands(node)[::-1]]:
            maker = maker_of(product, "MatMul")
            if maker is None:
                continue
            if _is_only_read_by(node, product) and _broadcasts(bias, product, node):
                return _gemm(b, maker, bias, 1.0 if is_sum else -1.0)
        raise Refusal("no operand is a product of matrices with a bias", node)


def _is_only_read_by(node: oir.Node, value: oir.Value) -> bool:
    """Whether a value of the same body is an operand of this node and of no other."""
    maker = value.producer()
    if maker is None or maker.graph is not node.graph:
        return False
    return is_private(value)


def _broadcasts(bias: oir.Value, product: oir.Value, total: oir.Node) -> bool:
    """Whether a vector or matrix is added to a matrix and broadcasts to it."""
    dims, whole = shape_of(bias), shape_of(product)
    if shape_of(total.outputs[0]) != whole or not 0 < len(dims) <= len(whole) == 2:
        return False
    if not all(isinstance(extent, int) or extent.value is not None for extent in whole):
        return False
    pairs = zip(reversed(dims), reversed(whole), strict=False)
    return all(dim in (1, extent) for dim, extent in pairs)


def _turned_vector(x: oir.Value) -> oir.Value | None:
    """The row that is reshaped to a column, or the column that is reshaped to a row."""
    source = source_of(x, *RESHAPES)
    dims = shape_of(x)
    if source is None or 1 not in dims or shape_of(source) != dims[::-1]:
        return None
    return source


def _gemm(b: Rewriter, product: oir.Node, bias: oir.Value, alpha: float) -> oir.Value:
    inputs, flags = list[oir.Value](), dict[str, int]()
    for x, flag in zip(product.inputs, ("transA", "transB"), strict=True):
        assert x is not None
        need(rank_of(x) == 2, "an operand is not a matrix", x)
        transposed = source_of(x, "Transpose") or _turned_vector(x)
        if transposed is not None and _is_only_read_by(product, x):
            x, flags[flag] = transposed, 1
        inputs.append(x)
    terms = shape_of(first(product))[1]
    need(isinstance(terms, int) and terms > 0, "the product may have no terms", product)
    scale = {} if alpha == 1 else {"alpha": alpha}
    return b.Gemm(*inputs, bias, **flags, **scale)

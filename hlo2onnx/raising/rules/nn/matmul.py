"""MatMul and the shapes of its operands."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, operands, source_of

_GEMM_TYPES = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


class VectorMatMul(Rule):
    """Reshape(MatMul(Reshape(v, (1, n)), w), (m,)) -> MatMul(v, w), and so for two vectors

    MatMul itself takes vectors, and gives a vector or, of two vectors, a scalar. Legal for matrices
    without batch axes. A matrix times a vector stays as it is: ONNX Runtime then makes a product
    of its own for each row, and takes 3 times (n = 64) to 15 times (n = 200) as long as for a
    matrix of one column. (Of a constant matrix `matvec-to-vecmat` makes a row times a matrix.)
    """

    name = "vector-matmul"
    anchors = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        product = first(node).producer()
        need(product is not None and product.op_type == "MatMul", "no product is reshaped", node)
        assert product is not None
        left, right = operands(product)
        need(rank_of(left) == rank_of(right) == 2, "it is no product of matrices", product)
        row, column = (source_of(x, *RESHAPES) for x in (left, right))
        is_row = row is not None and rank_of(row) == 1 and shape_of(left)[0] == 1
        need(is_row, "its left operand was no vector", product)
        assert row is not None
        result = shape_of(node.outputs[0])
        if column is not None and rank_of(column) == 1:
            right = column
            need(result == (), "the product of vectors has another shape", node)
        else:
            need(result == shape_of(right)[1:], "the vector was more than one row", node)
        return b.op("MatMul", row, right, types=[(dtype_of(left), result)])


class MatvecToVecmat(Rule):
    """MatMul(w, Reshape(x, (n, 1))) -> Reshape(MatMul(Reshape(x, (1, n)), Transpose(w)), (m, 1))

    So that vectors stay rows from layer to layer, which runtimes are made for: ONNX Runtime is as
    fast or, for n = 4096, twice as fast. Legal for any matrix; done for a constant one, which is
    transposed once and for all, if nobody else reads it, and a column that was no column before.
    """

    name = "matvec-to-vecmat"
    formerly = ("row-product",)
    anchors = frozenset({"MatMul"})
    # Recurrent cells are found by their products, which may be of columns.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        matrix, column = operands(node)
        need(rank_of(matrix) == rank_of(column) == 2, "it is no product of matrices", node)
        need(matrix.const_value is not None, "the matrix is not constant", matrix)
        need(len(matrix.uses()) == 1, "others read the matrix", matrix)
        rows, extent = shape_of(matrix)
        need(rows != 1 and shape_of(column) == (extent, 1), "it has more than one column", column)
        source = source_of(column, *RESHAPES)
        need(source is not None and shape_of(source)[-1:] == (extent,), "it was a column", column)
        product = b.MatMul(b.reshape(column, (1, extent)), b.transpose(matrix, (1, 0)))
        return b.reshape(product, (rows, 1))


class Gemm(Rule):
    """Add(MatMul(a, b), c) -> Gemm(a, b, c); a Transpose of a or b becomes its transA or transB

    Legal for matrices of f32 or f64 (of narrower types the product is rounded before the sum), and
    c of rank 1 or 2 that broadcasts to the product, not the other way round. Not where there may be
    nothing to add up: 0 and a c of -0 are 0 then, and of the Gemm -0. Done where nobody else reads
    the product, or the Transpose, and nothing would move into a body. ONNX Runtime makes Gemms of
    f32 itself, in bodies too, and fuses activations with either: it takes as long.
    """

    name = "gemm"
    anchors = frozenset({"Add"})
    # All that looks for products and for sums has looked by then.
    phase = 4

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        dtype = dtype_of(node.outputs[0])
        need(dtype in _GEMM_TYPES and b.supports("Gemm", dtype), "Gemm has not this type", node)
        left, right = operands(node)
        for product, bias in ((left, right), (right, left)):
            maker = product.producer()
            if maker is None or maker.op_type != "MatMul":
                continue
            if _is_only_read_by(node, product) and _broadcasts(bias, product, node):
                return _gemm(b, maker, bias)
        raise Refusal("it adds no bias to a product of matrices", node)


def _is_only_read_by(node: oir.Node, value: oir.Value) -> bool:
    """Whether a value is an operand of this node, made in the same body, and of no other."""
    maker = value.producer()
    if maker is None or maker.graph is not node.graph:
        return False
    return len(value.uses()) == 1 and not value.is_graph_output()


def _broadcasts(bias: oir.Value, product: oir.Value, total: oir.Node) -> bool:
    """Whether a vector or matrix is added to a matrix and broadcasts to it."""
    dims, whole = shape_of(bias), shape_of(product)
    if shape_of(total.outputs[0]) != whole or not 0 < len(dims) <= len(whole) == 2:
        return False
    if not all(isinstance(extent, int) or extent.value is not None for extent in whole):
        return False
    pairs = zip(reversed(dims), reversed(whole), strict=False)
    return all(dim in (1, extent) for dim, extent in pairs)


def _gemm(b: Rewriter, product: oir.Node, bias: oir.Value) -> oir.Value:
    inputs, flags = list[oir.Value](), dict[str, int]()
    for x, flag in zip(product.inputs, ("transA", "transB"), strict=True):
        assert x is not None
        need(rank_of(x) == 2, "an operand is no matrix", x)
        transposed = source_of(x, "Transpose")
        if transposed is not None and _is_only_read_by(product, x):
            x, flags[flag] = transposed, 1
        inputs.append(x)
    terms = shape_of(first(product))[1]
    need(isinstance(terms, int) and terms > 0, "there may be nothing to add up", product)
    return b.Gemm(*inputs, bias, **flags)

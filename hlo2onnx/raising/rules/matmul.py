"""MatMul and the shapes of its operands."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.graph.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.rules.shape import RESHAPES, first, source_of


class VectorMatMul(Rule):
    """Reshape(MatMul(Reshape(v, (1, n)), w), (m,)) -> MatMul(v, w), and so for w times a vector

    MatMul itself takes vectors, on the left as rows, on the right as columns, and gives a vector
    or, of two vectors, a scalar. Legal for matrices without batch axes.
    """

    name = "vector-matmul"
    anchors = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        product = first(node).producer()
        need(product is not None and product.op_type == "MatMul", "no product is reshaped", node)
        assert product is not None
        left, right = product.inputs
        assert left is not None and right is not None
        need(rank_of(left) == rank_of(right) == 2, "it is no product of matrices", product)
        row, column = (source_of(x, *RESHAPES) for x in (left, right))
        (rows, _), (_, columns) = shape_of(left), shape_of(right)
        result, shape = shape_of(node.outputs[0]), []
        if row is not None and rows == 1 and rank_of(row) == 1:
            left = row
        else:
            shape.append(rows)
        if column is not None and columns == 1 and rank_of(column) == 1:
            right = column
        else:
            shape.append(columns)
        need(len(shape) < 2, "none of its operands was a vector", product)
        need(tuple(shape) == result, "the product of vectors has another shape", node)
        multiplied: oir.Value = b.op("MatMul", left, right, types=[(dtype_of(left), result)])
        return multiplied

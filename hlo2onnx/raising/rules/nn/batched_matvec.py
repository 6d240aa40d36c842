"""Products of many small matrices with a vector each."""

from __future__ import annotations

import math

import onnx_ir as oir

from hlo2onnx.ir.values import FLOATS, dtype_of, rank_of, shape_of, size_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, maker_of, operands, source_of


class BatchedMatvec(Rule):
    """MatMul(a, v) -> ReduceSum(a * Tile(Reshape(v, (..., 1, n))), -1), for columns v

    Legal for f32 and f64 with equal batch axes and at least one term. The sum has as few terms as
    a row of a. Done for so many matrices, and such small ones, that it is faster: a product of
    matrices takes time to start. Products of few small vectors with vectors each are fewer nodes,
    as the reshapes to rows and columns go. One vector times a constant is a MatMul of matrices.
    """

    name = "batched-matvec"
    anchors = frozenset({"MatMul"})
    # Other rules match MatMul.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        a, v = operands(node)
        dims, column = (needed(static_shape(x), "its extents are dynamic", x) for x in (a, v))
        dtype = dtype_of(a)
        need(rank_of(a) >= 3 and column == (*dims[:-2], dims[-1], 1), "it has no such batch", node)
        # MatMul may read such a matrix in place; moving it takes longer than the product.
        need(maker_of(a, "Transpose") is None, "the matrices are transposed", a)
        need(dtype in FLOATS and dtype.bitwidth >= 32, "it is not f32 or f64", node)
        pair = [_vectors(x, (*dims[:-2], dims[-1])) for x in (a, v)]
        is_dot = None not in pair and 0 < dims[-1] <= b.costs.matvec_elements
        is_small = 0 < math.prod(dims[-2:]) <= b.costs.matvec_elements
        are_many = is_small and math.prod(dims[:-2]) >= b.costs.matvecs
        need(is_dot or are_many, "few or large matrices", node)
        is_supported = all(b.supports(op_type, dtype) for op_type in ("Mul", "ReduceSum"))
        need(is_supported, "the target lacks the arithmetic", node)
        constants = [x for x in (v, a) if x.const_value is not None]
        if is_dot and constants and math.prod(dims[:-2]) == 1:
            row = a if constants[0] is v else v
            sizes = (1, dims[-1]), (dims[-1], 1)
            product = b.MatMul(b.reshape(row, sizes[0]), b.reshape(constants[0], sizes[1]))
            return b.reshape(product, (1,) * len(dims))
        if is_dot:
            terms = b.Mul(*(b.reshape(x, (*dims[:-2], dims[-1])) for x in pair if x is not None))
            return b.reshape(b.ReduceSum(terms, b.i64([-1]), keepdims=0), (*dims[:-2], 1, 1))
        rows = b.reshape(v, (*dims[:-2], 1, dims[-1]))
        if dims[-2] > 1:
            rows = b.Tile(rows, b.i64([*[1] * (len(dims) - 2), dims[-2], 1]))
        return b.ReduceSum(b.Mul(a, rows), b.i64([-1]), keepdims=1)


def _vectors(x: oir.Value, dims: tuple[int, ...]) -> oir.Value | None:
    """What rows or columns were reshaped from, if these are vectors of this shape; constants are
    reshaped once."""
    source = x if x.const_value is not None else source_of(x, *RESHAPES)
    is_same = source is x or (source is not None and shape_of(source) == dims)
    return source if is_same and math.prod(dims) == size_of(x) else None

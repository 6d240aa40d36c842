"""MatMul: the shapes of its operands, their Transposes, and a bias."""

from __future__ import annotations

import math
from contextlib import nullcontext

import onnx_ir as oir

from hlo2onnx.ir.dims import is_known
from hlo2onnx.ir.values import (
    FLOATS,
    dtype_of,
    is_constant,
    rank_of,
    shape_of,
    size_of,
    static_shape,
)
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
    """Reshape(MatMul(Reshape(v, (1, n)), w), (m,)) -> MatMul(v, w), likewise for two vectors

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
    was reshaped from a row. A constant may be stored in fewer bits.
    """

    name = "matvec-to-vecmat"
    formerly = ("row-product",)
    anchors = frozenset({"MatMul"})
    # Rules for recurrent cells match products with columns.
    phase = 1

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        matrix, column = operands(node)
        need(rank_of(matrix) == rank_of(column) == 2, "it is not a product of matrices", node)
        stored = source_of(matrix, "Cast", "DequantizeLinear") or matrix
        is_own = is_constant(stored) and len(matrix.uses()) == 1
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
    is_small = (size_of(matrix) or math.inf) <= b.costs.small_elements
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
    if not is_known(whole):
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


class BatchedMatvec(Rule):
    """MatMul(a, v) -> ReduceSum(a * Tile(Reshape(v, (..., 1, n))), -1), for columns v

    Legal for f32 and f64 with equal batch axes and at least one term. The sum has as few terms as
    a row of a. Done for many small matrices, where it is faster: a product of matrices takes time
    to start. Products of few small vectors with vectors each are fewer nodes, as the reshapes to
    rows and columns go. One vector times a constant is a MatMul of matrices.
    """

    name = "batched-matvec"
    anchors = frozenset({"MatMul"})
    # Other rules match MatMul.
    phase = 5

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        a, v = operands(node)
        dims, column = (needed(static_shape(x), "its extents are dynamic", x) for x in (a, v))
        dtype = dtype_of(a)
        need(rank_of(a) >= 3 and column == (*dims[:-2], dims[-1], 1), "no batch of columns", node)
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

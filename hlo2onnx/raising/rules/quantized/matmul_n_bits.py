"""Products with stored weights that ONNX Runtime multiplies without dequantizing them first."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, is_constant, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import maker_of, operands
from hlo2onnx.targets.table import CONTRIB_DOMAIN

T = oir.DataType

_BLOCKS = (256, 128, 64, 32, 16)
"""Rows that share a scale. The kernels take these."""

_PACKED = "hlo2onnx.packed"
"""Where dequantized weights keep what the operator reads: several products may read them."""

_EXACT = 1
"""The accuracy level at which the operator computes in f32, as MatMul does."""


class MatMulNBits(Rule):
    """MatMul(x, DequantizeLinear(q, s, z)) -> com.microsoft::MatMulNBits(x, q, s, z), likewise
    without z

    Legal for f32 and constants, q a matrix of 4 or 8 bits, and s and z for each column, or for each
    block of 16 n rows of one. The sums are in f32, in another order. Done where the target has the
    operator: it reads a matrix of 4 bits three times as fast as one of f32.
    """

    name = "matmul-n-bits"
    anchors = frozenset({"MatMul"})
    sources = frozenset({"DequantizeLinear"})
    # After the rules that match products, or move their operands.
    phase = 3

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, weights = operands(node)
        maker = needed(maker_of(weights, "DequantizeLinear"), "no stored weights", node)
        parameters = operands(maker)
        q, scale = parameters[:2]
        bits, dims = dtype_of(q).bitwidth, static_shape(q)
        pays = b.target.has_contrib(f"MatMulNBits[bits={bits}]", dtype_of(x))
        need(pays and dtype_of(scale) == T.FLOAT, "the target has no faster operator", q)
        need(all(map(is_constant, parameters)), "the weights are computed", maker)
        need(dims is not None and len(dims) == 2, "the weights are not a matrix", q)
        layout = _Layout(maker, bits)
        made = weights.meta.get(_PACKED)
        if made is None or made[0].name not in b.main_graph.initializers:
            made = weights.meta[_PACKED] = layout.packed(b, parameters)
        return b.op(
            "MatMulNBits",
            x,
            *made,
            types=[(T.FLOAT, shape_of(node.outputs[0]))],
            domain=CONTRIB_DOMAIN,
            K=layout.rows,
            N=layout.columns,
            bits=bits,
            block_size=layout.block,
            accuracy_level=_EXACT,
        )


class _Layout:
    """How the operator stores a matrix: column by column, in blocks, as unsigned numbers.

    Attributes:
        rows, columns: Extents of the matrix.
        block: Rows that share a scale.

    Raises:
        Refusal: The matrix has other blocks.
    """

    def __init__(self, maker: oir.Node, bits: int) -> None:
        q, scale = operands(maker)[:2]
        self.rows, self.columns = static_shape(q) or ()
        self._bits = bits
        self._middle = 1 << bits - 1 if dtype_of(q).is_signed() else 0
        axis, size = maker.attributes.get_int("axis", 1) % 2, self.rows
        if "block_size" in maker.attributes:
            size = maker.attributes.get_int("block_size", 0)
            need(axis == 0, "its blocks are not of rows", maker)
        else:
            need(axis == 1 or rank_of(scale) == 0, "its scales are of rows", maker)
        blocks = [block for block in _BLOCKS if size and size % block == self.rows % size == 0]
        need(blocks, "its blocks have other sizes", maker)
        self.block = blocks[0]
        self._repeats = size // self.block

    def packed(self, b: Rewriter, parameters: list[oir.Value]) -> list[oir.Value]:
        """The weights, scales and zero points of the operator."""
        q, scale, *zeros = parameters
        made = [b.derived(self.packed_weights, q, is_moved=True)]
        made.append(b.derived(self.placed, scale, is_moved=True))
        if zeros:
            made.append(b.derived(self.packed_zeros, zeros[0], is_moved=True))
        elif not dtype_of(q).is_signed():
            made.append(b.const(self.packed_zeros(np.zeros((), np.uint8))))
        return made

    def placed(self, array: np.ndarray) -> np.ndarray:
        """Parameters of all blocks, of shape (columns, blocks)."""
        parts = array.reshape(-1, self.columns) if array.ndim else array.reshape(1, 1)
        dims = (self.rows // self.block // self._repeats, self.columns)
        return np.repeat(np.broadcast_to(parts, dims), self._repeats, axis=0).T.copy()

    def packed_weights(self, array: np.ndarray) -> np.ndarray:
        """The matrix in bytes, of shape (columns, blocks, bytes of a block)."""
        return self._packed(array.T.reshape(self.columns, -1, self.block))

    def packed_zeros(self, array: np.ndarray) -> np.ndarray:
        """Zero points in bytes, of shape (columns, bytes of a column)."""
        return self._packed(self.placed(array))

    def _packed(self, array: np.ndarray) -> np.ndarray:
        numbers = (array.astype(np.int32) + self._middle).astype(np.uint8)
        if self._bits == 8:
            return numbers
        odd = [(0, 0)] * (numbers.ndim - 1) + [(0, numbers.shape[-1] % 2)]
        numbers = np.pad(numbers, odd)
        return numbers[..., ::2] | numbers[..., 1::2] << 4

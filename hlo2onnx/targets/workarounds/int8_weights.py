"""Stored weights of products with floats, for runtimes that do not compute them in floats.

ONNX Runtime 1.31 makes MatMulNBits of a MatMul with a dequantized constant, and quantizes the other
operand on the way: the result is off by half a percent. Other weights it dequantizes in every run,
while it folds a Cast and a Mul of constants when it loads the model.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of, is_constant, rank_of, size_of, static_shape
from hlo2onnx.ir.weights import SMALL_ELEMENTS, ask


def spell_out_weights(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DequantizeLinear of constants that meet no other dequantized values as
    (q - zero) * scale; None for others. The runtime folds that when it loads the model."""
    q, scale, zero = (*node.inputs, None)[:3]
    dims = None if q is None else static_shape(q)
    if q is None or scale is None or dims is None or not is_constant(q) or not is_constant(scale):
        return None
    if zero is not None and not is_constant(zero):
        return None
    if all(_meets_quantized(reader, node) for reader in node.outputs[0].consumers()):
        return None
    rank = rank_of(q)
    axis, block = node.attributes.get_int("axis", 1) % max(rank, 1), 1
    if "block_size" in node.attributes:
        block = node.attributes.get_int("block_size", 0)
        if dims[axis] % block:
            return None

    def beside(array: np.ndarray) -> np.ndarray:
        """Scales or zero points in a shape that broadcasts."""
        if block > 1:
            return np.expand_dims(array, axis + 1)
        return array.reshape([-1] + [1] * (rank - 1 - axis)) if array.ndim else array

    value = q
    if block > 1:
        blocks = [*dims[:axis], dims[axis] // block, block, *dims[axis + 1 :]]
        value = builder.derived(lambda array: array.reshape(blocks), q, is_moved=True)
    if zero is not None and not ask(_is_zero, zero):
        # f32 holds the difference of numbers of up to 16 bits, which all zero points are.
        exact = oir.DataType.FLOAT if dtype_of(scale) in _WIDE else oir.DataType.INT32
        zeros = builder.derived(beside, zero, is_moved=True)
        if (size_of(zeros) or 0) <= SMALL_ELEMENTS:
            zeros = builder.derived(lambda array: _cast(array, exact), zeros)
        value = builder.Sub(builder.cast(value, exact), builder.cast(zeros, exact))
    factors = builder.derived(beside, scale, is_moved=True)
    value = builder.Mul(builder.cast(value, dtype_of(scale)), factors)
    if block > 1:
        value = builder.reshape(value, dims)
    return value


def write_zero_point(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DequantizeLinear of int8 with several scales and no zero point, with one of zeros.

    Where ONNX Runtime makes int8 unsigned (`session.x64quantprecision`), it adds one zero point for
    all scales, and then refuses the node.
    """
    q, scale, zero = (*node.inputs, None)[:3]
    dims = None if scale is None else static_shape(scale)
    if q is None or zero is not None or dtype_of(q) != oir.DataType.INT8 or not dims:
        return None
    return builder.like(node, [q, scale, builder.const(np.zeros(dims, np.int8))])


_WIDE = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


def _cast(array: np.ndarray, dtype: oir.DataType) -> np.ndarray:
    """Integers of any width in another type; ml_dtypes has no casts between its own and all."""
    return array.astype(np.int32).astype(dtype.numpy())


def _is_zero(array: np.ndarray) -> bool:
    return not array.any()


def _meets_quantized(reader: oir.Node, node: oir.Node) -> bool:
    """Whether a reader has another operand that is dequantized, or quantizes what it reads: the
    runtime may compute it in integers."""
    others = [x.producer() for x in reader.inputs if x is not None and x is not node.outputs[0]]
    quantizes = reader.op_type == "QuantizeLinear"
    return quantizes or any(x is not None and x.op_type == "DequantizeLinear" for x in others)

"""8-bit weights, for runtimes that compute their products with floats in 8 bits.

ONNX Runtime 1.31 replaces a MatMul with a dequantized constant by MatMulNBits, which quantizes the
other operand: the result is off by half a percent.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of, dtype_of, rank_of

_PRODUCTS = frozenset({"Gemm", "MatMul"})


def spell_out_weights(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DequantizeLinear of constants that are multiplied with floats as (q - zero) * scale; None
    for others. The runtime folds that when it loads the model."""
    q, scale, zero = (*node.inputs, None)[:3]
    assert q is not None and scale is not None
    readers = node.outputs[0].consumers()
    is_weight = const_of(q) is not None and any(_meets_floats(r, node) for r in readers)
    if not is_weight or const_of(scale) is None or "block_size" in node.attributes:
        return None
    axis, rank = node.attributes.get_int("axis", 1) % max(rank_of(q), 1), rank_of(q)
    zeros, factors = const_of(zero), const_of(scale)
    assert factors is not None
    if zeros is not None and zeros.any():
        wide = builder.cast(q, oir.DataType.INT32)
        q = builder.Sub(wide, builder.const(_along(zeros.astype(np.int32), axis, rank)))
    value = builder.cast(q, dtype_of(scale))
    return builder.Mul(value, builder.const(_along(factors, axis, rank)))  # type: ignore[no-any-return]


def _meets_floats(reader: oir.Node, node: oir.Node) -> bool:
    """Whether a product has another operand that is not dequantized itself."""
    if reader.op_type not in _PRODUCTS:
        return False
    others = [x for x in reader.inputs[:2] if x is not node.outputs[0]]
    makers = [x.producer() for x in others if x is not None]
    return any(maker is None or maker.op_type != "DequantizeLinear" for maker in makers)


def _along(array: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return array.reshape([-1] + [1] * (rank - 1 - axis)) if array.ndim else array

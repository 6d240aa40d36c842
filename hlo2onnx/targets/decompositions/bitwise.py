"""BitwiseAnd, BitwiseOr, BitwiseXor and BitwiseNot, for opsets without them.

Two bytes make an index into a table of 65,536 results. Words of 4 or 8 bytes are cut into bytes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import UNSIGNED, const_of, dtype_of, rank_of, shape_of

T = oir.DataType

_FUNCTIONS = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def decompose_bitwise(b: GraphBuilder, node: oir.Node) -> oir.Value:
    """The output of a node of one of the four operators, on integers of 8 to 64 bits."""
    operands = [x for x in node.inputs if x is not None]
    dtype = dtype_of(operands[0])
    if node.op_type == "BitwiseNot":
        return _not(b, operands[0])
    for x, other in (operands, operands[::-1]):
        mask = _mask(other, rank_of(x))
        if mask is not None and (found := _with_mask(b, node.op_type, x, mask)) is not None:
            return found
    word = _word(dtype)
    first, second = (b.cast(x, word) for x in operands)
    table = _table(b, node.op_type)
    if word == T.UINT8:
        return b.cast(_looked_up(b, table, first, second), dtype)
    count = word.bitwidth // 8
    shifts = b.const(np.arange(count) * 8, word)
    parts = [
        b.cast(b.BitShift(b.unsqueeze(x, [rank_of(x)]), shifts, direction="RIGHT"), T.UINT8)
        for x in (first, second)
    ]
    results = b.cast(_looked_up(b, table, *parts), T.INT64)
    weights = b.const(np.array([[1 << 8 * index] for index in range(count)]))
    dims = shape_of(node.outputs[0])
    joined = b.op("MatMul", results, weights, types=[(T.INT64, (*dims, 1))])
    return b.cast(b.squeeze(joined, [len(dims)]), dtype)


def _word(dtype: oir.DataType) -> oir.DataType:
    """An unsigned type that holds the bits and that BitShift takes."""
    return {8: T.UINT8, 64: T.UINT64}.get(dtype.bitwidth, T.UINT32)


def _table(b: GraphBuilder, op_type: str) -> oir.Value:
    byte = np.arange(256, dtype=np.uint8)
    return b.const(_FUNCTIONS[op_type](byte[:, None], byte).reshape(-1))


def _looked_up(b: GraphBuilder, table: oir.Value, first: oir.Value, second: oir.Value) -> oir.Value:
    """The results for two tensors of bytes."""
    row, column = (b.cast(x, T.INT32) for x in (first, second))
    index = b.Add(b.Mul(row, b.scalar(256, T.INT32)), column)
    result: oir.Value = b.Gather(table, index, axis=0)
    return result


def _not(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """The largest unsigned number, or -1, minus x."""
    dtype = dtype_of(x)
    ones = np.iinfo(dtype.numpy()).max if dtype in UNSIGNED else -1
    result: oir.Value = b.Sub(b.scalar(ones, dtype), x)
    return result


def _mask(value: oir.Value, rank: int) -> int | None:
    """The bits of a constant of one element that does not change the shape of the other operand."""
    array = const_of(value)
    if array is None or array.size != 1 or array.ndim > rank:
        return None
    return int(array.reshape(())) & ((1 << dtype_of(value).bitwidth) - 1)


def _with_mask(b: GraphBuilder, op_type: str, x: oir.Value, mask: int) -> oir.Value | None:
    """The result with a constant, where two or three nodes give it."""
    dtype = dtype_of(x)
    width = dtype.bitwidth
    if op_type == "BitwiseXor" and mask == (1 << width) - 1:
        return _not(b, x)
    if op_type == "BitwiseXor" and mask == 1 << (width - 1):  # the carry is lost
        top: oir.Value = b.Add(x, b.const(np.array(mask, f"u{width // 8}").view(dtype.numpy())))
        return top
    low = mask.bit_length()
    if op_type == "BitwiseAnd" and mask and mask == (1 << low) - 1:
        word = _word(dtype)
        amount = b.scalar(word.bitwidth - low, word)
        moved = b.BitShift(b.cast(x, word), amount, direction="LEFT")
        return b.cast(b.BitShift(moved, amount, direction="RIGHT"), dtype)
    return None

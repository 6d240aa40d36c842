"""Operators on bits as sums and products, which wrap around, for targets without their kernels.

A shift is a product or quotient. A mask of adjacent bits is a difference of two remainders;
BitwiseOr and BitwiseXor with one follow from it. Other operands are cut into bytes, and looked up
in a table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import INTEGERS, UNSIGNED, const_of, dtype_of, present
from hlo2onnx.targets.builder import Decompose, TargetBuilder
from hlo2onnx.targets.decompositions.old_opsets import decompose_bitwise
from hlo2onnx.targets.target import node_key

T = oir.DataType

_NAMES = ("And", "Not", "Or", "Xor")
_UNSIGNED = {T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64}


def _shifted(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """BitShift of unsigned integers as a product or quotient with powers of two, which a table
    gives where the count is not constant. Counts are below the width of the type."""
    x, count = present(node.inputs)
    dtype, amounts = dtype_of(x), const_of(count)
    table = np.left_shift(1, np.arange(dtype.bitwidth, dtype=np.uint64)).astype(dtype.numpy())
    if amounts is not None:
        powers = b.const(table[amounts % dtype.bitwidth])
    else:
        place = b.Mod(b.cast(count, T.INT64), b.scalar(dtype.bitwidth, T.INT64))
        powers = b.Gather(b.const(table), place, axis=0)
    is_left = node.attributes.get_string("direction") == "LEFT"
    return b.op("Mul" if is_left else "Div", x, powers)


def _bitwise(b: TargetBuilder, node: oir.Node) -> oir.Value:
    operands = present(node.inputs)
    if node.op_type == "BitwiseNot":
        return decompose_bitwise(b, node)
    for x, other in (operands, operands[::-1]):
        mask = _uniform(other) if x.shape == node.outputs[0].shape else None
        made = None if mask is None else _with_mask(b, node.op_type, x, mask)
        if made is not None:
            return b.Identity(x) if made is x else made
    if dtype_of(operands[0]).bitwidth <= 32:
        return decompose_bitwise(b, node)
    words = [b.cast(x, T.UINT64) for x in operands]
    half = b.scalar(1 << 32, T.UINT64)
    high, low = (
        b.cast(b.op(node.op_type, *(b.cast(x, T.UINT32) for x in parts)), T.UINT64)
        for parts in ([b.Div(x, half) for x in words], words)
    )
    return b.cast(b.Add(b.Mul(high, half), low), dtype_of(operands[0]))


def _uniform(x: oir.Value) -> int | None:
    """The one number of a constant, without a sign."""
    array = const_of(x)
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    return int(array.flat[0]) & ((1 << dtype_of(x).bitwidth) - 1)


def _with_mask(b: TargetBuilder, op_type: str, x: oir.Value, mask: int) -> oir.Value | None:
    """The output for a mask that is 0x7f..., 0xff... or 0x80..., or has adjacent bits."""
    dtype, ones = dtype_of(x), (1 << dtype_of(x).bitwidth) - 1
    number = b.const(np.array(mask, _UNSIGNED.get(dtype, dtype).numpy()).view(dtype.numpy()))
    if op_type == "BitwiseXor" and mask in (ones, ones >> 1):
        return b.Sub(number, x)
    if op_type == "BitwiseXor" and mask == ones ^ (ones >> 1):
        return b.Add(x, number)
    start, stop = (mask & -mask).bit_length() - 1, mask.bit_length()
    if not mask or mask != (1 << stop) - (1 << start):
        return None
    kept = _between(b, x, start, stop)
    if op_type == "BitwiseAnd":
        return kept
    return b.Sub(b.Add(x, number), kept if op_type == "BitwiseOr" else b.Add(kept, kept))


def _between(b: TargetBuilder, x: oir.Value, start: int, stop: int) -> oir.Value:
    """x with 0 in the place of other bits than these."""
    dtype, width = dtype_of(x), dtype_of(x).bitwidth
    if dtype not in UNSIGNED and width - 1 in (start, stop):  # this power has no signed number
        return b.cast(_between(b, b.cast(x, _UNSIGNED[dtype]), start, stop), dtype)
    # The remainder has the sign of the divisor, so that it is that of the bits.
    powers = [b.scalar(1 << place, dtype) for place in (start, stop) if 0 < place < width]
    below = [b.Mod(x, power) for power in powers] + [x] * (stop == width)
    return below[0] if len(below) == 1 else b.Sub(below[1], below[0])


def decomposed(b: TargetBuilder, node: oir.Node) -> oir.Value | None:
    """The output of an operator on bits; None where the target has it in some type."""
    if any(b.supports(node_key(node), dtype) for dtype in INTEGERS):
        return None
    return _shifted(b, node) if node.op_type == "BitShift" else _bitwise(b, node)


_WORDS = [dtype for dtype in INTEGERS if dtype.bitwidth >= 8]
BIT_OPERATORS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{(f"Bitwise{name}", dtype): decomposed for name in _NAMES for dtype in _WORDS},
    **{("BitShift", dtype): decomposed for dtype in _UNSIGNED.values()},
}
"""The decomposition of each operator and element type."""

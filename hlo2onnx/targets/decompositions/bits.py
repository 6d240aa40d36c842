"""Operators on bits as arithmetic, for targets that have no kernels for them: exact, as sums and
products wrap around.

A shift is a product or quotient. A mask of adjacent bits is a difference of two remainders;
BitwiseOr and BitwiseXor with one follow from it. Other operands are cut into bytes, and looked up
in a table.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import INTEGERS, UNSIGNED, const_of, dtype_of, present
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder
from hlo2onnx.targets.decompositions.old_opsets import decompose_bitwise
from hlo2onnx.targets.target import node_key

T = oir.DataType

_UNSIGNED = {T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64}


def shifted(b: TargetBuilder, node: oir.Node) -> oir.Value:
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


def bitwise(b: TargetBuilder, node: oir.Node) -> oir.Value:
    """The output of BitwiseAnd, BitwiseNot, BitwiseOr or BitwiseXor."""
    operands = present(node.inputs)
    if node.op_type == "BitwiseNot":
        return decompose_bitwise(b, node)
    for x, other in (operands, operands[::-1]):
        mask = _uniform(other)
        is_same = x.shape == node.outputs[0].shape
        if (
            mask is not None
            and is_same
            and (made := _with_mask(b, node.op_type, x, mask)) is not None
        ):
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
    ones = (1 << dtype_of(x).bitwidth) - 1
    if op_type == "BitwiseXor":
        if mask == ones >> 1 or mask == ones:
            return b.Sub(_number(b, mask, x), x)
        if mask == ones - (ones >> 1):
            return b.Add(x, _number(b, mask, x))
    kept = _masked(b, x, mask, ones)
    if kept is None or op_type == "BitwiseAnd":
        return kept
    more = b.Add(x, _number(b, mask, x))
    return b.Sub(more, kept if op_type == "BitwiseOr" else b.Add(kept, kept))


def _masked(b: TargetBuilder, x: oir.Value, mask: int, ones: int) -> oir.Value | None:
    """x & mask, where the bits of the mask, or all others, are adjacent."""
    for bits, is_kept in ((mask, True), (ones - mask, False)):
        start = (bits & -bits).bit_length() - 1
        stop = bits.bit_length()
        if bits and bits == (1 << stop) - (1 << start):
            found = _between(b, x, start, stop)
            return found if is_kept else b.Sub(x, found)
    return None


def _between(b: TargetBuilder, x: oir.Value, start: int, stop: int) -> oir.Value:
    """x with 0 in the place of other bits than these."""
    dtype = dtype_of(x)
    width = dtype.bitwidth
    if dtype not in UNSIGNED and width - 1 in (start, stop):  # this power has no signed number
        return b.cast(_between(b, b.cast(x, _UNSIGNED[dtype]), start, stop), dtype)
    # The remainder has the sign of the divisor, so that it is that of the bits.
    below = [
        b.Mod(x, b.scalar(1 << place, dtype)) if place < width else x
        for place in (start, stop)
        if place
    ]
    return below[0] if len(below) == 1 else b.Sub(below[1], below[0])


def _number(b: TargetBuilder, bits: int, x: oir.Value) -> oir.Value:
    dtype = dtype_of(x)
    unsigned = np.dtype(f"u{dtype.itemsize:.0f}")
    return b.const(np.array(bits, unsigned).view(dtype.numpy()))


def _where_missing(decompose: Decompose) -> Decompose:
    """The decomposition for targets without a kernel in any type; None for others, which carry the
    operator in another type."""

    def decomposed(b: TargetBuilder, node: oir.Node) -> Outputs:
        if any(b.supports(node_key(node), dtype) for dtype in INTEGERS):
            return None
        return decompose(b, node)

    decomposed.__module__ = decompose.__module__
    return decomposed


_BITWISE = ("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor")
_WORDS = [dtype for dtype in INTEGERS if dtype.bitwidth >= 8]
BIT_OPERATORS: Mapping[tuple[str, oir.DataType], Decompose] = {
    **{(op_type, dtype): _where_missing(bitwise) for op_type in _BITWISE for dtype in _WORDS},
    **{("BitShift", dtype): _where_missing(shifted) for dtype in _WORDS if dtype in UNSIGNED},
}
"""The decomposition of each operator and element type."""

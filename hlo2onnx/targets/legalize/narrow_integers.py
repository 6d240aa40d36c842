"""For runtimes that compute 64-bit integers in 32 bits, and some integer operators in f32.

Such a runtime computes a node correctly if the operands and results are small enough:
* Numbers that are only moved must fit into 32 bits, and so must those of operators that the runtime
  computes in 32-bit integers.
* The numbers of all other operators must be exact in f32.
* Such a runtime may hold u32 in i32, so numbers that are compared must fit into i32.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import INTEGERS, dtype_of
from hlo2onnx.targets.legalize.carriers import MOVES
from hlo2onnx.targets.target import Target, main_dtype, node_key, node_pairs

T = oir.DataType

_NARROWED: Final = {T.INT64: T.INT32, T.UINT64: T.UINT32}
WIDE: Final = frozenset({T.INT32, T.INT64, T.UINT32, T.UINT64})
_ORDERS: Final = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_COMPARES: Final = _ORDERS | {"Equal"}
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def fits(node: oir.Node, facts: Facts, target: Target, opset: int) -> bool:
    """Whether the integers of a node are provably so small that the runtime computes it correctly.

    The runtime must compute the operator correctly for small numbers.
    """
    values = node.outputs if node.op_type in MOVES else (*node.inputs, *node.outputs)
    wide = [x for x in values if x is not None and x.dtype in WIDE]
    low, high = range_of_type(T.INT32)
    held = {*_NARROWED, T.UINT32} if node.op_type in _ORDERS else {*_NARROWED}
    if not all(_is_within(x, facts, low, high) for x in wide if x.dtype in held):
        return False
    if node.op_type == "Cast" and _is_narrow(node.outputs[0]):
        low, high = range_of_type(dtype_of(node.outputs[0]))
        return all(_is_within(x, facts, low, high) for x in node.inputs if x is not None)
    if _is_exact_in_32_bits(node, target, opset):
        return True
    small = [_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in wide]
    # Rounding keeps the order, and no number is rounded to one that f32 holds from beyond 2^24.
    return any(small) if node.op_type in _COMPARES else all(small)


def _is_narrow(x: oir.Value) -> bool:
    return dtype_of(x) in INTEGERS and dtype_of(x).bitwidth < 32


def chooses_rightly(node: oir.Node, facts: Facts) -> bool:
    """Whether a Where is right in a runtime that fuses it with a comparison, in f32."""
    condition, *chosen = [x for x in node.inputs if x is not None]
    if condition.producer() is None or dtype_of(chosen[0]) not in WIDE:
        return True
    return all(_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in chosen)


def _is_exact_in_32_bits(node: oir.Node, target: Target, opset: int) -> bool:
    """Whether the runtime computes the node in 32-bit integers, and not in f32."""
    pairs = node_pairs(node)
    if not pairs:
        own = T.UINT32 if main_dtype(node) == T.UINT32 else T.INT32
        return target.supports(node_key(node), own, opset)
    return all(
        target.supports_pair(key, _NARROWED.get(first, first), _NARROWED.get(second, second), opset)
        for key, first, second in pairs
    )


def _is_within(x: oir.Value, facts: Facts, low: int, high: int) -> bool:
    known = facts.int_range(x)
    return known is not None and known.within(low, high)


def why_not(dtype: oir.DataType, target: str) -> tuple[str, str]:
    """Why integers that do not fit are refused, and what the user can do."""
    if dtype in _NARROWED:
        return (
            f"{target} computes 64-bit integers in 32 bits, and these may not fit",
            "convert to int32 before this op, or clamp to numbers of 32 bits",
        )
    return (
        f"{target} computes large integers in f32, and these may not fit",
        "convert to int16 before this op, or clamp to numbers below 2^24",
    )
